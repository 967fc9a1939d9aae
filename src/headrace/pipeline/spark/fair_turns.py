"""Fair turns for queries that share a Spark: scheduler pools by kind, and a pace for micro-batches.

All queries share the task slots of one Spark. By default Spark runs jobs in the order they were submitted:
each of the several jobs that a batch of the lake needs waits behind the jobs of every statement. Here each
kind has its own pool. A free slot goes first to the lake if none of its tasks runs, then to real-time
queries, which hold their slots permanently and need them back immediately after each batch, then to the
statements, to the maintenance of tables and to questions in SQL in turn.

A job belongs to the pool of the thread that runs it, and the thread of a query inherits the pool from the one
that starts the query.

Pools share out slots, but most of the CPU time of a small batch is spent outside tasks: planning it, and
writing down what it covers. Without a pause, a few statements in micro-batches keep all cores busy. So their
batches have a pace: the more such queries there are for a core, the longer the time from one batch to the
next, which then has more records. A query learns its pace when it starts, and is restarted when that is far
off. And they take turns (`turns.py`), with one task each, so that they leave half of the cores to the lake
and to real-time queries.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from headrace.pipeline.rules.modes import REAL_TIME

LAKE_POOL: Final = "lake"
REAL_TIME_POOL: Final = "real-time"
STATEMENTS_POOL: Final = "statements"
MAINTENANCE_POOL: Final = "maintenance"
QUESTIONS_POOL: Final = "questions"
_PROPERTY: Final = "spark.scheduler.pool"
_PACE: Final = "spark.headrace.pace"
# Slots besides those that real-time queries and statements may hold, so that the lake finds one at once.
_LAKE_SLOTS: Final = 4
# Milliseconds of a core that a small batch takes, twice: statements leave half of the machine to others.
_CORE_MS: Final = 200
# Different paces of queries with the same number of others beside them.
_STEPS: Final = 64
# Each task would generate code for its projections, and Java would compile it for each query. With many
# queries and small batches that costs more than it gains.
_INTERPRETED: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
# A pace that is off by less than this does not justify a restart.
_FAR_OFF: Final = 4


def all_slots(pipeline_slots: int) -> int:
    """Of Spark, if statements may hold so many. Tasks of questions last long, and have slots of their own."""
    return pipeline_slots + _LAKE_SLOTS + half_of_the_cores()


class _Pool(NamedTuple):
    """`weight` and `share` are Spark's: a pool with fewer running tasks than its share comes first."""

    name: str
    weight: int
    share: int


def pool_of(mode: str) -> str:
    """The pool of a statement's query that runs in this mode."""
    return REAL_TIME_POOL if mode == REAL_TIME else STATEMENTS_POOL


@contextmanager
def in_pool(session: SparkSession, pool: str) -> Iterator[None]:
    """Queries started within, by this thread, have their jobs in this pool."""
    context = session.sparkContext
    before = context.getLocalProperty(_PROPERTY)
    context.setLocalProperty(_PROPERTY, pool)
    try:
        yield
    finally:
        # None removes it; the stubs do not know.
        context.setLocalProperty(_PROPERTY, before)  # type: ignore[arg-type]


def pace_ms(queries: int, cores: int | None = None) -> int:
    """From the begin of a batch to that of the next, for so many queries in micro-batches.

    In steps of two, so that it rarely changes. 0, as fast as possible, while each has a core.
    """
    usable = cores or usable_cores()
    if queries <= usable:
        return 0
    return -(-(_CORE_MS << (queries - 1).bit_length()) // usable)


def half_of_the_cores() -> int:
    """How many batches of statements are written at the same time, each by one task."""
    return max(1, usable_cores() // 2)


def usable_cores() -> int:
    return len(os.sched_getaffinity(0))


def is_far_off(pace: int, wanted: int) -> bool:
    if pace and not wanted:
        return True
    low, high = sorted((max(pace, _CORE_MS), max(wanted, _CORE_MS)))
    return high >= _FAR_OFF * low


def interpret_expressions(session: SparkSession) -> None:
    """In the queries that this session starts, instead of generating code for them."""
    for name, value in _INTERPRETED.items():
        session.conf.set(name, value)


def set_pace(session: SparkSession, milliseconds: int) -> None:
    """For the queries that this session starts."""
    session.conf.set(_PACE, str(milliseconds))


def pace_of(session: SparkSession, name: str) -> str:
    """The time between two batches of this session's query of that name, as Spark's trigger takes it.

    Up to a half longer than the pace, by the name: Spark begins all batches of the same pace in the same
    moment.
    """
    pace = int(session.conf.get(_PACE, "0") or 0)
    return f"{pace + pace * (zlib.crc32(name.encode()) % _STEPS) // (2 * _STEPS)} milliseconds"


def pools_file(*, slots: int) -> str:
    """The pools as Spark's allocation file."""
    pools = (
        # Half a batch is not worth much: two tasks at once, and more than others of what is left.
        _Pool(LAKE_POOL, weight=4, share=2),
        # Never has its share, so it comes before all that have none.
        _Pool(REAL_TIME_POOL, weight=4, share=10 * slots),
        _Pool(STATEMENTS_POOL, weight=1, share=0),
        # Merges files with one task, between the others.
        _Pool(MAINTENANCE_POOL, weight=1, share=0),
        # Whoever asks a question that takes minutes can wait a moment more.
        _Pool(QUESTIONS_POOL, weight=1, share=0),
    )
    entries = "".join(
        f"<pool name='{pool.name}'><schedulingMode>FAIR</schedulingMode>"
        f"<weight>{pool.weight}</weight><minShare>{pool.share}</minShare></pool>"
        for pool in pools
    )
    return f"<?xml version='1.0'?><allocations>{entries}</allocations>"
