"""How far behind queries are, and who is starved: with a clock that the test turns, and without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from headrace.client.topics import Partition, TopicIdentity
from headrace.pipeline.catalogue.status import QueryProgress
from headrace.pipeline.spark.progress import LONG_BATCH_SECONDS, STARVED_SECONDS, ProgressWatch
from headrace.pipeline.spark.running_query import RunningQuery

TOPICS = {"in": TopicIdentity(name="in", topic_id="i", partitions=2)}
BATCH_SECONDS = 60


class Source:
    def __init__(self, text: str | None) -> None:
        self._text = text

    def endOffset(self) -> str | None:  # noqa: N802 - Spark's name
        return self._text


class Handle:
    """Spark's, as far as it is watched: batch and positions of the last batch that ended."""

    def __init__(self) -> None:
        self._jsq = self
        self._batch: int | None = None
        self._text: str | None = None

    def ended(self, batch: int, *offsets: int) -> None:
        self._batch, self._text = batch, json.dumps({"in": dict(enumerate(offsets))})

    def lastProgress(self) -> Handle | None:  # noqa: N802 - Spark's name
        return None if self._batch is None else self

    def batchId(self) -> int:  # noqa: N802 - Spark's name
        assert self._batch is not None
        return self._batch

    def sources(self) -> list[Source]:
        return [Source(self._text), Source(None)]


class Keeper:
    name = "CSAS_O_1"
    source_topics = ("in", "deleted")

    def __init__(self, mode: str) -> None:
        self.restart(mode)

    def restart(self, mode: str, began: dict[str, dict[int, int]] | None = None) -> None:
        self.handle = Handle()
        handle: Any = self.handle
        self.running: RunningQuery | None = RunningQuery(handle, mode, began=began)


class Bench:
    """One query, its source, and what was told of it."""

    bootstrap = "nowhere:1"

    def __init__(self, mode: str = "micro-batch") -> None:
        self.keeper = Keeper(mode)
        self.ends = [0, 0]
        self.told: list[QueryProgress] = []
        self.now = 1000.0
        self.busy = False
        # Where records really are; offsets beyond may be holes.
        self.records = [10**9, 10**9]
        self.peeks = 0
        self.starts = [0, 0]
        cluster: Any = self
        self.watch = ProgressWatch(
            cluster,
            on_progress=lambda _query, progress: self.told.append(progress),
            wall_clock_ms=lambda: int(self.now * 1000),
            real_time_batch_seconds=BATCH_SECONDS,
            has_records=self._has_records,
            at_work=lambda _: self.busy,
        )

    def latest(self, topics: Iterable[TopicIdentity]) -> dict[Partition, int]:
        return {(topic.name, number): end for topic in topics for number, end in enumerate(self.ends)}

    def earliest(self, topics: Iterable[TopicIdentity]) -> dict[Partition, int]:
        return {(topic.name, number): start for topic in topics for number, start in enumerate(self.starts)}

    def _has_records(self, places: Mapping[Partition, int]) -> bool:
        self.peeks += 1
        return any(self.records[partition] > offset for (_, partition), offset in places.items())

    def run(self, seconds: float) -> QueryProgress:
        until = self.now + seconds
        while self.now < until:
            self.now += 1
            self.watch.look([self.keeper], TOPICS, self.now)
        return self.told[-1]


def test_one_that_keeps_up_is_not_behind_and_says_little() -> None:
    bench = Bench()
    for second in range(60):
        bench.ends = [10 * second, 0]
        bench.keeper.handle.ended(second, 10 * second, 0)
        bench.run(1)
    assert {(each.behind_records, each.behind_ms, each.starved) for each in bench.told} == {(0, 0, "")}
    assert len(bench.told) <= 14
    count = len(bench.told)
    bench.run(60)
    assert len(bench.told) <= count + 1, "one that has nothing to do says nothing"


def test_behind_is_told_by_records_and_by_time() -> None:
    bench = Bench()
    bench.keeper.handle.ended(0, 0, 0)
    bench.run(5)
    bench.ends = [100, 0]
    bench.run(10)
    bench.ends = [300, 7]
    told = bench.run(10)
    assert told.behind_records == 307
    assert 14_000 <= told.behind_ms <= 20_000
    bench.keeper.handle.ended(1, 150, 7)
    told = bench.run(5)
    assert told.behind_records == 150
    assert 8_000 <= told.behind_ms <= 15_000, "since the second hundred came"
    assert told.positions == {"in": {0: 150, 1: 7}}


