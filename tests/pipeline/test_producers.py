"""A start waits for what the producers of former runs still hold; on a real JVM."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.client.cluster import Cluster
from headrace.core.errors import HeadraceError
from headrace.pipeline.spark import producers
from headrace.pipeline.spark.producers import new_client_id, wait_for_silence
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
            waiting = pool.submit(wait_for_silence, spark, "CSAS_LEFT_1")
            assert not wait([waiting], timeout=0.7).done, "the record is still held"
            producer.flush()
            assert not waiting.result(), "no record was given up"
        assert cluster.end_offsets(topic_name) == {0: 1}
    finally:
        producer.close()


def test_a_start_does_not_wait_for_ever(
    spark: SparkSession, broker: EmbeddedBroker, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producers, "_PATIENCE_SECONDS", 0.5)
    Cluster(broker.bootstrap).create_topic(topic_name, partitions=1)
    producer = _producer(spark, broker.bootstrap, "CSAS_LEFT_2", linger_ms=20_000)
    try:
        _send(spark, producer, topic_name)
        wait_for_silence(spark, "CSAS_LEFT_1")
        with pytest.raises(HeadraceError, match="query CSAS_LEFT_2 still has records"):
            wait_for_silence(spark, "CSAS_LEFT_2")
    finally:
        producer.close()
