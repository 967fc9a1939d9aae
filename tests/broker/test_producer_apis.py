"""InitProducerId, FindCoordinator and DescribeProducers over a socket, and idempotent producers at work."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kio.schema.errors import ErrorCode

from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError
from headrace.broker.producer_ids import BLOCK_SIZE
from headrace.log.errors import StorageError
from tests.broker.served_broker import PRODUCE, ServedBroker, served
from tests.conformance.record_batches import BASE_TIMESTAMP, Record, batch

FIND_COORDINATOR, INIT_PRODUCER_ID, DESCRIBE_PRODUCERS = 10, 22, 61
GROUP, TRANSACTION, SHARE = 0, 1, 2


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    with served(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


def begun(broker: ServedBroker, version: int = 4, **fields: Any) -> tuple[str, int, int]:
    """The error, the producer id and its epoch."""
    asked = {"transactional_id": None, "transaction_timeout": 60_000} | fields
    reply = broker.ask(INIT_PRODUCER_ID, version, **asked)
    return reply["error_code"], reply["producer_id"], reply["producer_epoch"]


@pytest.mark.parametrize("version", range(6))
def test_every_producer_gets_an_id_of_its_own(broker: ServedBroker, version: int) -> None:
    answers = [begun(broker, version) for _ in range(3)]
    assert {(error, epoch) for error, _, epoch in answers} == {("none", 0)}
    assert len({producer_id for _, producer_id, _ in answers}) == 3


def test_ids_are_not_given_again_after_a_restart(tmp_path: Path) -> None:
    given = set()
    for _ in range(2):
        with served(tmp_path / "data") as broker:
            given |= {begun(broker)[1] for _ in range(3)}
    assert len(given) == 6


def test_ids_come_in_blocks(tmp_path: Path) -> None:
    with served(tmp_path / "data") as broker:
        given = broker.do(lambda inner: [inner.producer_ids.take() for _ in range(BLOCK_SIZE + 2)])
    assert given == list(range(given[0], given[0] + BLOCK_SIZE + 2))


@pytest.mark.parametrize(
    ("producer_id", "epoch", "error"),
    [(5, 0, "none"), (5, 32_767, "none"), (5, -1, "invalid_request"), (-1, 3, "invalid_request")],
)
def test_an_id_is_asked_for_with_its_epoch_and_gives_a_new_one(
    broker: ServedBroker, producer_id: int, epoch: int, error: str
) -> None:
    code, given, given_epoch = begun(broker, producer_id=producer_id, producer_epoch=epoch)
    assert code == error
    assert given_epoch == (0 if error == "none" else -1)
    assert given != producer_id if error == "none" else given == -1


def test_an_empty_transactional_id_is_none(broker: ServedBroker) -> None:
    assert begun(broker, transactional_id="") == ("invalid_request", -1, -1)


def test_a_disk_that_is_full_gives_no_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path / "data") as broker:

        def full(_count: int) -> range:
            raise StorageError(f"no room: {errno.ENOSPC}")

        broker.do(lambda inner: monkeypatch.setattr(inner.logs, "reserve_producer_ids", full))
        assert begun(broker) == ("kafka_storage_error", -1, -1)
        broker.do(lambda _inner: monkeypatch.undo())
        assert begun(broker)[0] == "none"


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("key_type", [GROUP, TRANSACTION])
def test_this_broker_coordinates_one_key(broker: ServedBroker, version: int, key_type: int) -> None:
    reply = broker.ask(FIND_COORDINATOR, version, key="readers", key_type=key_type)
    expected = {"error_code": "none", "node_id": 1, "host": "127.0.0.1", "port": broker.port}
    if version >= 1:
        expected |= {"throttle_time": 0, "error_message": "NONE"}
    assert reply == expected


@pytest.mark.parametrize("version", range(4, 7))
@pytest.mark.parametrize("key_type", [GROUP, TRANSACTION])
def test_this_broker_coordinates_many_keys(broker: ServedBroker, version: int, key_type: int) -> None:
    reply = broker.ask(FIND_COORDINATOR, version, key_type=key_type, coordinator_keys=["a", "b", ""])
    node = {"node_id": 1, "host": "127.0.0.1", "port": broker.port}
    none = {"error_code": "none", "error_message": ""}
    assert reply == {
        "throttle_time": 0,
        "coordinators": [{"key": key} | node | none for key in ("a", "b", "")],
    }


@pytest.mark.parametrize("key_type", [SHARE, 3, -1])
def test_other_coordinators_are_refused(broker: ServedBroker, key_type: int) -> None:
    old = broker.ask(FIND_COORDINATOR, 3, key="a", key_type=key_type)
    assert (old["error_code"], old["node_id"], old["port"]) == ("invalid_request", -1, -1)
    (new,) = broker.ask(FIND_COORDINATOR, 6, key_type=key_type, coordinator_keys=["a"])["coordinators"]
    assert (new["error_code"], new["node_id"], new["host"]) == ("invalid_request", -1, "")


def described(broker: ServedBroker, name: str, *partitions: int) -> list[dict[str, Any]]:
    topics = [{"name": name, "partition_indexes": partitions}]
    (topic,) = broker.ask(DESCRIBE_PRODUCERS, 0, topics=topics)["topics"]
    found: list[dict[str, Any]] = topic["partitions"]
    return found


def test_producers_are_described(broker: ServedBroker) -> None:
    broker.create("described", partitions=2)
    broker.produce("described", Record())
    broker.produce(
        "described",
        Record(timestamp_delta=7),
        Record(timestamp_delta=3),
        producer_id=77,
        producer_epoch=3,
        base_sequence=5,
    )
    first, second, missing = described(broker, "described", 0, 1, 2)
    assert first["active_producers"] == [
        {
            "producer_id": 77,
            "producer_epoch": 3,
            "last_sequence": 6,
            "last_timestamp": BASE_TIMESTAMP + 7,
            "coordinator_epoch": -1,
            "current_txn_start_offset": -1,
        }
    ]
    assert (second["error_code"], second["active_producers"]) == ("none", [])
    assert (missing["error_code"], missing["error_message"]) == ("unknown_topic_or_partition", None)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("nowhere", "unknown_topic_or_partition", "This server does not host this topic-partition."),
        ("..", "invalid_topic_exception", "Topic name is invalid: '..' is not allowed"),
        ("", "invalid_topic_exception", "Topic name is invalid: the empty string is not allowed"),
    ],
)
def test_producers_of_topics_that_are_not_there(
    broker: ServedBroker, name: str, error: str, message: str
) -> None:
    (answer,) = described(broker, name, 0)
    assert (answer["error_code"], answer["error_message"]) == (error, message)


def sent(broker: ServedBroker, name: str, sequence: int, *, epoch: int = 0, producer: int) -> tuple[str, int]:
    """Send two records as this producer; the error and the base offset."""
    records = batch(
        [Record(), Record()],
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        # A producer expires by the timestamps of its records.
        base_timestamp=broker.do(lambda inner: inner.now_ms()),
    )
    data = [{"name": name, "partition_data": [{"index": 0, "records": records}]}]
    reply = broker.ask(PRODUCE, 9, transactional_id=None, acks=-1, timeout=10_000, topic_data=data)
    (answer,) = reply["responses"][0]["partition_responses"]
    return answer["error_code"], answer["base_offset"]


def test_a_producer_that_repeats_itself(broker: ServedBroker) -> None:
    broker.create("repeated")
    _, producer, _ = begun(broker)
    for index in range(6):
        assert sent(broker, "repeated", 2 * index, producer=producer) == ("none", 2 * index)
    for index in range(1, 6):
        assert sent(broker, "repeated", 2 * index, producer=producer) == ("none", 2 * index)
    assert sent(broker, "repeated", 0, producer=producer)[0] == "out_of_order_sequence_number"
    assert sent(broker, "repeated", 14, producer=producer)[0] == "out_of_order_sequence_number"
    assert sent(broker, "repeated", 0, epoch=1, producer=producer) == ("none", 12)
    assert sent(broker, "repeated", 12, producer=producer)[0] == "invalid_producer_epoch"
    assert sent(broker, "repeated", 2, epoch=2, producer=producer)[0] == "out_of_order_sequence_number"


@pytest.mark.parametrize("crash", [False, True])
def test_repetitions_are_known_after_a_restart(tmp_path: Path, crash: bool) -> None:
    with served(tmp_path / "data") as broker:
        broker.create("kept")
        for index in range(6):
            assert sent(broker, "kept", 2 * index, producer=9) == ("none", 2 * index)
        if crash:
            broker.kill()
    with served(tmp_path / "data") as broker:
        for index in range(1, 6):
            assert sent(broker, "kept", 2 * index, producer=9) == ("none", 2 * index)
        assert sent(broker, "kept", 0, producer=9)[0] == "out_of_order_sequence_number"
        assert sent(broker, "kept", 12, producer=9) == ("none", 12)


def test_an_idempotent_producer_of_librdkafka(broker: ServedBroker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 0})
    offsets: list[int] = []
    broker.create("idempotent")
    for index in range(50):
        producer.produce(
            "idempotent", b"%d" % index, on_delivery=lambda _error, message: offsets.append(message.offset())
        )
        producer.poll(0)
    assert producer.flush(120) == 0
    assert sorted(offsets) == list(range(50))
    (answer,) = described(broker, "idempotent", 0)
    (active,) = answer["active_producers"]
    assert active["last_sequence"] == 49


@pytest.mark.parametrize("key_type", [GROUP, TRANSACTION])
def test_a_coordinator_whose_topic_cannot_be_made(tmp_path: Path, key_type: int) -> None:
    with served(tmp_path / "data") as broker:

        def refusing() -> None:
            raise ApiError(ErrorCode.coordinator_not_available)

        def coordinator(inner: Broker) -> Any:
            return inner.groups if key_type == GROUP else inner.transactions

        broker.do(lambda inner: setattr(coordinator(inner).shards, "ensure", refusing))
        reply = broker.ask(FIND_COORDINATOR, 3, key="a", key_type=key_type)
        assert (reply["error_code"], reply["node_id"]) == ("coordinator_not_available", -1)
        assert reply["error_message"] == "The coordinator is not available."
        broker.do(lambda inner: delattr(coordinator(inner).shards, "ensure"))
        assert broker.ask(FIND_COORDINATOR, 3, key="a", key_type=key_type)["error_code"] == "none"
        made = broker.do(lambda inner: {name for name in inner.logs.topics if name.startswith("__")})
        assert made == {"__consumer_offsets" if key_type == GROUP else "__transaction_state"}
