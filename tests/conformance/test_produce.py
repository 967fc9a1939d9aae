"""Producers: acknowledgements, sizes, empty and null parts, idempotence; each client read back by another."""

from __future__ import annotations

import random
from collections.abc import Callable

import confluent_kafka
import pytest

from tests.conformance.clients import Client, Message, contents, writable
from tests.conformance.engines import MAX_MESSAGE_BYTES, Engine
from tests.conformance.record_batches import BASE_TIMESTAMP
from tests.conformance.topics import end_offsets

NAMES = ("librdkafka", "kafka-python", "java")
# Who reads what the other has written.
READER = {"librdkafka": "java", "kafka-python": "librdkafka", "java": "kafka-python"}
SIZES = (0, 1, 2, 63, 64, 127, 128, 8191, 8192, 65_535, 1_000_000)
MEBIBYTE = 1024 * 1024


def of_size(size: int, number: int = 0) -> Message:
    """Bytes that no codec makes smaller."""
    return Message(value=random.Random(size).randbytes(size), timestamp=BASE_TIMESTAMP + number)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("writer", NAMES)
def test_acknowledgements(
    engine: Engine, clients: dict[str, Client], new_topic: Callable[..., str], writer: str, acks: str
) -> None:
    topic = new_topic()
    messages = [Message(value=str(number).encode(), timestamp=BASE_TIMESTAMP) for number in range(50)]
    options = {"acks": acks} if acks == "all" else {"acks": acks, "enable_idempotence": "false"}
    if writer == "kafka-python":
        options.pop("enable_idempotence", None)
    places = clients[writer].write(engine.bootstrap, topic, messages, partition=0, **options)
    found = clients[READER[writer]].read(engine.bootstrap, topic, len(messages))
    assert contents(found) == contents(messages)
    if acks != "0":
        assert places == [(0, offset) for offset in range(len(messages))]


@pytest.mark.parametrize("writer", NAMES)
def test_records_of_all_sizes(
    engine: Engine, clients: dict[str, Client], new_topic: Callable[..., str], writer: str
) -> None:
    topic = new_topic()
    messages = [of_size(size, number) for number, size in enumerate(SIZES)]
    clients[writer].write(engine.bootstrap, topic, messages, partition=0)
    found = clients[READER[writer]].read(engine.bootstrap, topic, len(messages))
    assert contents(found) == contents(messages)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_record_of_five_mebibytes(
    engine: Engine, clients: dict[str, Client], new_topic: Callable[..., str], codec: str
) -> None:
    _write_and_read_large(engine, clients, new_topic, "librdkafka", codec)


@pytest.mark.long
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("writer", NAMES)
def test_records_of_five_mebibytes_with_every_codec(
    engine: Engine, clients: dict[str, Client], new_topic: Callable[..., str], writer: str, codec: str
) -> None:
    _write_and_read_large(engine, clients, new_topic, writer, codec)


def _write_and_read_large(
    engine: Engine, clients: dict[str, Client], new_topic: Callable[..., str], writer: str, codec: str
) -> None:
    topic = new_topic(max_message_bytes=str(6 * MEBIBYTE))
    messages = [of_size(5 * MEBIBYTE), of_size(1), of_size(5 * MEBIBYTE - 100)]
    clients[writer].write(engine.bootstrap, topic, messages, partition=0, compression_type=codec)
    found = clients[READER[writer]].read(engine.bootstrap, topic, len(messages))
    assert contents(found) == contents(messages)


def test_record_beyond_the_limit_is_refused(
    engine: Engine, clients: dict[str, Client], new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        clients["librdkafka"].write(engine.bootstrap, topic, [of_size(MAX_MESSAGE_BYTES)], partition=0)
    assert caught.value.args[0].code() == confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE
    small = new_topic(name=f"{topic}_small", max_message_bytes="1000")
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        clients["librdkafka"].write(engine.bootstrap, small, [of_size(1000)], partition=0)
    assert caught.value.args[0].code() == confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE
    # Compressed it fits: the limit is for the batch as it comes.
    clients["librdkafka"].write(
        engine.bootstrap, small, [Message(value=b"x" * 5000)], partition=0, compression_type="gzip"
    )
    with engine.connect() as client:
        assert end_offsets(client, topic) == [0]
        assert end_offsets(client, small) == [1]


def test_huge_batches(engine: Engine, clients: dict[str, Client], new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    messages = [Message(value=b"%d" % number, timestamp=BASE_TIMESTAMP) for number in range(50_000)]
    options = {"batch_size": "1000000", "linger_ms": "200", "queue_buffering_max_messages": "100000"}
    clients["librdkafka"].write(
        engine.bootstrap, topic, messages, partition=0, **options, batch_num_messages="100000"
    )
    found = clients["kafka-python"].read(engine.bootstrap, topic, len(messages))
    assert contents(found) == contents(messages)


@pytest.mark.parametrize("writer", NAMES)
def test_empty_and_null_parts(
    engine: Engine, clients: dict[str, Client], new_topic: Callable[..., str], writer: str
) -> None:
    topic = new_topic()
    messages = writable(
        clients[writer],
        [
            Message(value=None, key=b"k", timestamp=BASE_TIMESTAMP),
            Message(value=b"", key=b"", timestamp=BASE_TIMESTAMP),
            Message(value=b"v", key=None, timestamp=BASE_TIMESTAMP),
            Message(value=b"v", timestamp=BASE_TIMESTAMP, headers=(("a", None), ("a", b""), ("", b"x"))),
            Message(value=b"v", timestamp=BASE_TIMESTAMP, headers=(("ключ", bytes(range(256))),)),
        ],
    )
    clients[writer].write(engine.bootstrap, topic, messages, partition=0)
    for reader in NAMES:
        found = clients[reader].read(engine.bootstrap, topic, len(messages))
        assert contents(found) == contents(messages), reader


@pytest.mark.parametrize("writer", NAMES)
def test_idempotent_producer(
    engine: Engine, clients: dict[str, Client], new_topic: Callable[..., str], writer: str
) -> None:
    topic = new_topic(partitions=2)
    messages = [Message(value=str(number).encode(), timestamp=BASE_TIMESTAMP) for number in range(200)]
    options = {"enable_idempotence": "true", "acks": "all"}
    if writer == "kafka-python":
        options = {"enable_idempotence": "1", "acks": "all"}
    for partition in range(2):
        clients[writer].write(engine.bootstrap, topic, messages, partition=partition, **options)
        found = clients[READER[writer]].read(engine.bootstrap, topic, len(messages), partition=partition)
        assert contents(found) == contents(messages)
    with engine.connect() as client:
        assert end_offsets(client, topic, 2) == [200, 200]


def test_unknown_partition_is_refused_by_the_client(
    engine: Engine, clients: dict[str, Client], new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        clients["librdkafka"].write(engine.bootstrap, topic, [of_size(1)], partition=7)
    assert caught.value.args[0].code() == confluent_kafka.KafkaError._UNKNOWN_PARTITION


def test_auto_creation_by_producing(engine: Engine, clients: dict[str, Client], topic_name: str) -> None:
    for number, writer in enumerate(NAMES):
        topic = f"{topic_name}_{number}"
        assert clients[writer].write(engine.bootstrap, topic, [of_size(1)], partition=None) == [(0, 0)]
