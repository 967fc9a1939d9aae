"""Errors in a statement of Druid SQL, with the place where they are."""

from __future__ import annotations

from dataclasses import dataclass

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
    before = sql[:offset]
    return Place(line=before.count("\n") + 1, column=offset - before.rfind("\n"))
