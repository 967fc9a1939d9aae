"""A table of the lake at one version, as values.

Apart from `snapshots.py`, which reads them, so that a process that only uses them does not load delta-rs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from headrace.lake.location import Location, located

# Before the names of files that are in buckets, as DuckDB sees them.
STORED: Final = "stored://"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column's name and its DuckDB type."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFiles:
    """Of a table in a bucket: the sizes of its files, in their order, and `statistics`, an Arrow stream of
    what its log says of their columns (`workers/file_pruning.py` reads it).
    """

    sizes: tuple[int, ...]
    statistics: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSnapshot:
    """One table at one version.

    `unreadable` says why the files alone do not give the table's rows, and is empty if they do. `time_column`
    is the table's property `headrace.time.column`. If the table is in a bucket, `stored` says more, `files`
    begin with `stored://`, and `folder` is only a name.
    """

    name: str
    folder: Path
    table_id: str
    version: int
    columns: tuple[Column, ...]
    partition_columns: tuple[str, ...]
    files: tuple[str, ...]
    unreadable: str = ""
    time_column: str = ""
    stored: StoredFiles | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketSnapshot(TableSnapshot):
    """One table in a bucket, with where it is: the storage has credentials.

    A copy for another process is a plain `TableSnapshot`, so that a worker never has them.
    """

    location: Location = field(repr=False)
    # The names of the files in the bucket, by those in `files`, and their sizes.
    objects: Mapping[str, tuple[str, int]] = field(repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return _plain, tuple(getattr(self, each.name) for each in fields(TableSnapshot))


def location_of(snapshot: TableSnapshot) -> Location:
    """Where the table is."""
    return snapshot.location if isinstance(snapshot, BucketSnapshot) else located(snapshot.folder)


def _plain(*values: Any) -> TableSnapshot:
    names = (each.name for each in fields(TableSnapshot))
    return TableSnapshot(**dict(zip(names, values, strict=True)))


def quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'
