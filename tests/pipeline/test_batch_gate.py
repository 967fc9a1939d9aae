"""Batches that come while their query is being stopped."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.pipeline.spark.batch_gate import BatchGate
from headrace.pipeline.spark.running_query import RunningQuery
from tests.assembly.fakes import wait_until

SECONDS = 120.0


class ToldBeforeItStops:
    """A Spark query, with an event for the moment in which it is asked to stop."""

    def __init__(self, handle: StreamingQuery) -> None:
        self._handle = handle
        self.is_stopping = threading.Event()

    def stop(self) -> None:
        self.is_stopping.set()
        self._handle.stop()


def test_a_batch_that_comes_while_the_query_stops_does_not_keep_it_from_stopping(
    spark: SparkSession, tmp_path: Path
) -> None:
    gate = BatchGate("q", patience=SECONDS)
    has_begun, handle_known, turned_away = threading.Event(), threading.Event(), threading.Event()
    handles: list[ToldBeforeItStops] = []

    def write(_: DataFrame, number: int) -> None:
        has_begun.set()
        assert handle_known.wait(SECONDS)
        # Spark has called, and the stop has come first.
        assert handles[0].is_stopping.wait(SECONDS)
        try:
            with gate.batch(number):
                pass
        except RuntimeError:
            turned_away.set()
            raise

    query = (
        spark.readStream.format("rate")
        .load()
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    handles.append(ToldBeforeItStops(query))
    handle_known.set()
    assert has_begun.wait(SECONDS)
    running = RunningQuery(cast(StreamingQuery, handles[0]), "micro-batch", gate)
    stopping = threading.Thread(target=running.stop, daemon=True)
    stopping.start()
    stopping.join(SECONDS)
    assert not stopping.is_alive()
    assert turned_away.is_set()
    assert not query.isActive


def is_closed(gate: BatchGate) -> bool:
    try:
        with gate.batch(8):
            return False
    except RuntimeError:
        return True


def test_a_stop_waits_for_the_batch_inside() -> None:
    gate = BatchGate("q", patience=SECONDS)
    order: list[str] = []
    closing = threading.Thread(target=lambda: (gate.close(), order.append("closed")))
    with gate.batch(7):
        closing.start()
        # It is closed although a batch is inside.
        wait_until(lambda: is_closed(gate), "the gate closes")
        order.append("written")
    closing.join(SECONDS)
    assert order == ["written", "closed"]


def test_a_stop_does_not_wait_for_ever() -> None:
    gate = BatchGate("q", patience=0.01)
    with gate.batch(1):
        gate.close()
    with pytest.raises(RuntimeError, match="q was stopped before batch 2"), gate.batch(2):
        pass


def test_a_batch_that_fails_leaves_the_gate() -> None:
    gate = BatchGate("q", patience=SECONDS)
    with pytest.raises(ValueError, match="torn"), gate.batch(1):
        raise ValueError("torn")
    with gate.batch(2):
        pass
    gate.close()
