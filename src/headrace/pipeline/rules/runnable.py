"""Refuses plans that Spark cannot run, at the statement and with its position.

Both processes plan with `planning.py`: the gateway before it answers a statement, the pipeline before it runs
the query. So a statement that is answered with success can run. Each limit was observed on Spark 4.2
(`tests/pipeline/plans/test_limits.py`); `tests/pipeline/plans/test_runnable.py` compares these checks with
Spark's own on every kind of plan. Pure: knows plans, but not Spark. Pull queries run without Spark.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headrace.pipeline.plan import Aggregate, QueryPlan, Step, StreamJoin, TableJoin, steps_of
from headrace.pipeline.statements.errors import UnsupportedError
from headrace.pipeline.statements.position import Position
from headrace.pipeline.statements.queries import Emit, JoinKind, Window, WindowKind

_LONGEST_MS: Final = 1_000_000 * 24 * 60 * 60 * 1000
# Spark makes an expression of each, and a row for each window of a record.
_MOST_OVERLAPPING: Final = 1_000


def check_runnable(plan: QueryPlan) -> None:
    """Raises UnsupportedError."""
    for step in steps_of(plan.root):
        match step:
            case Aggregate():
                _check_aggregate(step, plan.emit)
            case StreamJoin():
                _check_join(step)
            case _:
                pass


def has_outer_stream_join(plan: QueryPlan) -> bool:
    return any(join.kind is not JoinKind.INNER for join in _stream_joins(plan.root))


def _check_window(window: Window) -> None:
    durations = (window.size, window.advance, window.grace)
    _check_durations((each.milliseconds for each in durations if each is not None), window.at)
    if window.advance is None:
        return
    overlapping = -(-window.size.milliseconds // window.advance.milliseconds)
    if overlapping > _MOST_OVERLAPPING:
        raise UnsupportedError(
            f"Each record would belong to {overlapping} windows; more than {_MOST_OVERLAPPING} are too many "
            "for Spark.",
            window.at,
            remedy="Advance by more, or make the windows shorter.",
        )


def _check_durations(milliseconds: Iterable[int], at: Position) -> None:
    if any(each > _LONGEST_MS for each in milliseconds):
        raise UnsupportedError("A duration can have at most 1000000 days.", at)


def _check_aggregate(step: Aggregate, emit: Emit) -> None:
    if step.window is not None:
        _check_window(step.window)
    joins = _stream_joins(step)
    if any(isinstance(each, TableJoin) for each in steps_of(step)):
        raise UnsupportedError(
            "A join of tables cannot be aggregated within the same query.",
            _position(step),
            remedy="Create a table with the join (CREATE TABLE … AS SELECT), and aggregate that.",
        )
    if step.window is not None and joins:
        raise UnsupportedError(
            "A window after a join of streams needs a second watermark, which Spark does not support.",
            step.window.at,
            remedy="Write the join to its own stream, and aggregate that.",
        )
    if emit is Emit.FINAL:
        return
    if step.window is not None and step.window.kind is WindowKind.SESSION:
        raise UnsupportedError(
            "Spark supports session windows only with results at their end.",
            step.window.at,
            remedy="End the statement with EMIT FINAL.",
        )
    if any(join.kind is not JoinKind.INNER for join in joins):
        raise UnsupportedError(
            "An aggregation after an outer join of streams cannot emit changes: Spark supports both together "
            "only with final results.",
            _position(step),
            remedy="Write the join to its own stream, and aggregate that.",
        )


def _check_join(step: StreamJoin) -> None:
    _check_durations((step.before_ms, step.after_ms, step.grace_ms), step.left_key.at)
    before = _stream_joins(step.left) + _stream_joins(step.right)
    if any(join.kind is JoinKind.FULL for join in before):
        raise UnsupportedError(
            "Nothing can be joined to a full join of streams within the same query: Spark would have no time "
            "to wait by.",
            step.left_key.at,
            remedy="Write the full join to its own stream, and join that.",
        )


def _stream_joins(step: Step) -> list[StreamJoin]:
    return [each for each in steps_of(step) if isinstance(each, StreamJoin)]


def _position(step: Aggregate) -> Position:
    return step.keys[0].value.at if step.keys else step.calls[0].value.at
