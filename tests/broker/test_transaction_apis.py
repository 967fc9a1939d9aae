"""The APIs of transactions over a socket: what is taken, what is refused, in the words of each version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from headrace.broker.errors import ApiError
from tests.broker.served_broker import PRODUCE, ServedBroker, served
from tests.broker.transactional_client import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    ALL,
    COMMITTED,
    TransactionalClient,
    aborted_of,
    latest,
)
from tests.conformance.record_batches import Record, batch


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


# Ids and epochs.


@pytest.mark.parametrize("version", range(6))
def test_an_id_keeps_its_producer_and_gets_higher_epochs(
    broker: ServedBroker, topic_name: str, version: int
) -> None:
    client = TransactionalClient(broker, topic_name)
    seen = []
    for _ in range(3):
        assert client.init(version) == "none"
        seen.append((client.producer_id, client.epoch))
    assert seen == [(client.producer_id, epoch) for epoch in range(3)]


@pytest.mark.parametrize(("version", "error"), [(3, "invalid_producer_epoch"), (4, "producer_fenced")])
def test_a_producer_that_was_followed_cannot_go_on(
    client: TransactionalClient, version: int, error: str
) -> None:
    own = {"producer_id": client.producer_id, "producer_epoch": client.epoch}
    assert client.init() == "none"
    assert client.init() == "none"
    assert client.init(version, **own) == error


def test_timeouts_are_limited(client: TransactionalClient) -> None:
    assert client.init(timeout_ms=0) == "invalid_transaction_timeout"
    assert client.init(timeout_ms=900_001) == "invalid_transaction_timeout"
    assert client.init(timeout_ms=900_000) == "none"


# Partitions.


@pytest.mark.parametrize(("version", "error"), [(1, "invalid_producer_epoch"), (2, "producer_fenced")])
def test_adding_partitions_is_refused(
    client: TransactionalClient, topic: str, version: int, error: str
) -> None:
    assert client.add((topic, 0), version=version, producer_epoch=7) == [error]
    assert client.add((topic, 0), version=version, producer_id=1 << 50) == ["invalid_producer_id_mapping"]
    not_attempted = "operation_not_attempted"
    assert client.add((topic, 0), ("nowhere", 0), version=version) == [
        not_attempted,
        "unknown_topic_or_partition",
    ]
    assert client.add((topic, 0), (topic, 9), version=version) == [
        not_attempted,
        "unknown_topic_or_partition",
    ]
    assert client.add(("__consumer_offsets", 0), (topic, 1), version=version) == [
        "topic_authorization_failed",
        not_attempted,
    ]
    assert client.state() == "Empty"


def test_partitions_of_several_transactions(broker: ServedBroker, topic: str, topic_name: str) -> None:
    """Version 4: what brokers ask each other."""
    clients = [TransactionalClient(broker, f"{topic_name}-{number}") for number in range(2)]
    for each in clients:
        each.init()
    assert clients[0].add((topic, 0)) == ["none"]
    topics = [{"name": topic, "partitions": [0, 1]}]
    reply = broker.ask(
        ADD_PARTITIONS,
        4,
        transactions=[each.identity | {"verify_only": True, "topics": topics} for each in clients],
    )
    found = [
        [each["partition_error_code"] for each in result["topic_results"][0]["results_by_partition"]]
        for result in reply["results_by_transaction"]
    ]
    assert found == [["none", "transaction_abortable"], ["transaction_abortable", "transaction_abortable"]]


@pytest.mark.parametrize("version", range(5))
def test_the_partition_of_a_groups_offsets_is_added(
    broker: ServedBroker, client: TransactionalClient, version: int
) -> None:
    reply = broker.ask(ADD_OFFSETS, version, group_id="readers", **client.identity)
    assert reply["error_code"] == "none"
    (place,) = client.described()["topics"]
    assert place["topic"] == "__consumer_offsets"
    assert place["partitions"] == [broker.do(lambda inner: inner.groups.partition_of("readers"))]


@pytest.mark.parametrize(("version", "error"), [(1, "invalid_producer_epoch"), (2, "producer_fenced")])
def test_offsets_of_a_fenced_producer_are_not_added(
    broker: ServedBroker, client: TransactionalClient, version: int, error: str
) -> None:
    fields = client.identity | {"producer_epoch": client.epoch + 3}
    assert broker.ask(ADD_OFFSETS, version, group_id="readers", **fields)["error_code"] == error


# Ends.


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("version", range(6))
def test_a_transaction_ends(
    broker: ServedBroker, client: TransactionalClient, topic: str, version: int, committed: bool
) -> None:
    if version < 5:
        assert client.add((topic, 0), (topic, 1)) == ["none", "none"]
    produce = 12 if version >= 5 else 11
    assert client.send(topic, 0, version=produce) == "none"
    assert client.send(topic, 1, version=produce) == "none"
    assert (latest(broker, topic, ALL), latest(broker, topic, COMMITTED)) == (1, 0)
    before = client.epoch
    assert client.end(committed=committed, version=version) == "none"
    assert client.state() == ("CompleteCommit" if committed else "CompleteAbort")
    assert client.epoch == before + (version >= 5)
    for partition in range(2):
        assert latest(broker, topic, COMMITTED, partition) == 2
        assert aborted_of(broker, topic, partition) == ([] if committed else [(client.producer_id, 0)])


@pytest.mark.parametrize(
    ("version", "error"), [(1, "invalid_producer_epoch"), (2, "producer_fenced"), (5, "producer_fenced")]
)
def test_a_fenced_producer_cannot_end_a_transaction(
    client: TransactionalClient, topic: str, version: int, error: str
) -> None:
    assert client.add((topic, 0)) == ["none"]
    assert client.end(version=version, producer_epoch=client.epoch + 5) == error
    assert client.end(version=version, transactional_id="nobody") == "invalid_producer_id_mapping"
    assert client.state() == "Ongoing"


def test_beginning_again_aborts_what_is_open(
    broker: ServedBroker, client: TransactionalClient, topic: str
) -> None:
    assert client.send(topic) == "none"
    before = client.epoch
    assert client.init() == "none"
    assert client.epoch == before + 2, "one for the abort, one for the producer"
    assert aborted_of(broker, topic, 0) == [(client.producer_id, 0)]
    assert latest(broker, topic, COMMITTED) == latest(broker, topic, ALL) == 2


# Produce.


def produced(broker: ServedBroker, version: int, **fields: Any) -> list[tuple[str, str | None]]:
    reply = broker.ask(PRODUCE, version, **fields)
    return [
        (each["error_code"], each.get("error_message"))
        for topic in reply["responses"]
        for each in topic["partition_responses"]
    ]


@pytest.mark.parametrize(
    ("version", "error"), [(9, "invalid_txn_state"), (10, "invalid_txn_state"), (11, "transaction_abortable")]
)
def test_old_clients_have_to_add_their_partitions(
    broker: ServedBroker, client: TransactionalClient, topic: str, version: int, error: str
) -> None:
    records = client.records(topic)
    ((code, message),) = produced(broker, version, **client.produce_fields(topic, records))
    assert code == error
    assert message == ("Partition was not added to the transaction" if error == "invalid_txn_state" else None)
    assert client.add((topic, 0)) == ["none"]
    assert produced(broker, version, **client.produce_fields(topic, records)) == [("none", None)]


@pytest.mark.parametrize("version", [9, 12])
def test_one_record_of_the_state_adds_all_partitions_of_a_request(
    broker: ServedBroker, client: TransactionalClient, topic: str, version: int
) -> None:
    if version < 12:
        assert client.add(*((topic, partition) for partition in range(3))) == ["none"] * 3
    asked: list[Any] = []
    original = broker.do(lambda inner: inner.transactions.add_partitions)

    def counting(request: Any) -> Any:
        asked.append(request)
        return original(request)

    broker.do(lambda inner: setattr(inner.transactions, "add_partitions", counting))
    try:
        for _ in range(2):
            partitions = [{"index": each, "records": client.records(topic, each)} for each in range(3)]
            data = [{"name": topic, "partition_data": partitions}]
            fields = client.produce_fields(topic, b"") | {"topic_data": data}
            assert produced(broker, version, **fields) == [("none", None)] * 3
    finally:
        broker.do(lambda inner: delattr(inner.transactions, "add_partitions"))
    (only,) = asked
    assert {each.partition for each in only.partitions} == {0, 1, 2}
    assert only.verify_only == (version < 12)
    assert client.state() == "Ongoing"


def test_records_of_others_are_refused(broker: ServedBroker, client: TransactionalClient, topic: str) -> None:
    epoch = client.records(topic, producer_epoch=client.epoch + 1)
    assert produced(broker, 12, **client.produce_fields(topic, epoch))[0][0] == "invalid_producer_epoch"
    other = client.records(topic, producer_id=1 << 50)
    assert produced(broker, 12, **client.produce_fields(topic, other))[0][0] == "invalid_producer_id_mapping"
    both = [{"index": 0, "records": client.records(topic)}, {"index": 1, "records": other}]
    fields = client.produce_fields(topic, b"") | {"topic_data": [{"name": topic, "partition_data": both}]}
    assert [code for code, _ in produced(broker, 12, **fields)] == ["invalid_producer_id_mapping"] * 2
    assert latest(broker, topic, ALL) == 0


@pytest.mark.parametrize("version", [9, 12])
def test_transactional_records_need_a_transactional_id(
    broker: ServedBroker, client: TransactionalClient, topic: str, version: int
) -> None:
    refused = [("transactional_id_authorization_failed", None)]
    nobody = client.produce_fields(topic, client.records(topic), transactional_id=None)
    assert produced(broker, version, **nobody) == refused
    client.add((topic, 0))
    assert client.send(topic, base_sequence=0, version=version) == "none"
    also_nobody = client.produce_fields(topic, client.records(topic), transactional_id=None)
    assert produced(broker, version, **also_nobody) == refused, "also where a transaction is open"


def test_internal_topics_are_not_for_clients(broker: ServedBroker, client: TransactionalClient) -> None:
    for topic in ("__transaction_state", "__consumer_offsets"):
        broker.do(lambda inner: inner.groups.shards.ensure())
        fields = client.produce_fields(topic, batch([Record(key=b"k")]), transactional_id=None)
        assert produced(broker, 9, **fields)[0][0] == "invalid_topic_exception"
        assert client.send(topic) == "invalid_topic_exception"
    assert client.state() == "Empty"


@pytest.mark.parametrize(
    "code", [ErrorCode.coordinator_load_in_progress, ErrorCode.coordinator_not_available]
)
def test_a_coordinator_that_cannot_answer_is_asked_again(
    broker: ServedBroker, client: TransactionalClient, topic: str, code: ErrorCode
) -> None:
    def refusing(_request: Any) -> Any:
        raise ApiError(code)

    records = client.records(topic)
    broker.do(lambda inner: setattr(inner.transactions, "add_partitions", refusing))
    try:
        ((error, message),) = produced(broker, 12, **client.produce_fields(topic, records))
    finally:
        broker.do(lambda inner: delattr(inner.transactions, "add_partitions"))
    assert error == "not_enough_replicas"
    assert message is not None
    assert message.endswith(f"Underlying error: {code.name.upper()}")
    assert produced(broker, 12, **client.produce_fields(topic, records)) == [("none", None)]
