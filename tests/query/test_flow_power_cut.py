"""The log loses its newest records in a power failure: the flow counts what is there, not what was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.client.cluster import Cluster
from headrace.client.reading import records_between
from headrace.query.flow import FlowWatcher
from headrace.query.record_counting import COUNTS_TOPIC
from tests.broker.broker_process import PowerCutBroker
from tests.query.records import create_topic, produce, wait_until

EVENTS = "events"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[PowerCutBroker]:
    process = PowerCutBroker(tmp_path / "data")
    process.start()
    yield process
    process.end()


def watching(machine: PowerCutBroker) -> FlowWatcher:
    watcher = FlowWatcher(machine.bootstrap, EVENTS, survey_seconds=0.1)
    watcher.start()
    return watcher


def counts_written(bootstrap: str) -> bool:
    return any(Cluster(bootstrap).end_offsets(COUNTS_TOPIC).values())


def test_what_a_power_failure_took_is_not_counted(machine: PowerCutBroker) -> None:
    # The events are not synced, the counts are: they are ahead of the events after the failure.
    create_topic(machine.bootstrap, EVENTS)
    create_topic(machine.bootstrap, COUNTS_TOPIC, **{"cleanup.policy": "compact", "flush.messages": "1"})
    watcher = watching(machine)
    try:
        produce(machine.bootstrap, EVENTS, [{"value": b"{}"}] * 40)
        wait_until(lambda: watcher.snapshot().accepted == 40, "all events are counted")
        wait_until(lambda: counts_written(machine.bootstrap), "the counts are kept")
        machine.cut_power()
        machine.start()
        produce(machine.bootstrap, EVENTS, [{"value": b"{}"}] * 3)
        end = Cluster(machine.bootstrap).end_offsets(EVENTS)[0]
        assert end > 43, "the lost offsets are not used again"
        there = len(list(records_between(machine.bootstrap, EVENTS, {0: (0, end)})))
        assert there == 3
        assert counts_written(machine.bootstrap), "the counts survived"
        wait_until(lambda: watcher.snapshot().accepted == there, "a watcher that saw it all counts again")
    finally:
        watcher.stop()
    second = watching(machine)
    try:
        wait_until(lambda: second.snapshot().accepted == there, "the next one goes on from the right counts")
    finally:
        second.stop()
