"""Project and Rekey: named expressions. Neither moves rows; the sink chooses the partition by the key."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column

from headrace.pipeline.plan import Named, Project, Rekey
from headrace.pipeline.spark.steps.rows import Rows, columns, computed


def project_rows(step: Project, rows: Rows) -> Rows:
    named = [_named(each) for each in (*step.keys, *step.values)]
    return replace(rows, frame=rows.frame.select(*named, *columns(rows.hidden)))


def rekey_rows(step: Rekey, rows: Rows) -> Rows:
    """Drops columns that have the name of a key; all others stay."""
    given = {each.name for each in step.keys}
    kept = [name for name in rows.frame.columns if name not in given]
    frame = rows.frame.select(*(_named(each) for each in step.keys), *columns(kept))
    return replace(rows, frame=frame)


def _named(each: Named) -> Column:
    return computed(each.value).alias(each.name)
