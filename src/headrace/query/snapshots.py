"""The lake's tables at their newest Delta version: the files of that version and the table's columns.

Owns the cached Delta logs; checking an unchanged table costs two file lookups. Invariants: a snapshot lists
exactly the files of its Delta version, whatever else is in the folder; a table that was deleted and recreated
is noticed, even if its version numbers are the same. Thread-safe. Never reads a data file and never writes.
"""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from headrace.query.table_snapshot import Column, TableSnapshot, quoted

__all__ = [
    "Column",
    "FollowedTable",
    "LakeTables",
    "TableSnapshot",
    "duckdb_type",
    "quoted",
    "snapshot_at",
]

LOG_FOLDER: Final = "_delta_log"
# A table's property: which of its columns is the time of its rows.
TIME_COLUMN: Final = "headrace.time.column"

_DUCKDB_TYPES: Final[dict[str, str]] = {
    "binary": "BLOB",
    "boolean": "BOOLEAN",
    "byte": "TINYINT",
    "date": "DATE",
    "double": "DOUBLE",
    "float": "FLOAT",
    "integer": "INTEGER",
    "long": "BIGINT",
    "short": "SMALLINT",
    "string": "VARCHAR",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
}

_logger = logging.getLogger(__name__)


class LakeTables:
    """The Delta tables in the lake's folder, one subfolder each."""

    def __init__(self, lake_dir: Path) -> None:
        self._lake_dir = lake_dir
        self._lock = threading.Lock()
        self._followed: dict[str, FollowedTable] = {}
        # With the identities of their commits: a table that was repaired has others with the same numbers.
        self._snapshots: dict[str, tuple[TableSnapshot, object]] = {}

    def current(self) -> dict[str, TableSnapshot]:
        """All tables by name, each at its newest version."""
        with self._lock:
            found: dict[str, TableSnapshot] = {}
            read: dict[str, tuple[TableSnapshot, object]] = {}
            for name in self._table_names():
                table = self._followed.setdefault(name, FollowedTable(self._lake_dir / name))
                try:
                    if table.refresh():
                        found[name] = self._snapshot(name, table)
                        read[name] = (found[name], table.newest_commit)
                except DeltaError as error:
                    # The other tables still work; queries on this one are told why it does not.
                    found[name] = _broken_table(name, self._lake_dir / name, error)
            for name in self._followed.keys() - found.keys():
                del self._followed[name]
            self._snapshots = read
            return found

    def _table_names(self) -> list[str]:
        if not self._lake_dir.is_dir():
            return []
        names = sorted(child.name for child in self._lake_dir.iterdir() if (child / LOG_FOLDER).is_dir())
        # SQL ignores case, folders do not: the first of several spellings gets the name.
        by_folded_name = {name.casefold(): name for name in reversed(names)}
        return sorted(by_folded_name.values())

    def _snapshot(self, name: str, table: FollowedTable) -> TableSnapshot:
        known, commit = self._snapshots.get(name, (None, None))
        delta = table.delta
        table_id = str(delta.metadata().id)
        if (
            known is not None
            and commit == table.newest_commit
            and (known.table_id, known.version) == (table_id, delta.version())
        ):
            return known
        return _read_snapshot(name, self._lake_dir / name, table_id, delta)


