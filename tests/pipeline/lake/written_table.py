"""A table of the lake with its real writer, without a topic: tests give the numbers of the rows."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headrace.client.topics import TopicIdentity
from headrace.core.settings import Settings
from headrace.lake.delta_log import DeltaLog
from headrace.lake.layout import TableColumn, TableLayout
from headrace.lake.location import Location
from headrace.lake.merging import MergeRules
from headrace.lake.positions import Progress
from headrace.lake.table_state import TableState
from headrace.pipeline.spark.lake.dead_letters import IS_SENT, LakeDeadLetters
from headrace.pipeline.spark.lake.rows import DROPPED
from headrace.pipeline.spark.lake.table_run import partition_policy
from headrace.pipeline.spark.lake.table_start import start_table
from headrace.pipeline.spark.lake.writer import DeltaLakeWriter
from headrace.pipeline.spark.steps.rows import REASON

TOPIC = TopicIdentity(name="numbers", topic_id="numbers-id", partitions=1)
# Two files are enough, as if nothing was written any more.
RULES = MergeRules(target_bytes=1_000_000, least_files=4, most_bytes=1_000_000, quiet_ms=0)


class _WholeTopic:
    topic_id = TOPIC.topic_id

    @property
    def starts(self) -> dict[int, int]:
        return {}

    def lacking(self, _offsets: object) -> frozenset[int]:
        return frozenset()


class NoLetters:
    has_sent = False

    def with_sent(self, rows: DataFrame) -> DataFrame:
        return rows.withColumn(IS_SENT, F.lit(False))

    def noted(self, progress: Progress, *, has_sent: bool) -> Progress:
        assert not has_sent
        return progress


class WrittenTable:
    """Row n has the value n, in one of two partitions (one is null) of one date."""

    def __init__(self, spark: SparkSession, location: Location, folder: Path) -> None:
        self.spark = spark
        self.settings = dataclasses.replace(Settings(), data_dir=folder)
        self.layout = TableLayout(
            name="numbers",
            location=location,
            value_columns=(
                TableColumn("KIND", "STRING"),
                TableColumn("DAY", "DATE"),
                TableColumn("NUMBER", "BIGINT"),
                TableColumn("TAGS", "ARRAY<STRUCT<A:STRING,B:DECIMAL(9,3)>>"),
            ),
            partition_columns=("KIND", "DAY"),
        )
        self.log = DeltaLog(location)
        self.next = 0
        self.restart()

    def restart(self) -> None:
        start = start_table(
            self.spark,
            self.layout,
            topic=_WholeTopic(),
            dead_letters=_WholeTopic(),
            data_dir=self.settings.data_dir,
        )
        self.bounds = start.progress.bounds
        self.writer = DeltaLakeWriter(
            start.files,
            self.layout,
            topic=TOPIC,
            version=start.version,
            progress=start.progress,
            dead_letters=cast(LakeDeadLetters, NoLetters()),
            policy=partition_policy(self.layout, self.settings),
        )

    def write(self, rows: int = 10, day: str = "2026-03-14") -> None:
        first, self.next = self.next, self.next + rows
        self.writer.write(
            self.spark.sql(
                f"""SELECT if(id % 2 = 0, NULL, 'a/b ü') AS KIND, DATE '{day}' AS DAY, id AS NUMBER,
                array(named_struct('A', string(id), 'B', CAST(id / 8 AS DECIMAL(9, 3)))) AS TAGS,
                'q' AS _QUERY, 's' AS _SOURCE_TOPIC_ID, 0 AS _SOURCE_PARTITION, id AS _SOURCE_OFFSET,
                0 AS _SOURCE_ORDINAL, 0 AS _TOPIC_PARTITION, id AS _TOPIC_OFFSET,
                timestamp_millis(id) AS _POSTED_AT, CAST(NULL AS STRING) AS {REASON}, false AS {DROPPED}
                FROM range({first}, {self.next})"""
            )
        )

    def state(self) -> TableState:
        return TableState(self.log, knows_removed=True)

    def rows(self) -> list[Any]:
        frame = self.spark.read.format("delta").load(self.layout.location.uri)
        return sorted(frame.collect(), key=lambda row: int(row["NUMBER"]))

    def numbers(self) -> list[int]:
        return [row["NUMBER"] for row in self.rows()]
