"""A broker that was stopped and started again has kept all: topics, ids, settings, records, producers."""

from __future__ import annotations

import time
from typing import Any

from tests.conformance.answers.conversation import (
    CREATE_TOPICS,
    DELETE_RECORDS,
    DESCRIBE_CONFIGS,
    DESCRIBE_PRODUCERS,
    FETCH,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    PRODUCE,
    Topic,
    fetch_fields,
    produce_fields,
    wait_until,
)
from tests.conformance.engines import Engine, Server
from tests.conformance.raw_client import RawClient, plain
from tests.conformance.record_batches import BASE_TIMESTAMP, Record, batch, read_batches
from tests.conformance.topics import create_topic, end_offsets, warm_up


def test_restart_keeps_everything(server: Server, engine: Engine) -> None:
    before = Engine(name=engine.name, bootstrap=server.bootstrap)
    warm_up(before)
    create_topic(before, "kept", 3, retention_ms="123456789", cleanup_policy="delete")
    create_topic(before, "compacted", 1, cleanup_policy="compact")
    # Producers whose last record is older than a day are forgotten.
    now = time.time_ns() // 1_000_000
    with before.connect() as client:
        topic = Topic(name="kept", id=_metadata(client, "kept")["topic_id"])
        producer = client.ask(
            INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout=60_000
        ).producer_id
        for number in range(5):
            records = [Record(value=b"%d" % number, key=b"k", timestamp_delta=number)]
            _produce(client, topic, sequenced(producer, number, now, records))
        _produce(client, topic, batch([Record(value=b"other")] * 3), partition=2)
        client.ask(
            DELETE_RECORDS,
            2,
            topics=[{"name": "kept", "partitions": [{"partition_index": 0, "offset": 2}]}],
            timeout=30_000,
        )
        known = _state(client, topic)
    server.stop()
    server.start()
    server.wait_ready(120)
    after = Engine(name=engine.name, bootstrap=server.bootstrap)
    warm_up(after)
    with after.connect() as client:
        wait_until(lambda: end_offsets(client, "kept", 3) == [5, 0, 3])
        again = _state(client, topic)
        for name, value in known.items():
            assert again[name] == value, name
        # The producer goes on where it was: its last batch is known again, a gap is refused.
        assert _produce(client, topic, sequenced(producer, 4, now)).base_offset == 4
        assert _produce(client, topic, sequenced(producer, 5, now)).base_offset == 5
        reply = client.ask(PRODUCE, 11, **produce_fields(topic, sequenced(producer, 9, now)))
        assert reply.responses[0].partition_responses[0].error_code.name == "out_of_order_sequence_number"
        # New producers get new ids.
        other = client.ask(INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout=60_000)
        assert other.producer_id > producer
        made = client.ask(
            CREATE_TOPICS,
            7,
            topics=[{"name": "kept", "num_partitions": 1, "replication_factor": 1}],
            timeout=30_000,
        )
        assert made.topics[0].error_code.name == "topic_already_exists"


def sequenced(producer: int, sequence: int, now: int, records: list[Record] | None = None) -> bytes:
    """A batch of an idempotent producer."""
    fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
    return batch(records, codec="gzip", base_timestamp=now, **fields)


def _produce(client: RawClient, topic: Topic, records: bytes, partition: int = 0) -> Any:
    reply = client.ask(PRODUCE, 11, **produce_fields(topic, records, partition))
    (answer,) = reply.responses[0].partition_responses
    assert answer.error_code == 0, reply
    return answer


def _metadata(client: RawClient, name: str) -> dict[str, Any]:
    asked = [{"name": name, "topic_id": None}]
    reply = plain(client.ask(METADATA, 12, topics=asked, allow_auto_topic_creation=False))
    (found,) = reply["topics"]
    for partition in found["partitions"]:
        # Apache Kafka elects anew at every start.
        del partition["leader_epoch"]
    return dict(found)


def _state(client: RawClient, topic: Topic) -> dict[str, Any]:
    """All that a client can know of the broker."""
    state: dict[str, Any] = {"cluster": client.ask(METADATA, 12, topics=[]).cluster_id}
    for name in ("kept", "compacted"):
        state[f"metadata of {name}"] = _metadata(client, name)
        asked = [{"resource_type": 2, "resource_name": name, "configuration_keys": None}]
        configs = client.ask(DESCRIBE_CONFIGS, 4, resources=asked).results[0].configs
        state[f"settings of {name}"] = {each.name: (each.value, each.config_source) for each in configs}
    for timestamp in (-1, -2, -3, BASE_TIMESTAMP + 3):
        asked = [{"partition_index": each, "timestamp": timestamp} for each in range(3)]
        reply = client.ask(LIST_OFFSETS, 7, replica_id=-1, topics=[{"name": "kept", "partitions": asked}])
        state[f"offsets at {timestamp}"] = [
            (each.partition_index, each.offset, each.timestamp) for each in reply.topics[0].partitions
        ]
    for partition, offset in ((0, 2), (1, 0), (2, 0)):
        reply = client.ask(FETCH, 17, **fetch_fields(topic, offset, partition))
        state[f"records of {partition}"] = list(read_batches(reply.responses[0].partitions[0].records or b""))
    asked_producers = [{"name": "kept", "partition_indexes": [0]}]
    producers = client.ask(DESCRIBE_PRODUCERS, 0, topics=asked_producers).topics[0].partitions[0]
    state["producers"] = [
        (each.producer_id, each.producer_epoch, each.last_sequence) for each in producers.active_producers
    ]
    return state