class FollowedTable:
    """A Delta log that is read once and then followed. Not locked: its owner guards it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._delta: DeltaTable | None = None
        self._newest_commit: tuple[int, int, int] | None = None

    @property
    def delta(self) -> DeltaTable:
        if self._delta is None:
            raise RuntimeError(f"{self._folder} was not refreshed, or contains no table")
        return self._delta

    @property
    def newest_commit(self) -> object:
        """Tells the commit of the newest version from others with its number."""
        return self._newest_commit

    def refresh(self) -> bool:
        """Advance to the newest version. False if the folder contains no table, or no longer does."""
        if self._delta is not None and self._newest_commit == self._identity_of_commit(self._delta.version()):
            if self._identity_of_commit(self._delta.version() + 1) is None:
                return (
                    True  # checking for one file is far cheaper than listing a log of many thousand commits
                )
            try:
                self._delta.update_incremental()
            except DeltaError as error:
                # A log that was cleaned up or recreated cannot be followed from the current version.
                _logger.info("Rereading the log of %s: %s", self._folder, error)
                self._delta = None
        else:
            self._delta = None
        if self._delta is None:
            try:
                self._delta = DeltaTable(self._folder)
            except TableNotFoundError:
                return False
        self._newest_commit = self._identity_of_commit(self._delta.version())
        return True

    def _identity_of_commit(self, version: int) -> tuple[int, int, int] | None:
        """Distinguishes a commit from one with the same number in a table that was deleted and recreated."""
        try:
            status = (self._folder / LOG_FOLDER / f"{version:020d}.json").stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns


def duckdb_type(delta_type: Any) -> str:
    """The DuckDB type for a Delta type as written in a table's schema. ValueError if there is none."""
    if isinstance(delta_type, str):
        if delta_type.startswith("decimal("):
            return delta_type.upper()
        if delta_type in _DUCKDB_TYPES:
            return _DUCKDB_TYPES[delta_type]
    elif delta_type["type"] == "struct":
        fields = (f"{quoted(field['name'])} {duckdb_type(field['type'])}" for field in delta_type["fields"])
        return f"STRUCT({', '.join(fields)})"
    elif delta_type["type"] == "array":
        return f"{duckdb_type(delta_type['elementType'])}[]"
    elif delta_type["type"] == "map":
        return f"MAP({duckdb_type(delta_type['keyType'])}, {duckdb_type(delta_type['valueType'])})"
    raise ValueError(f"the Delta type {delta_type!r} has no counterpart in DuckDB")


def snapshot_at(newest: TableSnapshot, version: int) -> TableSnapshot:
    """The table at another version. Raises DeltaError if its log does not have that version."""
    delta = DeltaTable(newest.folder, version=version)
    return _read_snapshot(newest.name, newest.folder, str(delta.metadata().id), delta)


def _read_snapshot(name: str, folder: Path, table_id: str, delta: DeltaTable) -> TableSnapshot:
    columns: tuple[Column, ...] = ()
    files: tuple[str, ...] = ()
    unreadable = _unsupported_feature(delta)
    try:
        fields = json.loads(delta.schema().to_json())["fields"]
        columns = tuple(Column(name=field["name"], type=duckdb_type(field["type"])) for field in fields)
        files = tuple(
            _local_path(folder, path) for path in delta.get_add_actions().column("path").to_pylist()
        )
    except ValueError as error:
        unreadable = unreadable or str(error)
    return TableSnapshot(
        name=name,
        folder=folder,
        table_id=table_id,
        version=delta.version(),
        columns=columns,
        partition_columns=tuple(delta.metadata().partition_columns),
        files=files,
        unreadable=unreadable,
        time_column=delta.metadata().configuration.get(TIME_COLUMN, ""),
    )


def _local_path(folder: Path, path: str) -> str:
    """Turn a path in the log into a file system path; `file_uris` fails if the folder's name has a space."""
    if path.startswith("/") or "://" in path:
        raise ValueError(f"its file {path} is outside its folder")
    return f"{folder}/{unquote(path)}"


def _broken_table(name: str, folder: Path, error: DeltaError) -> TableSnapshot:
    return TableSnapshot(
        name=name,
        folder=folder,
        table_id="",
        version=-1,
        columns=(),
        partition_columns=(),
        files=(),
        unreadable=f"its Delta log cannot be read: {error}",
    )


def _unsupported_feature(delta: DeltaTable) -> str:
    """Features that change what the rows of a Parquet file mean: ignoring them would give wrong answers."""
    mapping = delta.metadata().configuration.get("delta.columnMapping.mode", "none")
    if mapping != "none":
        return f"it maps column names (delta.columnMapping.mode = {mapping})"
    features = delta.protocol().reader_features or []
    if "deletionVectors" in features and any(batch.num_rows > 0 for batch in delta.deletion_vectors()):
        return "it has deletion vectors, which mark rows of its files as deleted"
    return ""
