"""What Spark 4.2 cannot do of ksqlDB's semantics, shown on Spark itself.

When one of these tests fails, a limit of ours may go.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headrace.testing import EmbeddedBroker
from tests.pipeline.plans.harness import Plans

WITHIN = "ak = bk AND bt BETWEEN at - INTERVAL 1 SECOND AND at + INTERVAL 1 SECOND"


def _rows(spark: SparkSession, name: str) -> DataFrame:
    rows = spark.readStream.format("rate").load()
    named = rows.selectExpr(f"timestamp AS {name}t", f"value % 3 AS {name}k")
    return named.withWatermark(f"{name}t", "1 seconds")


def _start(frame: DataFrame, mode: str, folder: Path) -> None:
    query = (
        frame.writeStream.format("noop")
        .outputMode(mode)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(60)
    query.stop()


def test_session_windows_have_no_changes(spark: SparkSession, tmp_path: Path) -> None:
    counted = _rows(spark, "a").groupBy(F.session_window("at", "5 seconds"), "ak").count()
    with pytest.raises(AnalysisException, match="not supported for session window streaming aggregations"):
        _start(counted, "update", tmp_path)


def test_outer_joins_of_streams_have_no_changes_behind_them(spark: SparkSession, tmp_path: Path) -> None:
    joined = _rows(spark, "a").join(_rows(spark, "b"), F.expr(WITHIN), "left_outer")
    with pytest.raises(AnalysisException, match="not supported in Update output mode"):
        _start(joined.groupBy("ak").count(), "update", tmp_path)


def test_what_a_join_gives_has_no_watermark_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    """So a window behind a join of streams is refused, and times behind it go on as they were."""
    joined = _rows(spark, "a").join(_rows(spark, "b"), F.expr(WITHIN))
    later = joined.select("ak", F.expr("greatest(at, bt)").alias("jt")).withWatermark("jt", "1 seconds")
    query = (
        later.groupBy(F.window("jt", "5 seconds"), "ak")
        .count()
        .writeStream.format("noop")
        .outputMode("append")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        with pytest.raises(StreamingQueryException, match="Redefining watermark is disallowed"):
            query.awaitTermination(60)
    finally:
        query.stop()


def test_an_aggregation_of_everything_is_never_final(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="watermark"):
        _start(_rows(spark, "a").groupBy("ak").count(), "append", tmp_path)


def test_the_sink_has_no_timestamp(spark: SparkSession, broker: EmbeddedBroker, plans: Plans) -> None:
    """A column `timestamp` is not looked at: the record's time is that of its writing."""
    topic = plans.topic("timed")
    frame = spark.sql("SELECT 'v' AS value, timestamp_millis(1000) AS timestamp")
    (
        frame.write.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("topic", topic)
        .save()
    )
    read = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("subscribe", topic)
        .load()
        .select(F.unix_millis("timestamp").alias("at"))
        .collect()
    )
    assert read[0]["at"] > 1_000_000_000_000


def test_state_of_one_s_own_needs_pandas() -> None:
    """transformWithState in Python goes through pandas and Arrow. Arrow is there for the tests alone."""
    assert importlib.util.find_spec("pandas") is None
