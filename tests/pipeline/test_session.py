"""The session's local files: as Spark's parts need them, and no more of them than there have to be."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812


def test_local_files_have_no_checksums_beside_them(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "numbers"
    spark.range(10).write.parquet(str(folder))
    names = [path.name for path in folder.iterdir()]
    assert [name for name in names if name.endswith(".parquet")]
    assert not [name for name in names if name.endswith(".crc")]


_SECONDS = 150.0


@pytest.mark.long
def test_a_state_store_makes_snapshots(spark: SparkSession, tmp_path: Path) -> None:
    """They are made in the background, where a failure is logged and otherwise unseen: then every start would
    have to go through all changes that there ever were.
    """
    settings = {
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "1",
        "spark.sql.streaming.stateStore.maintenanceInterval": "200ms",
    }
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    checkpoint = tmp_path / "checkpoint"
    try:
        numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
        counts = numbers.groupBy((F.col("value") % 3).alias("rest")).count()
        query = (
            counts.writeStream.format("noop")
            .outputMode("update")
            .option("checkpointLocation", str(checkpoint))
            .start()
        )
        deadline = time.monotonic() + _SECONDS
        try:
            while not list(checkpoint.glob("state/0/*/*.zip")):
                if (error := query.exception()) is not None:
                    raise error
                progress = query.lastProgress
                # Another test may have begun the maintenance of this JVM, with Spark's minute between two.
                is_late = time.monotonic() > deadline
                few = progress is None or progress["batchId"] < 100
                assert few or not is_late, "a hundred batches and no snapshot"
                time.sleep(0.05)
        finally:
            query.stop()
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)
