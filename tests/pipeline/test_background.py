"""Work beside the loop that keeps the queries: in order where it must be; nobody waits for one who hangs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.status import QueryStatus
from headrace.pipeline.spark.background import Background
from headrace.pipeline.spark.keeper import QueryKeeper
from headrace.pipeline.spark.turns import Turns
from tests.pipeline.test_keeper import TOPICS, Query
from tests.running_platform import wait_for

PATIENCE = 30.0


@pytest.fixture
def background() -> Background:
    return Background(Turns(1, longest_seconds=0.05))


class Hanging:
    """Work that waits until it is let go."""

    def __init__(self) -> None:
        self.begun, self.going = threading.Event(), threading.Event()

    def __call__(self) -> str:
        self.begun.set()
        assert self.going.wait(PATIENCE)
        return "done"


def test_what_has_a_key_in_common_is_done_in_order(background: Background) -> None:
    first, done = Hanging(), list[str]()
    lane, same_table = background.lane("query a", "table t"), background.lane("query b", "table t")
    job = lane.start(first)
    assert first.begun.wait(PATIENCE)
    same_table.later(lambda: done.append("same table"))
    lane.later(lambda: done.append("same query"))
    background.lane("query c", "table u").start(lambda: done.append("another"))
    wait_for(lambda: done, "who has other keys does not wait", seconds=PATIENCE)
    assert (done, job.is_done, same_table.is_busy) == (["another"], False, True)
    assert not lane.wait(0.01)
    first.going.set()
    assert background.wait_for_all(PATIENCE)
    assert (done, job.result()) == (["another", "same table", "same query"], "done")
    assert not lane.is_busy


def test_one_that_hangs_loses_its_turn(background: Background) -> None:
    hanging = [Hanging() for _ in range(3)]
    for number, each in enumerate(hanging):
        background.lane(str(number)).start(each)
    assert all(each.begun.wait(PATIENCE) for each in hanging)
    assert not background.wait_for_all(0.01)
    for each in hanging:
        each.going.set()
    assert background.wait_for_all(PATIENCE)


def test_an_error_belongs_to_whoever_asks(background: Background) -> None:
    def fail() -> None:
        raise HeadraceError("pipeline_failed", "no room")

    lane = background.lane("a")
    job = lane.start(fail)
    lane.later(fail)
    assert lane.wait(PATIENCE)
    with pytest.raises(HeadraceError, match="no room"):
        job.result()
    done = lane.start(lambda: 7)
    assert lane.wait(PATIENCE)
    assert done.result() == 7


@pytest.mark.parametrize("moment", ["before it began", "meanwhile", "afterwards"])
def test_what_was_given_up_is_disposed_of_before_the_next(background: Background, moment: str) -> None:
    lane, blocking, work = background.lane("a"), Hanging(), Hanging()
    disposed = list[str]()
    if moment == "before it began":
        lane.start(blocking)
        assert blocking.begun.wait(PATIENCE)
    job = lane.start(work)
    if moment != "before it began":
        assert work.begun.wait(PATIENCE)
    if moment == "afterwards":
        work.going.set()
        assert lane.wait(PATIENCE)
    job.give_up(disposed.append)
    after = lane.start(lambda: list(disposed))
    for each in (blocking, work):
        each.going.set()
    assert lane.wait(PATIENCE)
    assert work.begun.is_set() == (moment != "before it began")
    assert after.result() == disposed == ([] if moment == "before it began" else ["done"])


class SlowQuery(Query):
    """Its start waits for a storage."""

    def __init__(self) -> None:
        super().__init__()
        self.storage = Hanging()
        self.started = 0

    def start(self, topics: Any) -> Any:
        self.storage()
        self.started += 1
        return super().start(topics)


@pytest.fixture
def kept(background: Background) -> tuple[SlowQuery, QueryKeeper, list[QueryStatus]]:
    query, said, nothing = SlowQuery(), list[QueryStatus](), None
    cluster: Any = nothing
    keeper = QueryKeeper(
        query,
        cluster=cluster,
        on_status=said.append,
        wall_clock_ms=lambda: 1,
        lane=background.lane("query"),
    )
    return query, keeper, said


def ticked(keeper: QueryKeeper, now: float, topics: Any = TOPICS) -> Callable[[], bool]:
    def tick() -> bool:
        keeper.tick(topics, now)
        return keeper.running is not None

    return tick


def test_a_keeper_does_not_wait_for_a_start(
    kept: tuple[SlowQuery, QueryKeeper, list[QueryStatus]], background: Background
) -> None:
    query, keeper, said = kept
    assert not ticked(keeper, 0.0)()
    assert query.storage.begun.wait(PATIENCE)
    assert not ticked(keeper, 1.0)()
    assert said == []
    query.storage.going.set()
    wait_for(ticked(keeper, 2.0), "it runs", seconds=PATIENCE)
    assert [status.state for status in said] == ["RUNNING"]
    assert query.started == 1
    keeper.stop()
    assert background.wait_for_all(PATIENCE)
    assert not query.handle.isActive
    assert said[-1].state == "STOPPED"


def test_one_that_has_failed_is_failed_until_its_next_start_has_ended(
    kept: tuple[SlowQuery, QueryKeeper, list[QueryStatus]],
) -> None:
    query, keeper, said = kept
    query.no_start = HeadraceError("storage_failed", "the bucket is away")
    query.storage.going.set()
    wait_for(lambda: ticked(keeper, 0.0)() or said, "it has failed", seconds=PATIENCE)
    assert (said[-1].state, said[-1].message) == ("FAILED", "the bucket is away")
    query.storage = Hanging()
    keeper.tick(TOPICS, 10.0)
    assert query.storage.begun.wait(PATIENCE)
    keeper.tick(TOPICS, 11.0)
    assert (len(said), keeper.state) == (1, "FAILED")
    query.no_start = None
    query.storage.going.set()
    wait_for(ticked(keeper, 12.0), "it runs", seconds=PATIENCE)


@pytest.mark.parametrize("why", ["stopped", "another topic"])
def test_a_start_that_nobody_wants_any_more_is_stopped(
    kept: tuple[SlowQuery, QueryKeeper, list[QueryStatus]], background: Background, why: str
) -> None:
    query, keeper, _ = kept
    keeper.tick(TOPICS, 0.0)
    assert query.storage.begun.wait(PATIENCE)
    if why == "stopped":
        keeper.stop()
    else:
        keeper.tick({"in": TopicIdentity(name="in", topic_id="j", partitions=3)}, 1.0)
    query.storage.going.set()
    assert background.wait_for_all(PATIENCE)
    assert (query.started, query.handle.isActive, keeper.running) == (1, False, None)
    query.storage = Hanging()
    query.storage.going.set()
    wait_for(ticked(keeper, 2.0), "it is started again", seconds=PATIENCE)
    assert query.started == 2
