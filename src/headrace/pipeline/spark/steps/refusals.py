"""What Spark cannot run, and which of its output modes a plan needs.

Each refusal was seen on Spark 4.2; `tests/pipeline/plans/test_limits.py` shows them. Pure: knows plans, no
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
                "A window behind a join of streams would need a second watermark, which Spark has not.",
                remedy="Write the join to a stream of its own, and aggregate that.",
            )
    if plan.emit is Emit.FINAL or not aggregates:
        return
    windows = [step.window for step in aggregates if step.window is not None]
    if any(window.kind is WindowKind.SESSION for window in windows):
        raise HeadraceError(
            "pipeline_failed",
            "Session windows give their results when they are closed: Spark has no others.",
            remedy="End the statement with EMIT FINAL.",
        )
    if _outer_joins(plan):
        raise HeadraceError(
            "pipeline_failed",
            "An aggregation behind an outer join of streams cannot give changes: Spark has both of them only "
            "for results that are final.",
            remedy="Write the join to a stream of its own, and aggregate that.",
        )
