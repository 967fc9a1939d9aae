"""A start waits for what the producers of former runs still hold, and closes them; on a real JVM."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from headrace.client.cluster import Cluster
from headrace.core.errors import HeadraceError
from headrace.pipeline.spark import producers
from headrace.pipeline.spark.producers import new_client_id, silence
from headrace.testing import EmbeddedBroker


def _producer(spark: SparkSession, bootstrap: str, query: str, linger_ms: int) -> Any:
    jvm: Any = spark._jvm
    properties = jvm.java.util.Properties()
    for name, value in {
        "bootstrap.servers": bootstrap,
        "client.id": new_client_id(query),
        "linger.ms": str(linger_ms),
        "delivery.timeout.ms": "60000",
        "key.serializer": "org.apache.kafka.common.serialization.StringSerializer",
        "value.serializer": "org.apache.kafka.common.serialization.StringSerializer",
    }.items():
        properties.setProperty(name, value)
    return jvm.org.apache.kafka.clients.producer.KafkaProducer(properties)


def _send(spark: SparkSession, producer: Any, topic: str) -> None:
    jvm: Any = spark._jvm
    producer.send(jvm.org.apache.kafka.clients.producer.ProducerRecord(topic, "key", "value"))


def test_records_that_a_former_run_left_in_its_producer_are_waited_for(
    spark: SparkSession, broker: EmbeddedBroker, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producers, "_PATIENCE_SECONDS", 240.0)
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(topic_name, partitions=1)
    producer = _producer(spark, broker.bootstrap, "CSAS_LEFT_1", linger_ms=20_000)
    try:
        _send(spark, producer, topic_name)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(silence, spark, "CSAS_LEFT_1")
            assert not wait([waiting], timeout=0.7).done, "the record is still held"
            producer.flush()
            assert not waiting.result(), "no record was given up"
        assert cluster.end_offsets(topic_name) == {0: 1}
    finally:
        producer.close()


@contextmanager
def _pooled_producer(spark: SparkSession, bootstrap: str, query: str) -> Iterator[Any]:
    """As Spark's tasks get one. It does not send by itself for a long time."""
    jvm: Any = spark._jvm
    settings = jvm.java.util.HashMap()
    serializer = "org.apache.kafka.common.serialization.ByteArraySerializer"
    for name, value in {
        "bootstrap.servers": bootstrap,
        "client.id": new_client_id(query),
        "linger.ms": "60000",
        "key.serializer": serializer,
        "value.serializer": serializer,
    }.items():
        settings.put(name, value)
    package = jvm.org.apache.spark.sql.kafka010.producer
    pool = getattr(getattr(package, "InternalKafkaProducerPool$"), "MODULE$")
    cached = pool.acquire(settings)
    try:
        yield cached.producer()
    finally:
        pool.release(cached)


def _record(spark: SparkSession, topic: str) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.kafka.clients.producer.ProducerRecord(topic, bytearray(b"key"), bytearray(b"value"))


def test_what_is_not_acknowledged_is_waited_for_by_trying_again(
    spark: SparkSession, broker: EmbeddedBroker, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request may be held up for longer than a start waits. The next one must not begin without it."""
    monkeypatch.setattr(producers, "_PATIENCE_SECONDS", 0.5)
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(topic_name, partitions=1)
    with _pooled_producer(spark, broker.bootstrap, "CSAS_LEFT_3") as producer:
        producer.send(_record(spark, topic_name))
        with pytest.raises(HeadraceError, match="query CSAS_LEFT_3 still has records"):
            silence(spark, "CSAS_LEFT_3")
        producer.flush()
        assert not silence(spark, "CSAS_LEFT_3"), "no record was given up"
        assert cluster.end_offsets(topic_name) == {0: 1}


def test_a_task_that_has_not_noticed_its_end_cannot_send(
    spark: SparkSession, broker: EmbeddedBroker, topic_name: str
) -> None:
    """However long it takes: the producers of a former run are closed, although they hold nothing."""
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(topic_name, partitions=1)
    with (
        _pooled_producer(spark, broker.bootstrap, "CSAS_LEFT_6") as producer,
        _pooled_producer(spark, broker.bootstrap, "CSAS_LEFT_7") as of_another_query,
    ):
        producer.send(_record(spark, topic_name))
        producer.flush()
        assert not silence(spark, "CSAS_LEFT_6")
        with pytest.raises(Py4JJavaError, match="closed"):
            producer.send(_record(spark, topic_name))
        assert not silence(spark, "CSAS_LEFT_6"), "nothing is left"
        of_another_query.send(_record(spark, topic_name))
        of_another_query.flush()
        assert cluster.end_offsets(topic_name) == {0: 2}


def test_records_for_a_topic_that_is_gone_are_not_waited_for(
    spark: SparkSession, broker: EmbeddedBroker, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producers, "_PATIENCE_SECONDS", 120.0)
    cluster = Cluster(broker.bootstrap)
    cluster.create_topic(topic_name, partitions=2)
    with _pooled_producer(spark, broker.bootstrap, "CSAS_LEFT_5") as producer:
        producer.send(_record(spark, topic_name))
        cluster.delete_topic(topic_name)
        cluster.create_topic(topic_name, partitions=1)
        began = time.monotonic()
        assert silence(spark, "CSAS_LEFT_5", at_once=True), "a record was given up"
        assert time.monotonic() < began + producers._PATIENCE_SECONDS
        with pytest.raises(Py4JJavaError, match="closed"):
            producer.send(_record(spark, topic_name))
        assert sum(cluster.end_offsets(topic_name).values()) == 0, "and none of them gets into the new one"


def test_a_start_does_not_wait_for_ever(
    spark: SparkSession, broker: EmbeddedBroker, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producers, "_PATIENCE_SECONDS", 0.5)
    Cluster(broker.bootstrap).create_topic(topic_name, partitions=1)
    producer = _producer(spark, broker.bootstrap, "CSAS_LEFT_2", linger_ms=20_000)
    try:
        _send(spark, producer, topic_name)
        silence(spark, "CSAS_LEFT_1")
        # It is not one of Spark's, so it cannot be closed.
        with pytest.raises(HeadraceError, match="query CSAS_LEFT_2 still has records"):
            silence(spark, "CSAS_LEFT_2")
    finally:
        producer.close()
