"""What the functions that Spark calls with a batch say of an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.pipeline.spark.short_errors import shortened, shortened_errors

ERROR = """An error occurred while calling o1.save.
: org.apache.spark.SparkException: Job aborted: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error.
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:3000)
\t... 20 more
Caused by: java.io.IOException: Stream is corrupted
"""


def test_an_error_keeps_its_messages_without_stack_traces() -> None:
    assert shortened(ERROR).splitlines() == [
        "An error occurred while calling o1.save.",
        ": org.apache.spark.SparkException: Job aborted: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error.",
        "Caused by: java.io.IOException: Stream is corrupted",
    ]
    assert len(shortened("x" * 10_000)) == 600


def test_spark_tells_a_long_error_that_is_shortened(spark: SparkSession, tmp_path: Path) -> None:
    """It would overflow on the whole text, and say nothing of it."""
    long = PySparkException("the reason: " + "a line of a plan\n" * 20_000)

    def write(_batch: object, _number: int) -> None:
        with shortened_errors():
            raise long

    query = (
        spark.readStream.format("rate")
        .load()
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    with pytest.raises(Exception, match="the reason: a line of a plan"):
        query.awaitTermination(60)
