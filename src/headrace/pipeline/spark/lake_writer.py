"""Writes batches of one topic to one Delta table, each row once (see `lake/marks.py` for the rule,
`lake/writer.py` for the contract).

For each batch: drop rows that the marks cover, cache the rest in memory, find their highest positions, then
commit rows and marks in one Delta transaction. The marks stay in memory between batches, which is correct
only if there is no other writer: the pipeline's JVM holds a lock as long as it lives (`writer_lock.py`).
Delta's own transaction numbers would have the same effect, at the price of three Spark jobs per commit
(decision 0004).

Crash behaviour: before the commit nothing is visible; after it the batch may be repeated, but its rows are at
or below the marks. Dead letters are sent after the commit and may be repeated; they have their coordinates.
"""

from __future__ import annotations

import logging
from typing import Final

from pyspark.sql import Column, DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.storagelevel import StorageLevel

from headrace.client.message_sizes import derived_message_bytes
from headrace.client.topics import TopicIdentity
from headrace.core.settings import Settings
from headrace.lake import layout
from headrace.lake.coordinates import POSTED_AT_HEADER, SOURCE_HEADER
from headrace.lake.history import cached_marks
from headrace.lake.layout import TableLayout
from headrace.lake.marks import Lane, Marks, Position, Source, marks_from_rows
from headrace.lake.writer import WrittenBatch
from headrace.pipeline.spark.fault_headers import fault_headers, header
from headrace.pipeline.spark.lake_rows import LATENCY
from headrace.pipeline.spark.marks_filter import IS_REPEATED, IS_SUSPECT, SOURCE_COLUMNS, with_marks
from headrace.pipeline.spark.steps.rows import HEADERS, KEY, REASON, VALUE

logger = logging.getLogger(__name__)

_COORDINATES: Final = [*SOURCE_COLUMNS, layout.SOURCE_OFFSET, layout.SOURCE_ORDINAL]
_LANE_COLUMNS: Final = [*SOURCE_COLUMNS, layout.TOPIC_PARTITION]
_QUANTILES: Final = [step / 100 for step in range(101)]


