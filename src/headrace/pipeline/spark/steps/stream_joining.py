"""StreamJoin: rows of two streams with the same key whose times are near enough.

A row on the right may be from `before_ms` before to `after_ms` after the one on the left. A row without a
partner leaves by an outer join when its time is over: when the watermark, the newest time seen on the slower
side less the grace period, has passed the last moment at which a partner could come. Rows with a null key
have no partner and do not wait for one, as in ksqlDB. A joined row has the later of the two times.

The slower of the two sides decides on the watermark: going by the faster one, a query that catches up would
drop rows of the other that it has not read yet.

Spark allows one watermark for each source and none on what a join gives. So behind a join one side's time
goes on as event time, and the time of the joined row, which may be later by so much (`lead_ms`), is compared
beside it: a further join is exact, and only keeps its state for longer. Of a full join neither time is always
there, so nothing can be joined to it within the same query.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.core.errors import HeadraceError
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
    if is_joined and names.EVENT_TIME not in rows.frame.columns:
        raise HeadraceError(
            "pipeline_failed",
            "Nothing can be joined to a full join of streams within the same query: Spark would have no time "
            "to wait by.",
            remedy="Write the full join to a stream of its own, and join with that.",
        )
    time = column(names.EVENT_TIME) if is_joined else F.timestamp_millis(column(names.ROWTIME))
    frame = (
        good(rows)
        .filter(~column(names.DELETED))
        .select(
            *columns(rows.visible),
            F.expr(key.spark).alias(f"__{name}_key"),
            column(names.ROWTIME).alias(f"__{name}_rowtime"),
            time.alias(f"__{name}_time"),
        )
        .filter(column(f"__{name}_key").isNotNull())
    )
    return frame if is_joined else frame.withWatermark(f"__{name}_time", f"{grace_ms} milliseconds")


def _moved(time: Column, milliseconds: int) -> Column:
    return time + F.expr(f"INTERVAL {milliseconds / 1000:.3f} SECONDS")
