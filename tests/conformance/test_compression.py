"""Every codec, written by each client and read by the others, and left on disk as it was written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.answers.conversation import FETCH
from tests.conformance.clients import Client, Message, contents, writable
from tests.conformance.engines import Engine
from tests.conformance.record_batches import BASE_TIMESTAMP, CODECS, read_batches

NAMES = ("librdkafka", "kafka-python", "java")
MESSAGES = [
    Message(
        value=f"value {number} ".encode() * (number % 7),
        key=None if number % 3 == 0 else f"key {number}".encode(),
        timestamp=BASE_TIMESTAMP + number,
        headers=(("one", b"1"), ("none", None), ("empty", b"")) if number % 2 else (),
    )
    for number in range(100)
] + [Message(value=None, key=b"tombstone", timestamp=BASE_TIMESTAMP + 100)]


def codecs_on_disk(engine: Engine, topic: str) -> set[str]:
    """The codecs of the batches as they come to a consumer."""
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 24}
    with engine.connect() as client:
        reply = client.ask(
            FETCH,
            12,
            max_wait=0,
            min_bytes=0,
            max_bytes=1 << 24,
            topics=[{"topic": topic, "partitions": [partition]}],
        )
    return {each.codec for each in read_batches(reply.responses[0].partitions[0].records)}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", NAMES)
def test_codec_written_by_one_is_read_by_the_others(
    engine: Engine, clients: dict[str, Client], new_topic: Callable[..., str], codec: str, writer: str
) -> None:
    topic = new_topic()
    messages = writable(clients[writer], MESSAGES)
    places = clients[writer].write(engine.bootstrap, topic, messages, partition=0, compression_type=codec)
    assert places == [(0, offset) for offset in range(len(messages))]
    # librdkafka leaves a batch as it is where the codec would make it larger.
    assert {codec} <= codecs_on_disk(engine, topic) <= {codec, "none"}
    for reader in NAMES:
        if reader != writer:
            found = clients[reader].read(engine.bootstrap, topic, len(messages), partition=0)
            assert contents(found) == contents(messages), reader
            assert [each.offset for each in found] == list(range(len(messages)))


@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_topic_with_a_codec_of_its_own(
    engine: Engine, clients: dict[str, Client], new_topic: Callable[..., str], wanted: str
) -> None:
    topic = new_topic(compression_type=wanted)
    written: list[Message] = []
    for writer, codec in zip(NAMES, ("none", "gzip", "lz4"), strict=True):
        messages = writable(clients[writer], MESSAGES)
        clients[writer].write(engine.bootstrap, topic, messages, partition=0, compression_type=codec)
        written += messages
    assert codecs_on_disk(engine, topic) == {"none" if wanted == "uncompressed" else wanted}
    for reader in NAMES:
        found = clients[reader].read(engine.bootstrap, topic, len(written), partition=0)
        assert contents(found) == contents(written), reader
