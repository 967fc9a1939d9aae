"""What the log of a table in a bucket says, as the snapshot that questions read.

Owns the statistics of files as Arrow: for each column that a condition can be compared with, the smallest
and the largest value of each file, as text; the value itself for columns of partitions. Null means unknown.
A value is a bound, not always a value of a row: long text may be cut, and the times in a log are in whole
milliseconds, rounded down (`workers/file_pruning.py` allows for that). Reads a log only for an old version.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.ipc
from deltalake.exceptions import DeltaError

from headrace.core.errors import HeadraceError
from headrace.lake.delta_log import DeltaLog
from headrace.lake.location import Location
from headrace.lake.sink import S3Storage
from headrace.lake.storage.s3 import S3Files
from headrace.lake.storage.table_files import TableFiles
from headrace.lake.table_state import DataFile, TableState
from headrace.query.buckets.statistics import LARGEST, SMALLEST
from headrace.query.snapshots import TIME_COLUMN, duckdb_type
from headrace.query.table_snapshot import STORED, BucketSnapshot, Column, StoredFiles

# What a reader must know about; these change nothing as long as no file makes use of them.
_HARMLESS_FEATURES: Final = frozenset(
    {"columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "vacuumProtocolCheck"}
)
_NAMES_FEATURES: Final = 3
# Not floating point: NaN is the largest number for DuckDB, and in no statistics. Not decimals with more
# digits than a double has: some writers pass them through one.
_COMPARABLE: Final = re.compile(
    r"BIGINT|DATE|INTEGER|SMALLINT|TIMESTAMP( WITH TIME ZONE)?|TINYINT|VARCHAR|DECIMAL\((\d|1[0-5]),\d+\)"
)

Bounds = tuple[Mapping[str, str], Mapping[str, str]]


class FileBounds:
    """The smallest and largest values of files, each parsed once."""

    def __init__(self) -> None:
        self._known: dict[str, Bounds] = {}

    def of(self, files: Mapping[str, DataFile]) -> list[Bounds]:
        self._known = {name: self._known.get(name) or _bounds(file) for name, file in files.items()}
        return list(self._known.values())


def bucket_snapshot(name: str, location: Location, state: TableState, bounds: FileBounds) -> BucketSnapshot:
    """The table at the version of the state."""
    metadata = state.metadata
    table_id = str(metadata.get("id", ""))
    partition_columns = state.partition_columns
    columns: tuple[Column, ...] = ()
    objects: dict[str, tuple[str, int]] = {}
    statistics = b""
    unreadable = _unsupported(state)
    try:
        described = json.loads(metadata["schemaString"])["fields"]
        columns = tuple(Column(name=each["name"], type=duckdb_type(each["type"])) for each in described)
        root = _root(location, table_id)
        objects = {f"{root}/{each}": (each, file.size) for each, file in state.files.items()}
        statistics = _statistics(columns, partition_columns, state, bounds)
    except (KeyError, ValueError) as error:
        unreadable = unreadable or str(error)
    return BucketSnapshot(
        name=name,
        folder=Path(str(location)),
        table_id=table_id,
        version=state.version.number,
        columns=columns,
        partition_columns=partition_columns,
        files=tuple(objects),
        unreadable=unreadable,
        time_column=str((metadata.get("configuration") or {}).get(TIME_COLUMN, "")),
        stored=StoredFiles(sizes=tuple(size for _, size in objects.values()), statistics=statistics),
        location=location,
        objects=objects,
    )


def bucket_snapshot_at(newest: BucketSnapshot, version: int) -> BucketSnapshot:
    """The table at another version. Raises DeltaError if its log does not have it, and bucket_unavailable."""
    try:
        state = TableState(DeltaLog(newest.location, opens=hasty_files), at=version)
    except (FileNotFoundError, ValueError) as error:
        raise DeltaError(str(error)) from error
    except OSError as error:
        raise unavailable(newest.name, str(error)) from error
    return bucket_snapshot(newest.name, newest.location, state, FileBounds())


def hasty_files(location: Location) -> TableFiles:
    """Of a bucket, whose server has some seconds to answer."""
    assert isinstance(location.storage, S3Storage)
    return S3Files(location.storage, location.key, is_hasty=True)


def unavailable(table: str, reason: str) -> HeadraceError:
    return HeadraceError(
        "bucket_unavailable",
        f"The table {table} cannot be read now: {reason.rstrip('.')}.",
        remedy="Check that the bucket and its server can be reached from here, and the credentials of the "
        "connector that writes the table; then ask again.",
    )


def missing_snapshot(name: str, location: Location, reason: str) -> BucketSnapshot:
    """A table that cannot be read now."""
    return BucketSnapshot(
        name=name,
        folder=Path(str(location)),
        table_id="",
        version=-1,
        columns=(),
        partition_columns=(),
        files=(),
        unreadable=reason,
        stored=StoredFiles(sizes=(), statistics=b""),
        location=location,
        objects={},
    )


def _root(location: Location, table_id: str) -> str:
    """Names the table in DuckDB's paths: without the characters that have a meaning there."""
    digest = hashlib.sha256(f"{location}\0{table_id}".encode()).hexdigest()
    return f"{STORED}{digest[:32]}"


def _statistics(
    columns: Sequence[Column], partition_columns: Sequence[str], state: TableState, bounds: FileBounds
) -> bytes:
    files = list(state.files.values())
    found = bounds.of(state.files)
    arrays: dict[str, pa.Array] = {}
    for number, column in enumerate(columns):
        if not _COMPARABLE.fullmatch(column.type):
            continue
        smallest: list[str | None]
        largest: list[str | None]
        if column.name in partition_columns:
            smallest = largest = [dict(file.partition).get(column.name) for file in files]
        else:
            smallest = [each[0].get(column.name) for each in found]
            largest = [each[1].get(column.name) for each in found]
        if any(each is not None for each in (*smallest, *largest)):
            arrays[f"{SMALLEST}{number}"] = pa.array(smallest, pa.string())
            arrays[f"{LARGEST}{number}"] = pa.array(largest, pa.string())
    if not arrays:
        return b""
    table = pa.table({"file": pa.array(range(len(files)), pa.int64()), **arrays})
    sink = pa.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _bounds(file: DataFile) -> Bounds:
    # Numbers stay the text that they are: a decimal may have more digits than a double.
    stats = file.action.get("stats")
    try:
        found = json.loads(stats, parse_float=str, parse_int=str) if stats else {}
    except ValueError:
        return {}, {}
    return _texts(found.get("minValues")), _texts(found.get("maxValues"))


def _texts(values: Any) -> dict[str, str]:
    return {name: value for name, value in (values or {}).items() if isinstance(value, str)}


def _unsupported(state: TableState) -> str:
    """Why the rows of the files alone are not those of the table; empty if they are."""
    mapping = (state.metadata.get("configuration") or {}).get("delta.columnMapping.mode", "none")
    if mapping != "none":
        return f"it maps column names (delta.columnMapping.mode = {mapping})"
    reader = int(state.protocol.get("minReaderVersion", 1))
    unknown = set(state.protocol.get("readerFeatures") or ()) - _HARMLESS_FEATURES
    if reader > _NAMES_FEATURES:
        return f"it needs version {reader} of Delta's protocol"
    if unknown:
        return f"it needs features of Delta that are not supported: {', '.join(sorted(unknown))}"
    if any(file.has_deletions for file in state.files.values()):
        return "it has deletion vectors, which mark rows of its files as deleted"
    outside = next((each for each in state.files if each.startswith("/") or "://" in each), None)
    return f"its file {outside} is outside its folder" if outside is not None else ""
