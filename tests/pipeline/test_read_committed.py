"""Spark reads what was committed, and nothing else, from the embedded broker."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from headrace.testing import EmbeddedBroker


@pytest.mark.long
def test_spark_reads_committed_records(spark: SparkSession, broker: EmbeddedBroker, topic_name: str) -> None:
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": topic_name, "linger.ms": 0}
    )
    producer.init_transactions(30)
    for number, committed in enumerate((True, False, True, False)):
        producer.begin_transaction()
        for record in range(3):
            producer.produce(topic_name, f"{number}.{record}", partition=0)
        if committed:
            producer.commit_transaction(30)
        else:
            producer.flush(120)
            producer.abort_transaction(30)

    def read(level: str) -> list[str]:
        rows = (
            spark.read.format("kafka")
            .option("kafka.bootstrap.servers", broker.bootstrap)
            .option("subscribe", topic_name)
            .option("kafka.isolation.level", level)
            .option("startingOffsets", "earliest")
            .load()
            .selectExpr("CAST(value AS STRING) AS value", "offset")
            .orderBy("offset")
            .collect()
        )
        return [row["value"] for row in rows]

    everything = [f"{number}.{record}" for number in range(4) for record in range(3)]
    assert read("read_committed") == [each for each in everything if each[0] in "02"]
    assert read("read_uncommitted") == everything
