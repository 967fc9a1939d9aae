"""A table of the lake at one version, as values.

Apart from `snapshots.py`, which reads them, so that a process that only uses them does not load delta-rs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column's name and its DuckDB type."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSnapshot:
    """One table at one version.

    `unreadable` says why the files alone do not give the table's rows, and is empty if they do. `time_column`
    is the table's property `headrace.time.column`.
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


def quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'
