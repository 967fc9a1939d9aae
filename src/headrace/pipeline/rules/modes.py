"""Whether a plan runs in real-time mode or in micro-batches, and why, as EXPLAIN says it.

Real-time mode passes single records on in milliseconds, and Spark has it for what keeps no state, reads Kafka
and writes Kafka. It holds a task slot for each partition for good, so it also needs slots that are free.
Pure: knows plans and settings, no Spark.
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

REAL_TIME: Final = "real-time"
MICRO_BATCH: Final = "micro-batch"
# Slots that stay free for micro-batches when real-time queries hold the others for good.
SLOTS_FOR_BATCHES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    name: str
    reason: str


def mode_of(plan: QueryPlan, *, partitions: int, free_slots: int, settings: Settings) -> Mode:
    """`partitions` of the source; `free_slots` are those that no real-time query holds."""
    if plan.lake_table is not None:
        return Mode(name=MICRO_BATCH, reason="a batch is one commit of the lake")
    obstacle = next((why for step in steps_of(plan.root) if (why := _obstacle(step))), None)
    if obstacle is not None:
        return Mode(name=MICRO_BATCH, reason=obstacle)
    if settings.pipeline_mode != REAL_TIME:
        return Mode(name=MICRO_BATCH, reason=f"the setting pipeline_mode is {settings.pipeline_mode}")
    usable = free_slots - SLOTS_FOR_BATCHES
    if partitions > usable:
        return Mode(
            name=MICRO_BATCH,
            reason=f"real-time mode would hold a slot for each of {partitions} partitions, and "
            f"{max(usable, 0)} are free; raise pipeline_slots",
        )
    return Mode(name=REAL_TIME, reason="it keeps no state, reads one topic and writes topics")


def _obstacle(step: Step) -> str | None:
    match step:
        case Aggregate():
            return "an aggregation keeps state, which Spark has in micro-batches only"
        case StreamJoin():
            return "a join of streams keeps state, which Spark has in micro-batches only"
        case TableJoin():
            return "a join of tables looks both up, at the moment of a micro-batch"
        case TableLookup() if not step.is_global:
            return "a join with a table looks the table up at the start of each micro-batch"
        case _:
            return None
