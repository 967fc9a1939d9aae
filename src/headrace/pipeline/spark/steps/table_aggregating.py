"""Aggregate of a table: a row for each group of the table's current rows.

Spark's aggregates cannot undo a row's former value. So a copy of the table is kept (`table_copy.py`), and a
batch of changes determines which groups may have changed: the former and the current groups of the changed
rows. Only these are aggregated again. A group that has lost all its rows stays, with the aggregates of no
rows: a count of 0, a sum of 0, an empty list. This is as in ksqlDB, which undoes rows one by one.

Crash behaviour: a batch begins with the snapshot of the copy from before it, so a repeated batch gives the
same results again, whether or not it was added to the copy.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.pipeline.plan import Aggregate, Filter, Read, Step
from headrace.pipeline.spark.steps import rows as names
from headrace.pipeline.spark.steps.aggregating import aggregate_rows, aggregates_of_nothing
from headrace.pipeline.spark.steps.filtering import filter_rows
from headrace.pipeline.spark.steps.rows import Rows, column
from headrace.pipeline.statements.tree import SourceKind

_CHANGED = "__changed"

Decode = Callable[[Read, DataFrame], Rows]


def aggregated_table(step: Step) -> Read | None:
    """The aggregated table, if the step aggregates a table."""
    if not isinstance(step, Aggregate):
        return None
    source = step.input
    while isinstance(source, Filter):
        source = source.input
    return source if isinstance(source, Read) and source.source.kind is SourceKind.TABLE else None


def aggregate_table(
    step: Aggregate,
    *,
    before: DataFrame,
    after: DataFrame,
    batch: DataFrame,
    decode: Decode,
    passes_through: bool = False,
) -> Rows:
    """The groups that a batch of a table's records affects, from the table's records before and after it.

    `passes_through`: also those that a row of the table was in only in between. That is for a batch which
    covers several former ones: they wrote those groups.
    """
    changed = batch.filter(F.col("key").isNotNull()).select(F.col("key").alias(_CHANGED)).distinct()
    now = _standing(step.input, after, decode)
    groups = _groups(step, _standing(step.input, before, decode), changed).union(_groups(step, now, changed))
    if passes_through:
        groups = groups.union(_groups(step, _standing(step.input, batch, decode), changed))
    concerned = groups.distinct()
    keys = [F.expr(key.value.spark) for key in step.keys]
    same = F.lit(True)
    for number, key in enumerate(keys):
        same = same & (key == column(_group(number)))
    counted = aggregate_rows(step, Rows(frame=now.frame.join(concerned, same, "left_semi"), is_table=False))
    found = F.lit(True)
    for number, named in enumerate(step.keys):
        found = found & (column(_group(number)) == column(named.name))
    emptied = concerned.join(counted.frame, found, "left_anti").crossJoin(
        F.broadcast(aggregates_of_nothing(step, now))
    )
    left = emptied.select(
        *(column(_group(number)).alias(key.name) for number, key in enumerate(step.keys)),
        *(column(call.name) for call in step.calls),
        F.unix_millis(F.current_timestamp()).alias(names.ROWTIME),
        F.lit(False).alias(names.DELETED),
    )
    return Rows(frame=counted.frame.unionByName(left), is_table=True)


def _standing(step: Step, records: DataFrame, decode: Decode) -> Rows:
    if isinstance(step, Filter):
        return filter_rows(step, _standing(step.input, records, decode))
    assert isinstance(step, Read)
    rows = decode(step, records)
    # From here on these are rows, not changes, so filters drop them.
    present = names.good(rows).filter(~column(names.DELETED))
    return Rows(frame=present, is_table=False)


def _groups(step: Aggregate, rows: Rows, changed: DataFrame) -> DataFrame:
    concerned = rows.frame.join(changed, column(names.KEY) == column(_CHANGED), "left_semi")
    groups = concerned.select(
        *(F.expr(key.value.spark).alias(_group(number)) for number, key in enumerate(step.keys))
    )
    return groups.dropna()


def _group(number: int) -> str:
    return f"__group_{number}"
