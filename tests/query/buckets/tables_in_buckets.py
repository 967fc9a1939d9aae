"""Tables in buckets for tests: written by deltalake, and questions to them without a platform."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deltalake import write_deltalake

from headrace.lake.location import Location
from headrace.lake.sink import S3Storage
from headrace.query.buckets.reading import BucketReader
from headrace.query.buckets.serving import Buckets
from headrace.query.buckets.tables import BucketTables
from headrace.query.planning import Tails
from headrace.query.sql import LakeQuery

MEGABYTE = 1024 * 1024


class Places:
    """What connectors would say."""

    def __init__(self, *places: Location) -> None:
        self.places: list[Location] = list(places)

    def in_buckets(self) -> Collection[Location]:
        return tuple(self.places)


def table_in(storage: S3Storage, name: str = "events") -> Location:
    return Location(storage=storage, key=f"topics/{name}")


def options(storage: S3Storage) -> dict[str, str]:
    """For deltalake."""
    return {
        "AWS_ENDPOINT_URL": storage.endpoint_url,
        "AWS_REGION": storage.region,
        "AWS_ACCESS_KEY_ID": storage.access_key,
        "AWS_SECRET_ACCESS_KEY": storage.secret_key,
        "AWS_ALLOW_HTTP": "true",
        "AWS_S3_ALLOW_UNSAFE_RENAME": "true",
    }


def write(table: Location, rows: Any, **more: Any) -> None:
    """Append rows, as deltalake does."""
    assert isinstance(table.storage, S3Storage)
    given = {"mode": "append", **more}
    write_deltalake(f"s3://{table.storage.bucket}/{table.key}", rows, storage_options=options(table.storage), **given)


@contextmanager
def asking(
    folder: Path,
    *places: Location,
    tails: Tails | None = None,
    most_bytes: int = 256 * MEGABYTE,
    **limits: Any,
) -> Iterator[LakeQuery]:
    """Questions on the tables in `folder/lake` and at these places."""
    buckets = Buckets(
        tables=BucketTables(Places(*places)),
        reader=BucketReader(folder / "bucket-cache", most_bytes=most_bytes),
    )
    query = LakeQuery(folder / "lake", tails=tails, buckets=buckets, **limits)
    try:
        yield query
    finally:
        query.close()
