"""Wishes for repairs, and their answers, through the log."""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Iterator

import pytest

from headrace.client.cluster import Cluster
from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.repairs import REPAIRS_TOPIC, Repair, RepairLog
from headrace.testing import EmbeddedBroker


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with EmbeddedBroker() as broker:
        cluster = Cluster(broker.bootstrap)
        yield cluster
        cluster.close()


def wish() -> Repair:
    return Repair(
        id=uuid.uuid4().hex,
        query="q",
        topic_id="t",
        stretches=((0, 1, 2),),
        sinks_from={"s": {0: 7}},
    )


def begun(log: RepairLog, within: float = 30) -> Repair:
    deadline = time.monotonic() + within
    while (found := log.begin_next()) is None:
        assert time.monotonic() < deadline
    return found


def test_wishes_are_carried_out_once_in_their_order(cluster: Cluster) -> None:
    # Of somebody else.
    cluster.create_topic(REPAIRS_TOPIC, partitions=1)
    for key, value in ((b"\xff", b"x"), (None, b"{}")):
        cluster.produce(REPAIRS_TOPIC, key, value)
    asking, doing = RepairLog(cluster), RepairLog(cluster)
    first, second = wish(), wish()
    for each in (first, second):
        asking.write(each)
    for expected in (first, second):
        found = begun(doing)
        assert found == dataclasses.replace(expected, attempts=1)
        doing.write(found.answered("DONE", changed=2))
    answers = asking.wait_for([second, first], 30)
    assert [each.id for each in answers] == [second.id, first.id]
    assert [(each.state, each.changed) for each in answers] == [("DONE", 2)] * 2
    # Neither the process that answered nor one that starts later takes them for wishes without an answer.
    later = RepairLog(cluster)
    third = wish()
    asking.write(third)
    assert begun(doing).id == third.id
    assert begun(later).id == third.id
    asking.forget(answers)
    for log in (asking, doing, later):
        log.close()


def test_a_wish_that_ends_the_process_is_not_carried_out_for_ever(cluster: Cluster) -> None:
    asking = RepairLog(cluster)
    deadly = wish()
    asking.write(deadly)
    for attempt in (1, 2, 3):
        # Each is killed before it answers.
        doing = RepairLog(cluster)
        assert begun(doing).attempts == attempt
        doing.close()
    last = RepairLog(cluster)
    assert last.begin_next() is None
    (answer,) = asking.wait_for([deadly], 30)
    assert answer.state == "FAILED"
    assert "ended 3 times" in answer.message
    last.close()
    asking.close()


def test_a_wish_that_was_withdrawn_is_not_carried_out(cluster: Cluster) -> None:
    asking = RepairLog(cluster)
    abandoned = wish()
    asking.write(abandoned)
    with pytest.raises(HeadraceError, match="pipeline process") as failure:
        asking.wait_for([abandoned], 0.5)
    assert "headrace status" in failure.value.remedy
    asking.forget([abandoned])
    doing = RepairLog(cluster)
    assert doing.begin_next() is None
    asking.close()
    doing.close()
