"""Columns of a tail whose values only the lake will know, because it decides them when it writes: folders by
its clock.

Whether a question uses such a column is decided by DuckDB's own plan: in the tail the column has a mark on
its name, and DuckDB's scan of the tail lists the columns that it reads. A question that uses none is answered
with the tail; another one without it, and with the number of rows that are missing. To count rows, DuckDB
reads the first column, which is never a folder by the clock: these come behind the fields of values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

import duckdb
import pyarrow as pa

from headrace.query.questions import TablePlan
from headrace.query.sources import TailView

_MARK: Final = "only the lake knows: "


def marked(rows: pa.Table, unknown: Sequence[str]) -> pa.Table:
    """With marks on the names of these columns."""
    marks = marked_names(unknown)
    return rows.rename_columns([marks.get(name, name) for name in rows.column_names])


def marked_names(unknown: Sequence[str]) -> dict[str, str]:
    return {name: f"{_MARK}{name}" for name in unknown}


def uses_unknown(connection: duckdb.DuckDBPyConnection, sql: str, parameters: list[object] | None) -> bool:
    """Whether the plan of a question reads such a column of a tail; also if it has none."""
    try:
        plan = connection.execute(f"EXPLAIN (FORMAT JSON) {sql}", parameters).fetchall()
    except duckdb.Error:
        # Running it will say why.
        return True
    return any(_MARK in str(part) for row in plan for part in row)


def without_rows(plan: TablePlan) -> TablePlan:
    """With the records of the tail as missing."""
    tail = plan.tail
    assert tail is not None
    names = ", ".join(tail.unknown)
    reason = f"the lake decides {names} when it writes, and the question uses such a column"
    return dataclasses.replace(
        plan,
        tail=TailView(
            chunks=(),
            starts=tail.starts,
            reached=tail.starts,
            behind=tail.behind + rows_behind(tail),
            reason="; ".join(filter(None, [tail.reason, reason])),
        ),
    )


def rows_behind(tail: TailView) -> int:
    """The rows of chunks; one that begins before the start counts from there, by its offsets."""
    return sum(
        min(chunk.rows, max(0, chunk.end - tail.starts.get(chunk.partition, 0))) for chunk in tail.chunks
    )
