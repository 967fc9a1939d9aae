"""A copy of a table in files: the newest raw record of each key.

It has two uses. A global table is broadcast from its copy: another query reads the table's topic and updates
the copy batch by batch, and the joining query takes the newest snapshot at the start of each of its batches.
An aggregation of a table (`table_aggregating.py`) finds the former values of changed rows in its copy. The
copy is a Delta table, so every snapshot is consistent; its readers decode the records.

Each query has its own copies, next to its checkpoint. They are named after the topic's id, so a recreated
topic gets a new copy. Losing a copy together with the checkpoint only costs time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

_TYPES: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "headers": "array<struct<key: string, value: binary>>",
}
_COLUMNS: Final = tuple(_TYPES)
# Every batch leaves the former file behind. Its readers finish long before an hour has passed.
_TIDY_AFTER: Final = 100
_KEPT_HOURS: Final = 1


class TableCopy:
    """`readable` drops unreadable records."""

    def __init__(self, folder: Path, *, readable: Callable[[DataFrame], DataFrame]) -> None:
        self._folder = folder
        self._readable = readable
        self._replaced = 0

    def make(self, session: SparkSession) -> None:
        """Create an empty copy, unless it exists."""
        # The folder alone proves nothing: a process that was killed while creating it left no commit.
        if not any((self._folder / "_delta_log").glob("0*.json")):
            # Of a Python list, even an empty one, createDataFrame makes a task for each slot of the session,
            # and each of them starts a Python process.
            nothing = session.range(0, 0, 1, 1).select(
                *(F.lit(None).cast(kind).alias(name) for name, kind in _TYPES.items())
            )
            nothing.write.format("delta").save(str(self._folder))

    def records(self, session: SparkSession) -> DataFrame:
        """The table's records, one for each key."""
        return session.read.format("delta").load(str(self._folder))

    def with_batch(self, batch: DataFrame) -> DataFrame:
        """The records after a batch of the topic. Adding a batch twice changes nothing."""
        record = F.struct(*_COLUMNS)
        newest = (
            self._readable(batch)
            .filter(F.col("key").isNotNull())
            .groupBy("key")
            .agg(F.max_by(record, "offset").alias("record"))
            .select("record.*")
        )
        standing = self.records(batch.sparkSession)
        kept = standing.join(newest.select("key"), "key", "left_anti").select(*_COLUMNS)
        return kept.unionByName(newest.filter(F.col("value").isNotNull()).select(*_COLUMNS))

    def replace(self, records: DataFrame) -> None:
        self._replaced += 1
        if self._replaced % _TIDY_AFTER == 0:
            self.tidy(records.sparkSession, hours=_KEPT_HOURS)
        records.coalesce(1).write.format("delta").mode("overwrite").save(str(self._folder))

    def refresh(self, batch: DataFrame, _batch_id: int) -> None:
        self.replace(self.with_batch(batch))

    def tidy(self, session: SparkSession, *, hours: int) -> None:
        """Remove files that no snapshot of the last hours uses."""
        # By default Delta refuses less than a week, for readers that take longer than ours.
        session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        session.sql(f"VACUUM delta.`{self._folder}` RETAIN {hours} HOURS")
