"""Plans that Spark cannot run, and the output mode that a plan needs.

Each limit was observed on Spark 4.2 (`tests/pipeline/plans/test_limits.py`). Pure: knows plans, but not
Spark.
"""

from __future__ import annotations

from headrace.core.errors import HeadraceError
from headrace.pipeline.plan import Aggregate, QueryPlan, StreamJoin, steps_of
from headrace.pipeline.statements.queries import Emit, JoinKind, WindowKind


def output_mode(plan: QueryPlan) -> str:
    return "append" if plan.emit is Emit.FINAL or _outer_joins(plan) else "update"


def _outer_joins(plan: QueryPlan) -> bool:
    joins = [step for step in steps_of(plan.root) if isinstance(step, StreamJoin)]
    return any(join.kind is not JoinKind.INNER for join in joins)


def refuse_what_spark_cannot(plan: QueryPlan) -> None:
    aggregates = [step for step in steps_of(plan.root) if isinstance(step, Aggregate)]
    for aggregate in aggregates:
        if aggregate.window is not None and any(isinstance(step, StreamJoin) for step in steps_of(aggregate)):
            raise HeadraceError(
                "pipeline_failed",
                "A window after a join of streams needs a second watermark, which Spark does not support.",
                remedy="Write the join to its own stream, and aggregate that.",
            )
    if plan.emit is Emit.FINAL or not aggregates:
        return
    windows = [step.window for step in aggregates if step.window is not None]
    if any(window.kind is WindowKind.SESSION for window in windows):
        raise HeadraceError(
            "pipeline_failed",
            "Spark supports session windows only with results at their end.",
            remedy="End the statement with EMIT FINAL.",
        )
    if _outer_joins(plan):
        raise HeadraceError(
            "pipeline_failed",
            "An aggregation after an outer join of streams cannot emit changes: Spark supports both together "
            "only with final results.",
            remedy="Write the join to its own stream, and aggregate that.",
        )