def test_one_without_a_turn_is_starved_and_says_so_at_once() -> None:
    bench = Bench()
    bench.keeper.handle.ended(0, 0, 0)
    bench.run(100)
    bench.ends = [1, 0]
    bench.run(STARVED_SECONDS)
    assert all(not each.starved for each in bench.told)
    told = bench.run(2)
    assert "although records wait; 0 other queries run" in told.starved
    bench.keeper.handle.ended(1, 1, 0)
    told = bench.run(1)
    assert (told.starved, told.behind_records) == ("", 0)


def test_one_that_never_had_a_turn_is_starved() -> None:
    bench = Bench()
    bench.keeper.restart("micro-batch", {"i": {0: 5, 1: 5}})
    bench.ends = [5, 5]
    bench.run(1)
    bench.ends = [6, 5]
    assert bench.run(STARVED_SECONDS + 2).starved


def test_a_hole_at_the_end_starves_nobody() -> None:
    bench = Bench()
    bench.keeper.handle.ended(0, 5, 0)
    bench.records = [5, 0]
    bench.ends = [1000, 0]
    told = bench.run(300)
    assert (told.starved, told.behind_records, told.behind_ms) == ("", 0, 0)
    assert 0 < bench.peeks < 40, "asking is not free"
    bench.ends = [1001, 0]
    bench.records = [1001, 0]
    told = bench.run(60)
    assert told.starved
    assert told.behind_records == 996, "at most: with the hole"


def test_one_at_work_on_a_long_batch_is_not_starved_until_that_takes_too_long() -> None:
    bench = Bench()
    bench.keeper.handle.ended(0, 0, 0)
    bench.ends = [10, 0]
    bench.busy = True
    assert bench.run(LONG_BATCH_SECONDS).starved == ""
    assert "its batch has been running for" in bench.run(20).starved


def test_a_real_time_query_may_take_its_batch_and_is_as_far_behind_as_at_its_end() -> None:
    bench = Bench("real-time")
    bench.keeper.handle.ended(0, 0, 0)
    bench.run(5)
    for second in range(BATCH_SECONDS):
        bench.ends = [second + 1, 0]
        assert bench.run(1).behind_records == 0
    bench.keeper.handle.ended(1, 50, 0)
    told = bench.run(6)
    assert (told.behind_records, told.behind_ms) == (10, pytest.approx(10_000, abs=2_000))
    bench.run(BATCH_SECONDS + STARVED_SECONDS - 7)
    assert bench.told[-1].starved == ""
    assert bench.run(10).starved


def test_a_restarted_query_starts_over() -> None:
    bench = Bench()
    bench.keeper.handle.ended(7, 3, 0)
    bench.ends = [3, 0]
    bench.run(50)
    bench.keeper.running = None
    bench.ends = [4, 0]
    bench.run(50)
    bench.keeper.restart("micro-batch")
    told = bench.run(STARVED_SECONDS - 1)
    assert told.starved == ""


def test_before_its_first_batch_a_query_is_behind_by_what_lies_behind_its_start() -> None:
    bench = Bench()
    bench.ends = [500, 7]
    bench.keeper.restart("micro-batch", {"i": {0: 100}, "former incarnation": {1: 3}})
    assert bench.run(1).behind_records == 407, "a partition without a position is read from its beginning"
    assert bench.run(STARVED_SECONDS + 2).starved


def test_a_query_that_has_never_ended_a_batch_is_behind_by_everything() -> None:
    """Not by nothing: where its sources ended when it was first seen is not where it began."""
    bench = Bench()
    bench.starts, bench.ends = [40, 0], [500, 7]
    bench.keeper.restart("micro-batch", {"i": {}})
    told = bench.run(1)
    assert (told.behind_records, told.positions) == (467, {"in": {0: 40, 1: 0}}), "what expired does not wait"
    assert bench.run(STARVED_SECONDS + 2).starved


def test_a_topic_that_is_not_read_as_a_stream_does_not_count() -> None:
    bench = Bench()
    bench.ends = [500, 7]
    assert bench.run(STARVED_SECONDS + 2).behind_records == 0


def test_before_its_first_batch_a_real_time_query_is_as_far_behind_as_at_its_start() -> None:
    bench = Bench("real-time")
    bench.keeper.restart("real-time", {"i": {0: 100, 1: 7}})
    bench.ends = [500, 7]
    assert bench.run(1).behind_records == 400
    bench.keeper.handle.ended(0, 500, 7)
    assert bench.run(6).behind_records == 0
