"""Offsets in transactions, and what readers, tools and administrators see of transactions, over a socket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.broker.served_broker import ServedBroker, served
from tests.broker.transactional_client import (
    ADD_OFFSETS,
    ALL,
    COMMITTED,
    DESCRIBE_PRODUCERS,
    LIST_TRANSACTIONS,
    WRITE_MARKERS,
    TransactionalClient,
    aborted_of,
    committed_offset,
    fetch_fields,
    fetched,
    latest,
)
from tests.conformance.raw_client import RawClient
from tests.conformance.record_batches import read_batches


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    with served(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def topic(broker: ServedBroker, topic_name: str) -> str:
    broker.create(topic_name, partitions=3)
    return topic_name


@pytest.fixture
def client(broker: ServedBroker, topic_name: str) -> TransactionalClient:
    client = TransactionalClient(broker, f"id-{topic_name}")
    assert client.init() == "none"
    return client


# Offsets in a transaction.


@pytest.mark.parametrize("version", range(6))
def test_offsets_count_when_the_transaction_is_committed(
    broker: ServedBroker, client: TransactionalClient, topic: str, version: int
) -> None:
    group = f"group-{topic}"
    ends = 5 if version >= 5 else 4
    for committed, offset in ((False, -1), (True, 42)):
        if version < 5:
            added = broker.ask(ADD_OFFSETS, 3, group_id=group, **client.identity)
            assert added["error_code"] == "none"
        assert client.commit_offsets(topic, group, version=version) == ["none"]
        assert committed_offset(broker, topic, group) == ("unstable_offset_commit", -1)
        assert committed_offset(broker, topic, group, stable=False) == ("none", -1)
        assert client.end(committed=committed, version=ends) == "none"
        assert committed_offset(broker, topic, group) == ("none", offset)


@pytest.mark.parametrize(
    ("version", "error"), [(0, "invalid_txn_state"), (3, "invalid_txn_state"), (4, "transaction_abortable")]
)
def test_offsets_of_groups_that_were_not_added(
    client: TransactionalClient, topic: str, version: int, error: str
) -> None:
    assert client.commit_offsets(topic, "not-added", version=version) == [error]


@pytest.mark.parametrize("version", range(6))
def test_offsets_are_refused(
    broker: ServedBroker, client: TransactionalClient, topic: str, version: int
) -> None:
    assert client.commit_offsets("nowhere", "readers", version=version) == ["unknown_topic_or_partition"]
    assert client.commit_offsets(topic, "readers", version=version, partitions=(9,)) == [
        "unknown_topic_or_partition"
    ]
    assert client.commit_offsets(topic, "", version=version) == ["invalid_group_id"]
    fenced = {"producer_epoch": client.epoch + 4}
    assert client.commit_offsets(topic, "readers", version=version, **fenced) == ["invalid_producer_epoch"]
    if version >= 3:
        broker.ask(ADD_OFFSETS, 3, group_id="no-members", **client.identity)
        late = {"generation_id": 3, "member_id": "somebody"}
        assert client.commit_offsets(topic, "no-members", version=version, **late) == ["illegal_generation"]


# What readers and tools see.


def test_what_a_fetch_tells_of_open_and_aborted_transactions(
    broker: ServedBroker, client: TransactionalClient, topic: str
) -> None:
    assert client.send(topic, count=2) == "none"
    assert client.end(committed=False) == "none"
    aborted = [(client.producer_id, 0)]
    assert client.send(topic) == "none"
    for level in (ALL, COMMITTED):
        reply = fetched(broker, topic, 0, level)
        assert (reply["high_watermark"], reply["last_stable_offset"]) == (4, 3)
        found = [each.base_offset for each in read_batches(reply["records"])]
        assert found == ([0, 2, 3] if level == ALL else [0, 2])
        assert reply["aborted_transactions"] == (None if level == ALL else reply["aborted_transactions"])
    assert aborted_of(broker, topic, 0) == aborted


def test_open_transactions_are_described(
    broker: ServedBroker, client: TransactionalClient, topic: str
) -> None:
    client.send(topic, 1)
    client.send(topic, 2)
    described = client.described()
    assert described["transaction_state"] == "Ongoing"
    assert (described["producer_id"], described["producer_epoch"]) == (client.producer_id, client.epoch)
    assert described["topics"] == [{"topic": topic, "partitions": [1, 2]}]
    places = [{"name": topic, "partition_indexes": [0, 1]}]
    (found,) = broker.ask(DESCRIBE_PRODUCERS, 0, topics=places)["topics"]
    nobody, active = (each["active_producers"] for each in found["partitions"])
    assert nobody == []
    assert (active[0]["current_txn_start_offset"], active[0]["coordinator_epoch"]) == (0, -1)
    client.end()
    (found,) = broker.ask(DESCRIBE_PRODUCERS, 0, topics=places)["topics"]
    (after,) = found["partitions"][1]["active_producers"]
    assert (after["current_txn_start_offset"], after["coordinator_epoch"]) == (-1, 0)


@pytest.mark.parametrize("version", range(3))
def test_transactions_are_listed(broker: ServedBroker, client: TransactionalClient, version: int) -> None:
    reply = broker.ask(
        LIST_TRANSACTIONS,
        version,
        state_filters=["Empty", "Asleep"],
        producer_id_filters=[client.producer_id],
        duration_filter=-1,
        transactional_id_pattern=None,
    )
    assert reply["unknown_state_filters"] == ["Asleep"]
    own = {"transactional_id": client.transactional_id, "transaction_state": "Empty"}
    assert reply["transaction_states"] == [own | {"producer_id": client.producer_id}]


def test_unknown_ids_are_not_described(broker: ServedBroker) -> None:
    assert TransactionalClient(broker, "never-seen").described()["error_code"] == "transactional_id_not_found"
    assert TransactionalClient(broker, "").described()["error_code"] == "invalid_request"


@pytest.mark.parametrize("version", [1, 2])
def test_markers_of_administrators(
    broker: ServedBroker, client: TransactionalClient, topic: str, version: int
) -> None:
    client.send(topic)

    def write(*partitions: int, **fields: Any) -> list[str]:
        marker = {
            "producer_id": client.producer_id,
            "producer_epoch": client.epoch,
            "transaction_result": False,
            "coordinator_epoch": 0,
            "topics": [{"name": topic, "partition_indexes": partitions}],
        }
        reply = broker.ask(WRITE_MARKERS, version, markers=[marker | fields])
        return [each["error_code"] for each in reply["markers"][0]["topics"][0]["partitions"]]

    assert write(0, producer_epoch=client.epoch - 1) == ["invalid_producer_epoch"]
    assert latest(broker, topic, COMMITTED) == 0
    assert write(0, 9) == ["none", "unknown_topic_or_partition"]
    assert latest(broker, topic, COMMITTED) == 2
    assert aborted_of(broker, topic, 0) == [(client.producer_id, 0)]
    assert write(0, coordinator_epoch=-1) == ["transaction_coordinator_fenced"]


def test_a_fetch_waits_for_the_end_of_the_transaction(
    broker: ServedBroker, client: TransactionalClient, topic: str
) -> None:
    """What is appended to an open transaction is nothing to read yet."""
    with RawClient(("127.0.0.1", broker.port)) as raw:
        raw.send(1, 11, **fetch_fields(topic, 0, COMMITTED, max_wait=20_000))
        wait_until_one_waits(broker)
        for _ in range(3):
            assert client.send(topic) == "none"
        wait_until_one_waits(broker)
        assert client.end() == "none"
        reply = raw.receive(1, 11).responses[0].partitions[0]
    assert reply.last_stable_offset == 4
    assert [each.base_offset for each in read_batches(reply.records)] == [0, 1, 2, 3]


def wait_until_one_waits(broker: ServedBroker) -> None:
    while not broker.do(lambda inner: len(inner.waiting)):
        pass
