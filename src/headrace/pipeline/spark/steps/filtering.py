"""Filter: drops rows of a stream whose condition is not true; in a table they become deletions."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import functions as F  # noqa: N812

from headrace.pipeline.plan import Filter
from headrace.pipeline.spark.steps.rows import DELETED, REASON, Rows, column, columns


def filter_rows(step: Filter, rows: Rows) -> Rows:
    is_true = F.coalesce(F.expr(step.condition.spark), F.lit(False))
    if rows.is_table:
        kept = [name for name in rows.frame.columns if name != DELETED]
        deleted = (column(DELETED) | ~is_true).alias(DELETED)
        return replace(rows, frame=rows.frame.select(*columns(kept), deleted))
    # A null value has no columns; ksqlDB drops it, even if the condition is true for the key.
    keep = is_true & ~column(DELETED)
    if rows.has_reasons:
        keep = column(REASON).isNotNull() | keep
    return replace(rows, frame=rows.frame.filter(keep))
