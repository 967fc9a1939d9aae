"""A copy of a global table in files, which a running query can broadcast and see change.

A query of its own reads the table's topic and writes, batch by batch, the newest record of each key to a
Delta table; every snapshot is whole. Queries that join with it take the newest snapshot at the start of each
of their batches. The copy holds Kafka records as they are, so it is decoded by whoever reads it.

One copy for each query that uses it, in the folder of the query's checkpoint: it is named after the topic's
id and starts anew with the topic. Losing it together with its checkpoint costs time only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
_SCHEMA: Final = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)


class GlobalCopy:
    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._path = str(folder)

    def make(self) -> None:
        """Make the copy, empty, unless it is there."""
        if not (Path(self._path) / "_delta_log").exists():
            self._spark.createDataFrame([], _SCHEMA).write.format("delta").save(self._path)

    def records(self) -> DataFrame:
        """The table's records, one for each key."""
        return self._spark.read.format("delta").load(self._path)

    def refresh(self, batch: DataFrame, _batch_id: int) -> None:
        """Take a batch of the topic's records in. Taken in twice it changes nothing."""
        session = batch.sparkSession
        record = F.struct(*_COLUMNS)
        newest = (
            batch.filter(F.col("key").isNotNull())
            .groupBy("key")
            .agg(F.max_by(record, "offset").alias("record"))
            .select("record.*")
        )
        standing = session.read.format("delta").load(self._path)
        kept = standing.join(newest.select("key"), "key", "left_anti").select(*_COLUMNS)
        fresh = newest.filter(F.col("value").isNotNull()).select(*_COLUMNS)
        kept.unionByName(fresh).coalesce(1).write.format("delta").mode("overwrite").save(self._path)
