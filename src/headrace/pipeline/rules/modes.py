"""Whether a plan runs in real-time mode or in micro-batches, and why, as EXPLAIN says it.

Real-time mode forwards single records within milliseconds. Spark supports it for queries that keep no state,
read from Kafka and write to Kafka. It permanently holds a task slot for each partition, so it also needs free
slots. Pure: knows plans and settings, but not Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.core.settings import Settings
from headrace.pipeline.plan import (
    Aggregate,
    QueryPlan,
    Step,
    StreamJoin,
    TableJoin,
    TableLookup,
    steps_of,
)
from headrace.pipeline.rules.runnable import has_outer_stream_join
from headrace.pipeline.statements.queries import Emit

REAL_TIME: Final = "real-time"
MICRO_BATCH: Final = "micro-batch"
# Slots reserved for micro-batches, as real-time queries hold theirs permanently.
SLOTS_FOR_BATCHES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    name: str
    reason: str


def output_mode(plan: QueryPlan) -> str:
    """Spark's name for which rows a batch gives: final ones only, or all that have changed."""
    return "append" if plan.emit is Emit.FINAL or has_outer_stream_join(plan) else "update"


def mode_of(plan: QueryPlan, *, partitions: int, free_slots: int, settings: Settings) -> Mode:
    """`partitions` are those of the source; `free_slots` those that no real-time query holds."""
    obstacle = next((why for step in steps_of(plan.root) if (why := _obstacle(step))), None)
    if obstacle is not None:
        return Mode(name=MICRO_BATCH, reason=obstacle)
    if settings.pipeline_mode != REAL_TIME:
        return Mode(name=MICRO_BATCH, reason=f"the setting pipeline_mode is {settings.pipeline_mode}")
    usable = free_slots - SLOTS_FOR_BATCHES
    if partitions > usable:
        return Mode(
            name=MICRO_BATCH,
            reason=f"real-time mode would hold a slot for each of {partitions} partitions, but "
            f"only {max(usable, 0)} are free; raise pipeline_slots",
        )
    return Mode(name=REAL_TIME, reason="it keeps no state, reads one topic and writes topics")


def _obstacle(step: Step) -> str | None:
    match step:
        case Aggregate():
            return "an aggregation keeps state, which Spark supports only in micro-batches"
        case StreamJoin():
            return "a join of streams keeps state, which Spark supports only in micro-batches"
        case TableJoin():
            return "a join of tables reads both tables in each micro-batch"
        case TableLookup() if not step.is_global:
            return "a join with a table reads the table at the start of each micro-batch"
        case _:
            return None
