"""The lake's tables as Druid's datasources: their columns, and which of these is `__time`.

Every datasource of Druid has a column `__time`, on which clients filter and group. A table of the lake has it
under another name: the one in its property `headrace.time.column`, otherwise its first column of type
TIMESTAMP, otherwise `_POSTED_AT`. The other columns keep their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.lake.layout import COORDINATE_COLUMNS, POSTED_AT
from headrace.query.druid.kinds import BIGINT, DATE, INSTANT, TIMESTAMP, VARCHAR, DruidType, Kind, column_type
from headrace.query.snapshots import Column, TableSnapshot

TIME: Final = "__time"

_COORDINATES: Final = frozenset(column.name for column in COORDINATE_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class DruidTable:
    """A table with its columns and their DuckDB types. `time_column` is empty if it has no time."""

    name: str
    columns: tuple[Column, ...]
    time_column: str = ""

    @property
    def has_time(self) -> bool:
        return bool(self.time_column)

    @property
    def types(self) -> dict[str, DruidType]:
        """All columns as a client sees them, `__time` first."""
        own = {column.name: column_type(column.type) for column in self.columns}
        if not self.has_time:
            return own
        kind = own[self.time_column].kind
        return {TIME: INSTANT if kind is Kind.INSTANT else TIMESTAMP, **own}


def druid_tables(snapshots: Sequence[TableSnapshot]) -> tuple[DruidTable, ...]:
    """The readable ones."""
    return tuple(druid_table(each) for each in snapshots if not each.unreadable)


def druid_table(snapshot: TableSnapshot) -> DruidTable:
    return DruidTable(
        name=snapshot.name,
        columns=snapshot.columns,
        time_column=time_column(snapshot.columns, chosen=snapshot.time_column),
    )


def time_column(columns: Sequence[Column], *, chosen: str = "") -> str:
    """The name of the column that is `__time`; `chosen` by the table's property, if it can be one."""
    by_folded = {column.name.casefold(): column for column in columns}
    named = by_folded.get(chosen.casefold()) or by_folded.get(TIME)
    if named is not None and column_type(named.type) in (TIMESTAMP, INSTANT, DATE, VARCHAR, BIGINT):
        return named.name
    for column in columns:
        if column.name not in _COORDINATES and column_type(column.type) in (TIMESTAMP, INSTANT):
            return column.name
    posted = by_folded.get(POSTED_AT.casefold())
    return posted.name if posted is not None else ""