class DeltaLakeWriter:
    """The writer of one table; one instance per running query. `write` takes the result of `lake_rows`."""

    def __init__(
        self,
        spark: SparkSession,
        table: TableLayout,
        *,
        query: str,
        topic: TopicIdentity,
        dead_letter_topic: str,
        settings: Settings,
    ) -> None:
        self._spark = spark
        self._table = table
        self._query = query
        self._topic = topic
        self._dead_letter_topic = dead_letter_topic
        self._settings = settings
        spark.sql(table.definition())
        marks = cached_marks(table.path) or self._marks_of_rows()
        self._marks = marks.for_layout(topic.layout)

    @property
    def marks(self) -> Marks:
        return self._marks

    def write(self, batch: DataFrame) -> WrittenBatch:
        """Write one batch of rows. Returns after the commit."""
        totals = Observation()
        kept = self._fresh_rows(batch, totals).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            summary, quantiles = self._summarise(kept)
            fresh = kept
            if any(row["suspects"] for row in summary):
                fresh = self._without_known_suspects(kept)
                summary, quantiles = self._summarise(fresh)
            good = [row for row in summary if not row["is_bad"]]
            rows = sum(row["rows"] for row in good)
            if rows:
                self._commit(fresh, self._marks.advanced(_highest(good)))
            dead_letters = sum(row["rows"] for row in summary if row["is_bad"])
            if dead_letters:
                self._send_dead_letters(fresh)
        finally:
            kept.unpersist()
        counted = totals.get
        return WrittenBatch(
            rows=rows,
            repeated=counted["records"] - rows - dead_letters,
            dead_letters=dead_letters,
            latency_quantiles_ms=quantiles if rows else (),
        )

    def _fresh_rows(self, batch: DataFrame, totals: Observation) -> DataFrame:
        """Rows that the marks do not cover, without duplicates."""
        # One task reads one partition in any case; saying so avoids the shuffle for dropping duplicates.
        rows = batch.coalesce(1) if self._topic.partitions == 1 else batch
        rows = rows.observe(totals, F.count(F.lit(1)).alias("records"))
        # Unreadable records become dead letters; they have no marks, and may be repeated there.
        kept = with_marks(rows, self._marks).filter(F.col(REASON).isNotNull() | ~F.col(IS_REPEATED))
        return kept.dropDuplicates(_COORDINATES)

    def _summarise(self, fresh: DataFrame) -> tuple[list[Row], tuple[float, ...]]:
        """Highest position and number of rows per lane, and the latency of the whole batch, in one pass."""
        latency = Observation()
        observed = fresh.observe(
            latency,
            F.percentile_approx(F.when(F.col(REASON).isNull(), F.col(LATENCY)), _QUANTILES, 1000).alias(
                "quantiles"
            ),
        )
        summary = (
            observed.groupBy(*_LANE_COLUMNS, F.col(REASON).isNotNull().alias("is_bad"))
            .agg(
                F.max(_position()).alias("highest"),
                F.count(F.lit(1)).alias("rows"),
                F.count_if(F.col(IS_SUSPECT)).alias("suspects"),
            )
            .collect()
        )
        return summary, tuple(float(value) for value in latency.get["quantiles"] or ())

    def _without_known_suspects(self, fresh: DataFrame) -> DataFrame:
        """The batch without suspects that the table already has: the slow path after a change of layout."""
        suspects = fresh.filter(IS_SUSPECT)
        lowest, highest = suspects.agg(F.min(layout.SOURCE_OFFSET), F.max(layout.SOURCE_OFFSET)).first() or (
            0,
            0,
        )
        known = (
            self._spark.read.format("delta")
            .load(str(self._table.path))
            .filter(F.col(layout.SOURCE_OFFSET).between(lowest, highest))
            .select(*_COORDINATES)
        )
        logger.info(
            "Looking up rows between source offsets %s and %s: the topic's layout changed.", lowest, highest
        )
        return fresh.join(known, on=_COORDINATES, how="left_anti").withColumn(IS_SUSPECT, F.lit(False))

    def _commit(self, fresh: DataFrame, marks: Marks) -> None:
        (
            fresh.filter(F.col(REASON).isNull())
            .select(*self._table.columns)
            .write.format("delta")
            .mode("append")
            .option("userMetadata", marks.as_metadata())
            .save(str(self._table.path))
        )
        self._marks = marks

    def _send_dead_letters(self, fresh: DataFrame) -> None:
        source = F.concat_ws("/", *(F.col(name) for name in _COORDINATES))
        derived = F.array(
            header(SOURCE_HEADER, source),
            header(POSTED_AT_HEADER, F.unix_millis(layout.POSTED_AT).cast("string")),
        )
        place = (layout.TOPIC_PARTITION, layout.TOPIC_OFFSET)
        faults = fault_headers(
            query=F.lit(self._query),
            reason=F.col(REASON),
            read_from=F.concat_ws("/", F.lit(self._topic.name), F.lit(self._topic.topic_id), *place),
            original=F.col(HEADERS),
            position=None,
        )
        headers = F.concat(derived, faults)
        (
            fresh.filter(F.col(REASON).isNotNull())
            .select(F.col(KEY).alias("key"), F.col(VALUE).alias("value"), headers.alias("headers"))
            .write.format("kafka")
            .option("kafka.bootstrap.servers", self._settings.bootstrap)
            .option("kafka.max.request.size", str(derived_message_bytes(self._settings)))
            .option("topic", self._dead_letter_topic)
            .save()
        )

    def _marks_of_rows(self) -> Marks:
        """The marks computed from the rows: needed after a restore, or if the cache is missing."""
        rows = (
            self._spark.read.format("delta")
            .load(str(self._table.path))
            .groupBy(*SOURCE_COLUMNS)
            .agg(F.max(_position()).alias("highest"))
            .collect()
        )
        return marks_from_rows({_source(row): _as_position(row["highest"]) for row in rows})


def _highest(summary: list[Row]) -> dict[Lane, Position]:
    return {
        Lane(source=_source(row), topic_partition=row[layout.TOPIC_PARTITION]): _as_position(row["highest"])
        for row in summary
    }


def _position() -> Column:
    return F.struct(layout.SOURCE_OFFSET, layout.SOURCE_ORDINAL)


def _as_position(row: Row) -> Position:
    return Position(offset=row[layout.SOURCE_OFFSET], ordinal=row[layout.SOURCE_ORDINAL])


def _source(row: Row) -> Source:
    return Source(
        query=row[layout.QUERY], topic_id=row[layout.SOURCE_TOPIC_ID], partition=row[layout.SOURCE_PARTITION]
    )
