"""TableLookup: joins each row of a stream with the table's row of the same key.

The table is read after the rows of the stream, so it is never older than they are; for a global table a copy
is broadcast. Rows keep the coordinates of the stream: each gives at most one row.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import functions as F  # noqa: N812

from headrace.pipeline.plan import TableLookup
from headrace.pipeline.spark.steps import rows as names
from headrace.pipeline.spark.steps.rows import Rows, column, columns
from headrace.pipeline.statements.queries import JoinKind


def look_up_rows(step: TableLookup, stream: Rows, table: Rows) -> Rows:
    """`table` are the current rows of the table, one for each key."""
    present = table.frame.filter(~column(names.DELETED)).select(
        *columns(table.visible), F.expr(step.table_key.spark).alias("__table_key")
    )
    if step.is_global:
        present = F.broadcast(present)
    ours = stream.frame.withColumn("__stream_key", F.expr(step.stream_key.spark))
    # An outer join even for INNER: unreadable records must pass through to the dead letters.
    joined = ours.join(present, column("__stream_key") == column("__table_key"), "left_outer")
    is_dropped = column(names.DELETED)
    if step.kind is JoinKind.INNER:
        is_dropped = is_dropped | column("__table_key").isNull()
    keep = ~is_dropped
    if stream.has_reasons:
        keep = keep | column(names.REASON).isNotNull()
    frame = joined.filter(keep).select(*columns([*stream.visible, *table.visible, *stream.hidden]))
    return replace(stream, frame=frame)
