"""Turns on a real Spark: the lake does not wait for statements, and a query that starves is noticed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.core.settings import Settings
from headrace.pipeline.spark.fair_turns import (
    LAKE_POOL,
    REAL_TIME_POOL,
    STATEMENTS_POOL,
    all_slots,
    in_pool,
)
from headrace.pipeline.spark.progress import is_at_work, last_batch

SLOTS = all_slots(Settings().pipeline_slots)
SECONDS = 240.0


@contextmanager
def many_statements(spark: SparkSession, *, jobs: int, task_ms: int) -> Iterator[list[Future[None]]]:
    """Jobs that take all slots, one behind the other, as those of many statements do; ended with the test."""
    with ThreadPoolExecutor(jobs) as pool:
        begun = [pool.submit(_sleep_in_tasks, spark, STATEMENTS_POOL, SLOTS, task_ms) for _ in range(jobs)]
        try:
            yield begun
        finally:
            # Again and again, as some may not have come to Spark yet.
            while wait(begun, timeout=0.1).not_done:
                spark.sparkContext.cancelAllJobs()


def _sleep_in_tasks(spark: SparkSession, pool: str, tasks: int, task_ms: int) -> None:
    with in_pool(spark, pool):
        # For each row one call; it sleeps in the JVM.
        sleeping = f"java_method('java.lang.Thread', 'sleep', {task_ms}L * (id + 1 - id))"
        spark.range(0, tasks, 1, tasks).selectExpr(sleeping).write.format("noop").mode("append").save()


def _wait_until_busy(spark: SparkSession) -> None:
    tracker = spark.sparkContext.statusTracker()
    deadline = time.monotonic() + SECONDS
    while True:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        if sum(stage.numActiveTasks for stage in stages if stage is not None) >= SLOTS and len(stages) > 2:
            return
        assert time.monotonic() < deadline, "the slots are not taken"
        time.sleep(0.01)


def test_the_lake_and_real_time_queries_do_not_wait_for_statements(spark: SparkSession) -> None:
    for pool in (LAKE_POOL, REAL_TIME_POOL):
        # So many that they take far longer than a busy machine needs for the one behind them.
        with many_statements(spark, jobs=30, task_ms=1000) as statements:
            _wait_until_busy(spark)
            _sleep_in_tasks(spark, pool, 1, 1)
            waiting = [each for each in statements if not each.done()]
            assert len(waiting) >= 3, "it had to wait for jobs that were submitted before"


def test_a_query_s_jobs_are_in_the_pool_it_was_started_in(spark: SparkSession, tmp_path: Path) -> None:
    """Also those that its function for batches runs, in Python."""
    pools: list[str | None] = []

    def write(batch: Any, _number: int) -> None:
        batch.write.format("noop").mode("append").save()
        pools.append(batch.sparkSession.sparkContext.getLocalProperty("spark.scheduler.pool"))

    numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    with in_pool(spark, LAKE_POOL):
        writer = numbers.writeStream.foreachBatch(write)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        _until(lambda: bool(pools), query)
    finally:
        query.stop()
    assert set(pools) == {LAKE_POOL}
    assert spark.sparkContext.getLocalProperty("spark.scheduler.pool") is None


@pytest.mark.long
def test_one_without_a_turn_is_not_at_work_and_its_last_batch_stays(
    spark: SparkSession, tmp_path: Path
) -> None:
    numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    # Its tasks take a while, so that one can be seen.
    slow = numbers.selectExpr("java_method('java.lang.Thread', 'sleep', 200L * (value + 1 - value))")
    with in_pool(spark, STATEMENTS_POOL):
        writer = slow.writeStream.format("noop").trigger(processingTime="0 seconds")
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        _until(lambda: (found := last_batch(query, None)) is not None and found.batch > 1, query)
        _until(lambda: is_at_work(query), query)
        # In a pool that comes first, so that the query gets no slot.
        with ThreadPoolExecutor(1) as pool:
            hog = pool.submit(_sleep_in_tasks, spark, REAL_TIME_POOL, SLOTS, 6000)
            _wait_until_taken(spark)
            _until(lambda: not is_at_work(query), query)
            before = last_batch(query, None)
            time.sleep(1)
            assert not is_at_work(query)
            assert last_batch(query, before) is before
            assert not hog.done(), "the test proves nothing"
        _until(lambda: last_batch(query, before) is not before, query)
    finally:
        query.stop()


def _wait_until_taken(spark: SparkSession) -> None:
    tracker = spark.sparkContext.statusTracker()
    deadline = time.monotonic() + SECONDS
    while not any(
        stage.numActiveTasks == SLOTS
        for each in tracker.getActiveStageIds()
        if (stage := tracker.getStageInfo(each)) is not None
    ):
        assert time.monotonic() < deadline, "the slots are not taken"
        time.sleep(0.01)


def _until(condition: Any, query: StreamingQuery) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        if (error := query.exception()) is not None:
            raise error
        assert time.monotonic() < deadline, "in vain"
        time.sleep(0.005)
