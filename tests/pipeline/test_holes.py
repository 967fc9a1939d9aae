"""Spark's source goes over the hole that a power loss leaves in a topic: it neither waits nor fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from tests.broker.broker_process import PowerCutBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[PowerCutBroker]:
    process = PowerCutBroker(tmp_path / "data")
    process.start()
    yield process
    process.end()


def produce(bootstrap: str, topic: str, what: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(5):
        producer.produce(topic, f"{what} {number}")
    assert producer.flush(120) == 0


def of(what: str) -> list[str]:
    return [f"{what} {number}" for number in range(5)]


def values(frame: DataFrame) -> list[str]:
    return sorted(bytes(row.value).decode() for row in frame.select("value").collect())


def test_a_batch_and_a_stream_go_over_the_hole(
    spark: SparkSession, broker: PowerCutBroker, topic_name: str, tmp_path: Path
) -> None:
    produce(broker.bootstrap, topic_name, "kept")
    broker.stop()
    broker.start()
    produce(broker.bootstrap, topic_name, "lost")
    broker.cut_power()
    broker.start()
    options = {
        "kafka.bootstrap.servers": broker.bootstrap,
        "subscribe": topic_name,
        "startingOffsets": "earliest",
        "failOnDataLoss": "true",
        "kafkaConsumer.pollTimeoutMs": "20000",
    }
    batch = spark.read.format("kafka").options(**options).load()
    assert values(batch) == of("kept")
    stream = (
        spark.readStream.format("kafka")
        .options(**options)
        .load()
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "rows"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        stream.processAllAvailable()
        assert values(spark.read.parquet(str(tmp_path / "rows"))) == of("kept")
        produce(broker.bootstrap, topic_name, "after")
        stream.processAllAvailable()
        assert values(spark.read.parquet(str(tmp_path / "rows"))) == sorted(of("kept") + of("after"))
    finally:
        stream.stop()
    assert values(batch) == sorted(of("kept") + of("after"))
