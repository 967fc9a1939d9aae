"""Pull queries of tables whose topics grow, and the time of their rows."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from headrace.pipeline.serving.pull_queries import PullAnswer
from headrace.pipeline.serving.service import StatementService
from headrace.pipeline.serving.session import Session
from headrace.testing import EmbeddedBroker


def rows(service: StatementService, text: str) -> set[tuple[Any, ...]]:
    answer = service.begin(text, Session())
    assert isinstance(answer, PullAnswer)
    return set(answer.rows)


def make_table(service: StatementService, topic: str, more: str = "") -> None:
    service.execute(
        f"CREATE TABLE t (k VARCHAR PRIMARY KEY, v BIGINT) "
        f"WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON', PARTITIONS=1{more});",
        Session(),
    )


def produce(broker: EmbeddedBroker, topic: str, *records: tuple[int, str, bytes | None, int]) -> None:
    """Records as (partition, key, value, timestamp)."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for partition, key, value, timestamp in records:
        producer.produce(topic, value, key.encode(), partition=partition, timestamp=timestamp)
    assert producer.flush(120) == 0


def grow(broker: EmbeddedBroker, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(120)


def test_a_table_whose_topic_gains_partitions(
    service: StatementService, broker: EmbeddedBroker, topic_name: str
) -> None:
    make_table(service, topic_name)
    produce(broker, topic_name, (0, "a", b'{"V": 1}', 1000), (0, "b", b'{"V": 2}', 1000))
    assert rows(service, "SELECT k, v FROM t;") == {("a", 1), ("b", 2)}
    grow(broker, topic_name, 3)
    produce(broker, topic_name, (1, "c", b'{"V": 3}', 2000))
    assert rows(service, "SELECT k, v FROM t;") == {("a", 1), ("b", 2), ("c", 3)}
    assert rows(service, "SELECT v FROM t WHERE k = 'c';") == {(3,)}


def test_the_newest_record_of_a_key_counts_whichever_partition_it_is_in(
    service: StatementService, broker: EmbeddedBroker, topic_name: str
) -> None:
    """After a topic has grown, Kafka's hash may send a key to another partition than before."""
    make_table(service, topic_name)
    before = [(0, f"k{number}", b'{"V": 1}', 1000) for number in range(200)]
    produce(broker, topic_name, *before)
    grow(broker, topic_name, 2)
    after = [
        (1, f"k{number}", None if number % 2 else b'{"V": 2}', 2000 + number % 3) for number in range(100)
    ]
    produce(broker, topic_name, *after)
    expected = {(f"k{number}", 2) for number in range(0, 100, 2)} | {
        (f"k{number}", 1) for number in range(100, 200)
    }
    for _ in range(3):
        assert rows(service, "SELECT k, v FROM t;") == expected
        # A new view reads both partitions at once, in any order.
        service._views.close()


def test_rowtime_of_a_table_is_the_time_of_its_rows(
    service: StatementService, broker: EmbeddedBroker, topic_name: str
) -> None:
    """Of its TIMESTAMP column, or of the header of a query: what queries that read the table see, too."""
    make_table(service, topic_name, ", TIMESTAMP='v'")
    service.execute(
        "CREATE TABLE plain (k VARCHAR PRIMARY KEY, v BIGINT) "
        f"WITH (KAFKA_TOPIC='{topic_name}', VALUE_FORMAT='JSON');",
        Session(),
    )
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    headers = {"headrace-rowtime": b"77"}
    producer.produce(topic_name, b'{"V": 5000}', b"a", timestamp=1000, headers=headers)
    producer.produce(topic_name, b'{"V": 6000}', b"b", timestamp=1001)
    producer.produce(topic_name, b'{"V": -1}', b"c", timestamp=1002)
    assert producer.flush(120) == 0
    assert rows(service, "SELECT k, ROWTIME AS t FROM t;") == {("a", 5000), ("b", 6000)}
    assert rows(service, "SELECT k FROM t WHERE ROWTIME > 5500;") == {("b",)}
    assert rows(service, "SELECT k, ROWTIME AS t FROM plain;") == {("a", 77), ("b", 1001), ("c", 1002)}


def test_two_forms_of_a_key_are_one_row(
    service: StatementService, broker: EmbeddedBroker, topic_name: str
) -> None:
    service.execute(
        "CREATE TABLE t (k STRUCT<a INTEGER, b VARCHAR> PRIMARY KEY, v BIGINT) "
        f"WITH (KAFKA_TOPIC='{topic_name}', FORMAT='JSON', PARTITIONS=1);",
        Session(),
    )
    compact, spaced, other = '{"A":1,"B":"x"}', '{"B": "x", "A": 1}', '{"A":2,"B":"x"}'
    produce(broker, topic_name, (0, compact, b'{"V": 1}', 1000), (0, other, b'{"V": 7}', 1000))
    produce(broker, topic_name, (0, spaced, b'{"V": 2}', 900))
    assert rows(service, "SELECT k->a, v FROM t;") == {(1, 2), (2, 7)}
    assert rows(service, "SELECT v FROM t WHERE k = STRUCT(a := 1, b := 'x');") == {(2,)}
    produce(broker, topic_name, (0, compact, None, 800))
    assert rows(service, "SELECT k->a, v FROM t;") == {(2, 7)}
    grow(broker, topic_name, 2)
    produce(broker, topic_name, (1, spaced, b'{"V": 3}', 2000), (0, compact, b'{"V": 4}', 1500))
    assert rows(service, "SELECT k->a, v FROM t;") == {(1, 3), (2, 7)}
