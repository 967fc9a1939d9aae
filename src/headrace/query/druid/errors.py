"""Errors in a statement of Druid SQL, with the place where they are."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass
from functools import lru_cache

from headrace.core.errors import HeadraceError


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A line and a column of a statement, both from 1."""

    line: int
    column: int


class DruidSqlError(HeadraceError):
    """A statement that is not answered. `unsupported`: Druid would answer it, we do not."""

    def __init__(
        self, message: str, *, remedy: str = "", place: Place | None = None, unsupported: bool = False
    ) -> None:
        where = f" (line {place.line}, column {place.column})" if place else ""
        super().__init__("query_failed", f"{message.rstrip('.')}{where}.", remedy=remedy)
        self.place = place
        self.unsupported = unsupported


def place_in(sql: str, offset: int) -> Place:
    """The place of a character of the statement."""
    starts = _line_starts(sql)
    line = bisect.bisect_right(starts, offset)
    return Place(line=line, column=offset - starts[line - 1] + 1)


@lru_cache(1)
def _line_starts(sql: str) -> list[int]:
    """Kept, because every call in a long statement has a place."""
    return [0, *(match.end() for match in re.finditer("\n", sql))]
