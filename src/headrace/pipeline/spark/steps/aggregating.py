"""Aggregate: a row for each group, and for each window of it.

Rows with a null grouping key are ignored, as in ksqlDB. The time of a group is that of its newest row.
Windows close by a watermark: the newest time so far, minus the grace period. Spark advances it between
batches, so a row that is late within its batch still counts.

Hopping windows begin at the epoch or later, as in ksqlDB; Spark also has earlier ones. Session windows end
with their last row, as in ksqlDB; in Spark they end one gap later.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.pipeline.plan import Aggregate, Filter, Read, Step
from headrace.pipeline.spark.steps import rows as names
from headrace.pipeline.spark.steps.rows import Rows, column, columns, computed, good
from headrace.pipeline.statements.queries import Window, WindowKind

# ksqlDB's default grace period.
_DEFAULT_GRACE_MS: Final = 86_400_000
_WINDOW: Final = "__window"


def aggregate_rows(step: Aggregate, rows: Rows) -> Rows:
    assert not rows.is_table, "aggregations of tables are in table_aggregating.py"
    keyed = _with_keys(step, rows)
    key_names = [_key(number) for number in range(len(step.keys))]
    grouping = columns(key_names)
    if step.window is not None:
        keyed = keyed.withWatermark(names.TIME, f"{grace_ms(step.window)} milliseconds")
        grouping.append(_window(step.window).alias(_WINDOW))
    calls = [computed(call.value).alias(call.name) for call in step.calls]
    grouped = keyed.groupBy(*grouping).agg(*calls, F.max(names.ROWTIME).alias(names.ROWTIME))
    if step.window is not None and step.window.kind is WindowKind.HOPPING:
        grouped = grouped.filter(F.col(_WINDOW)["start"] >= F.timestamp_millis(F.lit(0)))
    return Rows(frame=_named(step, grouped), is_table=True)


def aggregates_of_nothing(step: Aggregate, rows: Rows) -> DataFrame:
    """One row: the aggregates of a group that has lost all its rows."""
    nobody = _with_keys(step, rows).filter(F.lit(False))
    return nobody.agg(*(computed(call.value).alias(call.name) for call in step.calls))


def grace_ms(window: Window) -> int:
    return _DEFAULT_GRACE_MS if window.grace is None else window.grace.milliseconds


def _with_keys(step: Aggregate, rows: Rows) -> DataFrame:
    """The rows that count, with their grouping keys, their time and their order."""
    frame = good(rows).filter(~column(names.DELETED))
    keys = [computed(key.value).alias(_key(number)) for number, key in enumerate(step.keys)]
    keyed = frame.select(
        *columns(rows.visible),
        column(names.ROWTIME),
        *keys,
        _order(step, rows).alias(names.ORDER),
        F.timestamp_millis(column(names.ROWTIME)).alias(names.TIME),
    )
    for number in range(len(step.keys)):
        keyed = keyed.filter(column(_key(number)).isNotNull())
    return keyed


def _order(step: Aggregate, rows: Rows) -> Column:
    """The order for LATEST_BY_OFFSET and the like: the offset; with rows of several partitions in a group,
    first the time.
    """
    if names.OFFSET not in rows.frame.columns:
        return F.struct(column(names.ROWTIME), F.lit(0), F.lit(0))
    sequence = F.lit(0).cast("bigint") if _groups_by_the_key(step) else column(names.SEQUENCE)
    return F.struct(sequence, column(names.PARTITION), column(names.OFFSET))


def _groups_by_the_key(step: Aggregate) -> bool:
    """Whether all rows of a group have the same key, and so come from one partition."""
    source: Step = step.input
    while isinstance(source, Filter):
        source = source.input
    if not isinstance(source, Read) or not source.source.key or source.source.window is not None:
        return False
    keys = {f"`{source.alias}.{key.name}`" for key in source.source.key}
    return keys <= {key.value.spark for key in step.keys}


def _window(window: Window) -> Column:
    size = f"{window.size.milliseconds} milliseconds"
    if window.kind is WindowKind.SESSION:
        return F.session_window(names.TIME, size)
    if window.advance is None:
        return F.window(names.TIME, size)
    return F.window(names.TIME, size, f"{window.advance.milliseconds} milliseconds")


def _named(step: Aggregate, grouped: DataFrame) -> DataFrame:
    made = [column(_key(number)).alias(key.name) for number, key in enumerate(step.keys)]
    made += [column(call.name) for call in step.calls]
    if step.window is not None:
        start = F.unix_millis(F.col(_WINDOW)["start"])
        end = F.unix_millis(F.col(_WINDOW)["end"])
        if step.window.kind is WindowKind.SESSION:
            end = end - F.lit(step.window.size.milliseconds)
        made += [start.alias("WINDOWSTART"), end.alias("WINDOWEND")]
        made += [start.alias(names.WINDOW_START), end.alias(names.WINDOW_END)]
    return grouped.select(*made, column(names.ROWTIME), F.lit(False).alias(names.DELETED))


def _key(number: int) -> str:
    return f"__key_{number}"
