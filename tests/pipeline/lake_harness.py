"""A lake table with its writer, without a topic: tests give the records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.core.settings import Settings
from headrace.lake.evolution import NEW_TABLE
from headrace.lake.layout import TableLayout
from headrace.lake.location import located
from headrace.lake.positions import Reached
from headrace.lake.sent_letters import SentLetters
from headrace.lake.sink import LakeSink
from headrace.lake.writer import WrittenBatch
from headrace.pipeline.sink_tables import table_name
from headrace.pipeline.spark.formats.avro_format import writer_schemas
from headrace.pipeline.spark.lake.avro_values import AvroValues, columns_of_schemas
from headrace.pipeline.spark.lake.dead_letters import LakeDeadLetters
from headrace.pipeline.spark.lake.evolving import with_columns
from headrace.pipeline.spark.lake.rows import with_coordinates
from headrace.pipeline.spark.lake.shape import TableShape
from headrace.pipeline.spark.lake.table_run import partition_policy
from headrace.pipeline.spark.lake.table_start import start_table
from headrace.pipeline.spark.lake.writer import DeltaLakeWriter
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
    """The table of a sink, its writer, and the records of its topic, whose values have this schema."""

    query = "to-lake"

    def __init__(
        self, spark: SparkSession, settings: Settings, sink: LakeSink, *, schema: str, dead_letter_topic: str
    ) -> None:
        self.spark = spark
        self.settings = settings
        self.bootstrap = settings.bootstrap
        self.sink = sink
        self.dead_letter_topic = dead_letter_topic
        self.schemas = {SCHEMA_ID: schema}
        self.absent: set[int] = set()
        # Dead letters that the next run knows.
        self.sent: frozenset[tuple[int, int]] = frozenset()
        known = writer_schemas(self.schemas, absent=())
        self.columns = columns_of_schemas(known, table=None, rules=NEW_TABLE)
        name = table_name(sink, TOPIC.name)
        root = located(sink.storage)
        self.table = with_columns(
            TableLayout(
                name=name,
                location=(root / sink.topics_dir if sink.topics_dir else root) / name,
                value_columns=(),
                partition_columns=self._shape().partition_columns,
            ),
            self.columns,
        )
        self.restart()

    def restart(self, topic: TopicIdentity = TOPIC, *, has_all: bool = True, waiting: int = 0) -> None:
        """A new run, on a topic that still has everything unless told otherwise. `waiting` is how many
        records it expects.
        """
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
            tolerates_errors=self.sink.errors.tolerates_all,
            waiting=waiting,
        )

    def write(self, *records: Record) -> WrittenBatch:
        return self.writer.write(self.rows(frame(self.spark, list(records))))

    def rows(self, records: DataFrame) -> DataFrame:
        return with_coordinates(self._shape().rows(records, self.columns), self.table, topic=self.topic)

    def _shape(self) -> TableShape:
        schemas = writer_schemas(self.schemas, absent=self.absent)
        return TableShape(self.sink, TOPIC.name, AvroValues(self.columns, schemas=schemas))
