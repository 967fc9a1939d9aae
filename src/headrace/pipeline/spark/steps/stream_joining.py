"""StreamJoin: pairs of rows of two streams with the same key, within a span of time.

The row on the right may be from `before_ms` before to `after_ms` after the one on the left. An outer join
emits a row without a partner when none can come any more: when the watermark, which is the newest time on the
slower side minus the grace period, has passed the last possible time of a partner. Rows with a null key have
no partner and do not wait for one, as in ksqlDB. A joined row has the later of the two times.

The slower side determines the watermark: with the faster one, a query that catches up would drop unread rows
of the other side.

Spark allows one watermark for each source and none on the result of a join. So after a join the time of one
side remains the event time, and a further join also compares the time of the joined row, which may be later
by `lead_ms`: it is exact, but keeps its state longer. After a full join either time may be missing, so
nothing can be joined to it within the same query.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.pipeline.expressions.computed import Computed
from headrace.pipeline.plan import StreamJoin
from headrace.pipeline.spark.steps import rows as names
from headrace.pipeline.spark.steps.rows import Rows, column, columns, good
from headrace.pipeline.statements.queries import JoinKind

SPARK_KINDS: Final = {
    JoinKind.INNER: "inner",
    JoinKind.LEFT: "left_outer",
    JoinKind.RIGHT: "right_outer",
    JoinKind.FULL: "full_outer",
}


def join_streams(step: StreamJoin, left: Rows, right: Rows) -> Rows:
    ours = _side(left, step.left_key, "left", step.grace_ms)
    theirs = _side(right, step.right_key, "right", step.grace_ms)
    condition = (column("__left_key") == column("__right_key")) & column("__right_time").between(
        _moved(column("__left_time"), -step.before_ms - right.lead_ms),
        _moved(column("__left_time"), step.after_ms + left.lead_ms),
    )
    if left.lead_ms or right.lead_ms:
        condition = condition & column("__right_rowtime").between(
            column("__left_rowtime") - step.before_ms, column("__left_rowtime") + step.after_ms
        )
    joined = ours.join(theirs, condition, SPARK_KINDS[step.kind])
    made = [
        *columns([*left.visible, *right.visible]),
        F.greatest(column("__left_rowtime"), column("__right_rowtime")).alias(names.ROWTIME),
        F.lit(False).alias(names.DELETED),
        # A side without a partner counts as 0, so that the sides of an outer join stay apart.
        F.xxhash64(
            F.coalesce(column("__left_origin"), F.lit(0).cast("bigint")),
            F.coalesce(column("__right_origin"), F.lit(0).cast("bigint")),
        ).alias(names.ORIGIN),
    ]
    lead_ms = left.lead_ms + step.after_ms
    if step.kind is JoinKind.RIGHT:
        made.append(column("__right_time").alias(names.EVENT_TIME))
        lead_ms = right.lead_ms + step.before_ms
    elif step.kind is not JoinKind.FULL:
        made.append(column("__left_time").alias(names.EVENT_TIME))
    return Rows(frame=joined.select(*made), is_table=False, lead_ms=max(lead_ms, 0) or 1)


def _side(rows: Rows, key: Computed, name: str, grace_ms: int) -> DataFrame:
    is_joined = rows.lead_ms > 0
    # After a full join there is none; `rules/runnable.py` refuses a further join.
    assert not is_joined or names.EVENT_TIME in rows.frame.columns
    time = column(names.EVENT_TIME) if is_joined else F.timestamp_millis(column(names.ROWTIME))
    frame = (
        good(rows)
        .filter(~column(names.DELETED))
        .select(
            *columns(rows.visible),
            F.expr(key.spark).alias(f"__{name}_key"),
            column(names.ROWTIME).alias(f"__{name}_rowtime"),
            _origin(rows).alias(f"__{name}_origin"),
            time.alias(f"__{name}_time"),
        )
        .filter(column(f"__{name}_key").isNotNull())
    )
    return frame if is_joined else frame.withWatermark(f"__{name}_time", f"{grace_ms} milliseconds")


def _origin(rows: Rows) -> Column:
    """Identifies the row of one side; with that of the other side, the joined row."""
    if names.ORIGIN in rows.frame.columns:
        return column(names.ORIGIN)
    return F.xxhash64(column(names.SOURCE), column(names.ORDINAL))


def _moved(time: Column, milliseconds: int) -> Column:
    return time + F.expr(f"INTERVAL {milliseconds / 1000:.3f} SECONDS")
