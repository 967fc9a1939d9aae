"""Writes batches of one topic to one Delta table, each row once (see `lake/marks.py` for the rule, `lake/writer.py` for the contract).

One batch: decode and drop what the marks know, keep the rest in memory, ask it for its highest positions, then commit rows and
marks in one Delta transaction. Each commit carries a write number one above the last under this table's writer id:
a second writer that began from the same state (a predecessor that is not quite dead) either loses the conflict check or finds its
number taken, and is told so instead of writing rows twice.

Crash behaviour: before the commit nothing is visible; after it the batch may come again, and its rows stand at or below the marks.
Dead letters are sent after the commit and may be repeated; they carry their coordinates.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.storagelevel import StorageLevel

from headrace.core.errors import HeadraceError
from headrace.lake import layout
from headrace.lake.coordinates import ERROR_HEADER, POSTED_AT_HEADER, SOURCE_HEADER
from headrace.lake.history import read_state
from headrace.lake.marks import Lane, Marks, Position, Source, marks_from_rows
from headrace.lake.writer import WrittenBatch
from headrace.pipeline.plan import LakeFlow
from headrace.pipeline.spark.lake_rows import KEY, LATENCY, REASON, SCHEMA_ID, VALUE, lake_rows
from headrace.pipeline.spark.marks_filter import IS_REPEATED, IS_SUSPECT, SOURCE_COLUMNS, with_marks
from headrace.pipeline.topics import TopicIdentity

logger = logging.getLogger(__name__)

_COORDINATES: Final = [*SOURCE_COLUMNS, layout.SOURCE_OFFSET, layout.SOURCE_ORDINAL]
_LANE_COLUMNS: Final = [*SOURCE_COLUMNS, layout.TOPIC_PARTITION]
_QUANTILES: Final = [step / 100 for step in range(101)]

SchemaLookup = Callable[[int], str | None]


class DeltaLakeWriter:
    """The writer of one table. Holds marks and write number in memory between batches; one instance per running query."""

    def __init__(
        self, spark: SparkSession, flow: LakeFlow, *, topic: TopicIdentity, bootstrap: str, schema_by_id: SchemaLookup
    ) -> None:
        self._spark = spark
        self._flow = flow
        self._topic = topic
        self._bootstrap = bootstrap
        self._schema_by_id = schema_by_id
        self._schemas: dict[int, str] = {}
        self._writer_id = f"headrace/{flow.table.name}"
        spark.sql(flow.table.definition())
        state = read_state(flow.table.path, writer=self._writer_id)
        if state is None:
            raise HeadraceError("pipeline_failed", f"The table at {flow.table.path} is not there after it was made.")
        self._write_number = state.write_number
        marks = state.marks if state.marks is not None else self._marks_of_rows()
        self._marks = marks.for_layout(topic.layout)

    @property
    def marks(self) -> Marks:
        return self._marks

    def write(self, batch: DataFrame) -> WrittenBatch:
        """Write one batch of Kafka records. Returns after the commit."""
        totals = Observation()
        fresh = self._fresh_rows(batch, totals).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            summary, quantiles = self._summarise(fresh)
            if self._learn_schemas(summary):
                # Rows that only lacked their schema are not bad: read the batch again with it.
                fresh.unpersist()
                return self.write(batch)
            if any(row["suspects"] for row in summary):
                fresh = self._without_known_suspects(fresh)
                summary, quantiles = self._summarise(fresh)
            good = [row for row in summary if not row["is_bad"]]
            rows = sum(row["rows"] for row in good)
            if rows:
                self._commit(fresh, self._marks.advanced(_highest(good)))
            dead_letters = sum(row["rows"] for row in summary if row["is_bad"])
            if dead_letters:
                self._send_dead_letters(fresh)
        finally:
            fresh.unpersist()
        counted = totals.get
        return WrittenBatch(
            rows=rows,
            repeated=counted["records"] - rows - dead_letters,
            dead_letters=dead_letters,
            latency_quantiles_ms=quantiles if rows else (),
        )

    def _fresh_rows(self, batch: DataFrame, totals: Observation) -> DataFrame:
        """Rows that the marks do not know, each once."""
        rows = lake_rows(batch, self._flow, topic=self._topic, schemas=self._schemas)
        if self._topic.partitions == 1:
            # One partition is read by one task in any case; saying so spares the shuffle for the duplicates.
            rows = rows.coalesce(1)
        rows = rows.observe(totals, F.count(F.lit(1)).alias("records"))
        # What cannot be read leaves by the dead letters; it has no mark, and may be repeated there.
        kept = with_marks(rows, self._marks).filter(F.col(REASON).isNotNull() | ~F.col(IS_REPEATED))
        return kept.dropDuplicates(_COORDINATES)

    def _summarise(self, fresh: DataFrame) -> tuple[list[Row], tuple[float, ...]]:
        """Highest position and number of rows per lane, and the latency of the whole batch, in one pass."""
        latency = Observation()
        observed = fresh.observe(
            latency, F.percentile_approx(F.when(F.col(REASON).isNull(), F.col(LATENCY)), _QUANTILES, 1000).alias("quantiles")
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

    def _learn_schemas(self, summary: list[Row]) -> bool:
        """Fetch the schemas that the batch lacked; True if there was one to learn."""
        wanted = {schema_id for row in summary if row["is_bad"] for schema_id in row["schema_ids"]}
        learned = False
        for schema_id in wanted - self._schemas.keys():
            schema = self._schema_by_id(schema_id)
            if schema is not None:
                self._schemas[schema_id] = schema
                learned = True
        return learned

    def _without_known_suspects(self, fresh: DataFrame) -> DataFrame:
        """The batch without the suspects that the table already holds: the slow path after a change of layout."""
        suspects = fresh.filter(IS_SUSPECT)
        lowest, highest = suspects.agg(F.min(layout.SOURCE_OFFSET), F.max(layout.SOURCE_OFFSET)).first() or (0, 0)
        known = (
            self._spark.read.format("delta")
            .load(str(self._flow.table.path))
            .filter(F.col(layout.SOURCE_OFFSET).between(lowest, highest))
            .select(*_COORDINATES)
        )
        logger.info("Looking up rows between source offsets %s and %s: the topic's layout changed.", lowest, highest)
        return fresh.join(known, on=_COORDINATES, how="left_anti").withColumn(IS_SUSPECT, F.lit(False)).persist()

    def _commit(self, fresh: DataFrame, marks: Marks) -> None:
        number = self._write_number + 1
        (
            fresh.filter(F.col(REASON).isNull())
            .select(*self._flow.table.columns)
            .write.format("delta")
            .mode("append")
            .option("txnAppId", self._writer_id)
            .option("txnVersion", number)
            .option("userMetadata", marks.as_metadata())
            .save(str(self._flow.table.path))
        )
        # Delta skips a write whose number is taken, without a word. If that happened someone else writes this table.
        state = read_state(self._flow.table.path, writer=self._writer_id)
        if state is None or state.write_number != number or state.marks != marks:
            raise HeadraceError(
                "pipeline_failed",
                f"Another process wrote the table {self._flow.table.path} at the same time.",
                remedy="Let one pipeline write a table; this one starts again from the table's newest state.",
            )
        self._write_number = number
        self._marks = marks

    def _send_dead_letters(self, fresh: DataFrame) -> None:
        source = F.concat_ws("/", *(F.col(name) for name in _COORDINATES))
        headers = F.array(
            _header(SOURCE_HEADER, source),
            _header(POSTED_AT_HEADER, F.unix_millis(layout.POSTED_AT).cast("string")),
            _header(ERROR_HEADER, F.col(REASON)),
        )
        (
            fresh.filter(F.col(REASON).isNotNull())
            .select(F.col(KEY).alias("key"), F.col(VALUE).alias("value"), headers.alias("headers"))
            .write.format("kafka")
            .option("kafka.bootstrap.servers", self._bootstrap)
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
        Lane(source=_source(row), topic_partition=row[layout.TOPIC_PARTITION]): _as_position(row["highest"]) for row in summary
    }


def _position() -> Column:
    return F.struct(layout.SOURCE_OFFSET, layout.SOURCE_ORDINAL)


def _as_position(row: Row) -> Position:
    return Position(offset=row[layout.SOURCE_OFFSET], ordinal=row[layout.SOURCE_ORDINAL])


def _source(row: Row) -> Source:
    return Source(query=row[layout.QUERY], topic_id=row[layout.SOURCE_TOPIC_ID], partition=row[layout.SOURCE_PARTITION])


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))
