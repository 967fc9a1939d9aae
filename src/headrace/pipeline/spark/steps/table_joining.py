"""TableJoin: joins two tables into a table, by their keys or by a foreign key.

A change on either side determines which rows of the result may have changed. Those rows are computed again
from the current rows of both tables; a row that no longer exists becomes a deletion. So there is no state
except the tables' topics, and a repeated batch gives the same result or a newer one. A row that changes twice
in a batch, or on both sides, appears more than once; the writer keeps one (`stateful/`).

With a foreign key the result has the keys of the left table; a change on the right affects all rows of the
left that refer to it.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.pipeline.expressions.computed import Computed
from headrace.pipeline.plan import Read, TableJoin
from headrace.pipeline.spark.steps import rows as names
from headrace.pipeline.spark.steps.rows import Rows, column, columns, good
from headrace.pipeline.spark.steps.stream_joining import SPARK_KINDS
from headrace.pipeline.statements.queries import JoinKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table as its current rows, and as the keys of changed rows (`__key_0`, … and the time).

    `keys` are expressions over the current rows; `known` are the columns that equal the key at that position,
    for deleted rows.
    """

    standing: Rows
    changed: DataFrame
    keys: tuple[str, ...]
    known: tuple[frozenset[str], ...]


def read_table(read: Read, *, standing: Rows, changes: Rows) -> Table:
    places = [f"{read.alias}.{key.name}" for key in read.source.key]
    changed = good(changes).select(
        *(column(place).alias(_key(number)) for number, place in enumerate(places)), column(names.ROWTIME)
    )
    return Table(
        standing=standing,
        changed=changed,
        keys=tuple(_quoted(place) for place in places),
        known=tuple(frozenset({place}) for place in places),
    )


def join_tables(step: TableJoin, left: Table, right: Table) -> Table:
    standing = _standing(step, left.standing, right.standing)
    if step.by_foreign_key:
        referring = left.standing.frame.select(
            *(F.expr(key).alias(_key(number)) for number, key in enumerate(left.keys)),
            F.expr(step.left_key.spark).alias("__reference"),
        )
        referred = right.changed.select(column(_key(0)).alias("__referred"), column(names.ROWTIME))
        moved = referred.join(referring, column("__referred") == column("__reference"))
        changed = left.changed.unionByName(moved.select(*left.changed.columns))
        return Table(standing=standing, changed=changed, keys=left.keys, known=left.known)
    return Table(
        standing=standing,
        changed=left.changed.unionByName(right.changed),
        keys=(_result_key(step.kind, step.left_key, step.right_key),),
        known=(left.known[0] | right.known[0],),
    )


def changes_of(table: Table) -> Rows:
    """The changed rows of the result with their current values, and deletions for removed ones."""
    marked = table.standing.frame.withColumns(
        {f"__standing_{number}": F.expr(key) for number, key in enumerate(table.keys)}
        | {"__standing_time": column(names.ROWTIME)}
    ).drop(names.ROWTIME)
    condition = F.lit(True)
    for number in range(len(table.keys)):
        condition = condition & (column(_key(number)) == column(f"__standing_{number}"))
    joined = table.changed.join(marked, condition, "left_outer")
    is_gone = column("__standing_0").isNull()
    made = [_known(table, name, is_gone).alias(name) for name in table.standing.visible]
    frame = joined.select(
        *made,
        F.greatest(column(names.ROWTIME), column("__standing_time")).alias(names.ROWTIME),
        is_gone.alias(names.DELETED),
    )
    return Rows(frame=frame, is_table=True)


def _standing(step: TableJoin, left: Rows, right: Rows) -> Rows:
    ours = left.frame.filter(~column(names.DELETED)).select(
        *columns(left.visible), column(names.ROWTIME).alias("__left_time")
    )
    theirs = right.frame.filter(~column(names.DELETED)).select(
        *columns(right.visible), column(names.ROWTIME).alias("__right_time")
    )
    joined = ours.join(
        theirs, F.expr(f"{step.left_key.spark} = {step.right_key.spark}"), SPARK_KINDS[step.kind]
    )
    frame = joined.select(
        *columns([*left.visible, *right.visible]),
        F.greatest(column("__left_time"), column("__right_time")).alias(names.ROWTIME),
        F.lit(False).alias(names.DELETED),
    )
    return Rows(frame=frame, is_table=True)


def _result_key(kind: JoinKind, left: Computed, right: Computed) -> str:
    if kind is JoinKind.FULL:
        return f"coalesce({left.spark}, {right.spark})"
    return right.spark if kind is JoinKind.RIGHT else left.spark


def _known(table: Table, name: str, is_gone: Column) -> Column:
    for number, equal in enumerate(table.known):
        if name in equal:
            return F.when(is_gone, column(_key(number))).otherwise(column(name))
    return column(name)


def _key(number: int) -> str:
    return f"__key_{number}"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
