"""What a table's own history says: the marks cached in its newest commit, and the number of the last write.

The cache counts only while nothing has touched rows since: after a RESTORE or a DELETE the marks must come from the rows.
Reads the Delta log with delta-rs, without a JVM; never writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deltalake import DeltaTable

from headrace.lake.marks import Marks, marks_from_metadata

# Commits that move rows between files or change settings, but never the set of rows.
_KEEPS_ROWS: Final = frozenset({"OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "REORG"})
# Past so many commits without marks the rows are asked, which is always right.
_COMMITS_TO_LOOK_AT: Final = 50
_MAKES_EMPTY: Final = frozenset({"CREATE TABLE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """The newest version, the cached marks (None: ask the rows) and the last write number of one writer."""

    version: int
    marks: Marks | None
    write_number: int


def read_state(path: Path, *, writer: str) -> TableState | None:
    """State of the table at `path`, or None where there is none."""
    if not DeltaTable.is_deltatable(str(path)):
        return None
    table = DeltaTable(str(path))
    number = table.transaction_version(writer)
    return TableState(
        version=table.version(),
        marks=_cached_marks(table),
        write_number=-1 if number is None else number,
    )


def _cached_marks(table: DeltaTable) -> Marks | None:
    for commit in table.history(limit=_COMMITS_TO_LOOK_AT):  # newest first
        marks = marks_from_metadata(commit.get("userMetadata"))
        if marks is not None:
            return marks
        if commit.get("operation") in _MAKES_EMPTY:
            return Marks()
        if commit.get("operation") not in _KEEPS_ROWS:
            return None
    return None
