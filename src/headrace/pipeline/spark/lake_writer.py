"""Writes batches of one topic to one Delta table, each row once (see `lake/marks.py` for the rule,
`lake/writer.py` for the contract).

One batch: drop what the marks know, keep the rest in memory, ask it for its highest positions, then commit
rows and marks in one Delta transaction. The marks are held in memory between batches, which is right only
while nobody else writes: the pipeline's JVM holds a lock for as long as it lives (`writer_lock.py`). Delta's
own transaction numbers would do the same at the price of three Spark jobs a commit (decision 0004).

Crash behaviour: before the commit nothing is visible; after it the batch may come again, and its rows stand
at or below the marks. Dead letters are sent after the commit and may be repeated; they carry their
coordinates.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.storagelevel import StorageLevel

from headrace.client.topics import TopicIdentity, largest_message
from headrace.core.settings import Settings
from headrace.lake import layout
from headrace.lake.coordinates import POSTED_AT_HEADER, SOURCE_HEADER
from headrace.lake.history import cached_marks
from headrace.lake.marks import Lane, Marks, Position, Source, marks_from_rows
from headrace.lake.writer import WrittenBatch
from headrace.pipeline.plan import LakeFlow
from headrace.pipeline.spark.fault_headers import fault_headers, header
from headrace.pipeline.spark.lake_rows import HEADERS, KEY, LATENCY, REASON, SCHEMA_ID, VALUE
from headrace.pipeline.spark.marks_filter import IS_REPEATED, IS_SUSPECT, SOURCE_COLUMNS, with_marks

logger = logging.getLogger(__name__)

_COORDINATES: Final = [*SOURCE_COLUMNS, layout.SOURCE_OFFSET, layout.SOURCE_ORDINAL]
_LANE_COLUMNS: Final = [*SOURCE_COLUMNS, layout.TOPIC_PARTITION]
_QUANTILES: Final = [step / 100 for step in range(101)]

LearnSchema = Callable[[int], bool]


class SchemaLearned(Exception):  # noqa: N818 - no error: the query starts again and knows more
    """The batch holds records of schemas that were unknown until now."""

    def __init__(self, schema_ids: list[int]) -> None:
        super().__init__(f"starting again with the schemas {sorted(schema_ids)}")


class DeltaLakeWriter:
    """The writer of one table; one instance per running query. `write` takes what `lake_rows` gives."""

    def __init__(
        self,
        spark: SparkSession,
        flow: LakeFlow,
        *,
        topic: TopicIdentity,
        settings: Settings,
        learn_schema: LearnSchema,
    ) -> None:
        self._spark = spark
        self._flow = flow
        self._topic = topic
        self._settings = settings
        self._learn_schema = learn_schema
        spark.sql(flow.table.definition())
        marks = cached_marks(flow.table.path) or self._marks_of_rows()
        self._marks = marks.for_layout(topic.layout)

    @property
    def marks(self) -> Marks:
        return self._marks

    def write(self, batch: DataFrame) -> WrittenBatch:
        """Write one batch of rows. Returns after the commit; raises SchemaLearned if the batch must be
        decoded again.
        """
        totals = Observation()
        kept = self._fresh_rows(batch, totals).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            summary, quantiles = self._summarise(kept)
            self._learn_schemas(summary)
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
        """Rows that the marks do not know, each once."""
        # One partition is read by one task in any case; saying so spares the shuffle for the duplicates.
        rows = batch.coalesce(1) if self._topic.partitions == 1 else batch
        rows = rows.observe(totals, F.count(F.lit(1)).alias("records"))
        # What cannot be read leaves by the dead letters; it has no mark, and may be repeated there.
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
                F.collect_set(F.when(F.col(REASON).isNotNull(), F.col(SCHEMA_ID))).alias("schema_ids"),
            )
            .collect()
        )
        return summary, tuple(float(value) for value in latency.get["quantiles"] or ())

    def _learn_schemas(self, summary: list[Row]) -> None:
        """Rows that only lacked their schema are not bad: have them decoded again where the registry knows
        it.
        """
        wanted = {schema_id for row in summary if row["is_bad"] for schema_id in row["schema_ids"]}
        # A list, so that every schema of the batch is learned at once.
        learned = [schema_id for schema_id in wanted if self._learn_schema(schema_id)]
        if learned:
            raise SchemaLearned(learned)

    def _without_known_suspects(self, fresh: DataFrame) -> DataFrame:
        """The batch without the suspects that the table already holds: the slow path after a change of
        layout.
        """
        suspects = fresh.filter(IS_SUSPECT)
        lowest, highest = suspects.agg(F.min(layout.SOURCE_OFFSET), F.max(layout.SOURCE_OFFSET)).first() or (
            0,
            0,
        )
        known = (
            self._spark.read.format("delta")
            .load(str(self._flow.table.path))
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
            .select(*self._flow.table.columns)
            .write.format("delta")
            .mode("append")
            .option("userMetadata", marks.as_metadata())
            .save(str(self._flow.table.path))
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
            query=F.lit(self._flow.query),
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
            .option("kafka.max.request.size", largest_message(self._settings))
            .option("topic", self._flow.dead_letter_topic)
            .save()
        )

    def _marks_of_rows(self) -> Marks:
        """The truth, computed from the rows: needed after a restore, or when the cache is not there."""
        rows = (
            self._spark.read.format("delta")
            .load(str(self._flow.table.path))
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
