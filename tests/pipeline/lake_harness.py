"""A lake table with its writer, without a topic: tests give the records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.core.settings import Settings
from headrace.lake.positions import Reached
from headrace.lake.sent_letters import SentLetters
from headrace.lake.writer import WrittenBatch
from headrace.pipeline.plan import QueryPlan
from headrace.pipeline.spark.formats.avro_format import writer_schemas
from headrace.pipeline.spark.lake_dead_letters import LakeDeadLetters
from headrace.pipeline.spark.lake_query import partition_policy
from headrace.pipeline.spark.lake_rows import lake_rows
from headrace.pipeline.spark.lake_start import start_table
from headrace.pipeline.spark.lake_writer import DeltaLakeWriter
from headrace.pipeline.spark.stateless import GivenRecords
from headrace.pipeline.spark.steps.building import built
from tests.pipeline.records import Record, frame

TOPIC = TopicIdentity(name="events_avro", topic_id="avroid", partitions=1)
SCHEMA_ID = 7


@dataclass
class MadeTopic:
    """A topic that exists only in the test."""

    topic_id: str
    has_all: bool

    @property
    def starts(self) -> dict[int, int]:
        return {}

    def lacking(self, offsets: Mapping[int, int]) -> set[int]:
        return set() if self.has_all else set(offsets)


class Lake:
    """The table of a plan, its writer, and the records of its topic, whose values have this schema."""

    query = "to-lake"

    def __init__(
        self, spark: SparkSession, settings: Settings, plan: QueryPlan, *, schema: str, dead_letter_topic: str
    ) -> None:
        self.spark = spark
        self.settings = settings
        self.bootstrap = settings.bootstrap
        assert plan.lake_table is not None
        self.plan, self.table = plan, plan.lake_table
        self.dead_letter_topic = dead_letter_topic
        self.schemas = {SCHEMA_ID: schema}
        self.absent: set[int] = set()
        # Dead letters that the next run knows.
        self.sent: frozenset[tuple[int, int]] = frozenset()
        self.restart()

    def restart(self, topic: TopicIdentity = TOPIC, *, has_all: bool = True) -> None:
        """A new run, on a topic that still has everything unless told otherwise."""
        self.topic = topic
        asked = MadeTopic(topic.topic_id, has_all)
        start = start_table(
            self.spark, self.table, topic=asked, dead_letters=asked, data_dir=self.settings.data_dir
        )
        self.writer = DeltaLakeWriter(
            start.files,
            self.table,
            topic=topic,
            version=start.version,
            progress=start.progress,
            dead_letters=LakeDeadLetters(
                self.settings,
                query=self.query,
                topic=topic,
                dead_letter_topic=self.dead_letter_topic,
                client_id="test",
                sent=SentLetters(places=self.sent, ends=Reached(topic_id="letters")),
                ends=lambda: Cluster(self.bootstrap).end_offsets(self.dead_letter_topic),
            ),
            policy=partition_policy(self.table, self.settings),
        )

    def write(self, *records: Record) -> WrittenBatch:
        schemas = writer_schemas(self.schemas, absent=self.absent)
        inputs = GivenRecords(frame(self.spark, list(records)), self.query, self.topic, schemas)
        return self.writer.write(lake_rows(built(self.plan.root, inputs), self.table, topic=self.topic))
