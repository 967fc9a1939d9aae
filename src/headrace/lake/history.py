"""Reads a table's own history: the marks cached in its newest commit.

The cache is valid only if no rows have been touched since: after a RESTORE or a DELETE the marks must come
from the rows. Reads the Delta log with delta-rs, without a JVM; never writes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from deltalake import DeltaTable

from headrace.lake.marks import Marks, marks_from_metadata

# Commits that move rows between files or change settings, but never change the set of rows.
_KEEPS_ROWS: Final = frozenset(
    {"OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "REORG"}
)
# After this many commits without marks, the rows are read, which is always correct.
_COMMITS_TO_LOOK_AT: Final = 50
_MAKES_EMPTY: Final = frozenset({"CREATE TABLE"})


def cached_marks(path: Path) -> Marks | None:
    """The marks as of the newest version, or None if they must be computed from the rows."""
    table = DeltaTable(str(path))
    for commit in table.history(limit=_COMMITS_TO_LOOK_AT):  # newest first
        marks = marks_from_metadata(commit.get("userMetadata"))
        if marks is not None:
            return marks
        if commit.get("operation") in _MAKES_EMPTY:
            return Marks()
        if commit.get("operation") not in _KEEPS_ROWS:
            return None
    return None
