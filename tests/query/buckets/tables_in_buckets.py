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
    write_deltalake(
        f"s3://{table.storage.bucket}/{table.key}", rows, storage_options=options(table.storage), **given
    )


def buckets_at(folder: Path, *places: Location, most_bytes: int = 256 * MEGABYTE) -> Buckets:
    """With a cache in the folder."""
    return Buckets(
        tables=BucketTables(Places(*places)),
        reader=BucketReader(folder / "bucket-cache", most_bytes=most_bytes),
    )


@contextmanager
def asking(
    folder: Path,
    *places: Location,
    tails: Tails | None = None,
    buckets: Buckets | None = None,
    **limits: Any,
) -> Iterator[LakeQuery]:
    """Questions on the tables in `folder/lake`, and at these places or in `buckets`."""
    buckets = buckets or buckets_at(folder, *places)
    query = LakeQuery(folder / "lake", tails=tails, buckets=buckets, **limits)
    try:
        yield query
    finally:
        query.close()


def upload(folder: Path, table: Location) -> None:
    """Put a table of this machine in place of the one that is there, file by file."""
    assert isinstance(table.storage, S3Storage)
    client = client_of(table.storage)
    bucket = table.storage.bucket
    found = client.list_objects_v2(Bucket=bucket, Prefix=f"{table.key}/")
    for each in found.get("Contents", ()):
        client.delete_object(Bucket=bucket, Key=each["Key"])
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            key = f"{table.key}/{file.relative_to(folder)}"
            client.put_object(Bucket=bucket, Key=key, Body=file.read_bytes())


def client_of(storage: S3Storage) -> Any:
    import boto3  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    return boto3.client(
        "s3",
        endpoint_url=storage.endpoint_url,
        region_name=storage.region,
        aws_access_key_id=storage.access_key,
        aws_secret_access_key=storage.secret_key,
        config=Config(s3={"addressing_style": "path"}),
    )
