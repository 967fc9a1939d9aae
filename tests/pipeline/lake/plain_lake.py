"""A table of plain files with its real writer, without a topic: tests give the records."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from pyspark.sql import SparkSession

from headrace.client.topics import TopicIdentity
from headrace.core.settings import Settings
from headrace.lake.evolution import NEW_TABLE
from headrace.lake.layout import TableLayout
from headrace.lake.location import Location, located
from headrace.lake.plain_columns import evolve_plain
from headrace.lake.positions import Offsets
from headrace.lake.sink import (
    Converter,
    ConverterKind,
    FileFormat,
    LakeSink,
    LocalStorage,
    Partitioning,
    Storage,
    TableFormat,
)
from headrace.lake.types import Field, Simple, Struct
from headrace.lake.writer import WrittenBatch
from headrace.pipeline.spark.lake.dead_letters import LakeDeadLetters
from headrace.pipeline.spark.lake.evolving import with_columns
from headrace.pipeline.spark.lake.json_values import JsonValues
from headrace.pipeline.spark.lake.plain_files import PlainTable
from headrace.pipeline.spark.lake.plain_reading import PlainReading
from headrace.pipeline.spark.lake.rows import with_coordinates
from headrace.pipeline.spark.lake.shape import TableShape
from headrace.pipeline.spark.lake.table_run import partition_policy
from headrace.pipeline.spark.lake.table_start import start_table
from headrace.pipeline.spark.lake.values import BytesValues, ValueReader
from headrace.pipeline.spark.lake.work import TableWork
from headrace.pipeline.spark.lake.writer import DeltaLakeWriter
from tests.pipeline.lake.written_table import NoLetters
from tests.pipeline.records import Record, frame

TOPIC = TopicIdentity(name="orders", topic_id="orders-id", partitions=2)
COLUMNS = Struct(
    fields=(
        Field(name="id", type=Simple.BIGINT),
        Field(name="kind", type=Simple.STRING),
        Field(name="at", type=Simple.TIMESTAMP),
    )
)
_JSON = Converter(kind=ConverterKind.JSON)
_BYTES = Converter(kind=ConverterKind.BYTES)


@dataclasses.dataclass
class MadeTopic:
    """A topic whose partitions end at `ends`; the others have everything."""

    topic_id: str = TOPIC.topic_id
    ends: dict[int, int] = dataclasses.field(default_factory=dict)
    starts: Offsets = dataclasses.field(default_factory=lambda: {0: 0, 1: 0})

    def lacking(self, offsets: Offsets) -> AbstractSet[int]:
        return {number for number, offset in offsets.items() if offset >= self.ends.get(number, offset + 1)}


def plain_sink(
    where: Path | Storage, file_format: FileFormat, *, codec: str = "", flush_size: int = 1000
) -> LakeSink:
    """JSON records, or bytes, in folders of the topic's partitions."""
    return LakeSink(
        name="to-files",
        topics=(TOPIC.name,),
        topics_regex="",
        storage=LocalStorage(root=where) if isinstance(where, Path) else where,
        topics_dir="topics",
        key=Converter(kind=ConverterKind.STRING),
        value=_BYTES if file_format is FileFormat.BYTES else _JSON,
        partitioning=Partitioning(by_partition=True),
        flush_size=flush_size,
        commit_within_ms=None,
        file_format=file_format,
        table_format=TableFormat.FILES,
        codec=codec or ("uncompressed" if file_format is FileFormat.AVRO else "none"),
    )


class PlainLake:
    """The table of a sink whose records are JSON with `columns`, or bytes."""

    def __init__(
        self, spark: SparkSession, sink: LakeSink, folder: Path, *, columns: Struct = COLUMNS
    ) -> None:
        self.spark = spark
        self.sink = sink
        self.settings = dataclasses.replace(Settings(), data_dir=folder)
        self.location: Location = located(sink.storage) / sink.topics_dir / TOPIC.name
        self._columns = columns
        self.restart()

    def restart(self, topic: MadeTopic | None = None) -> None:
        """A new run."""
        asked = topic or MadeTopic()
        reader: ValueReader = JsonValues(self._columns, json_column="", side="value")
        if self.sink.value.kind is ConverterKind.BYTES:
            reader = BytesValues()
        shape = TableShape(self.sink, TOPIC.name, reader)
        plain = PlainTable(
            sink=self.sink, columns=shape.struct, derived=shape.derived_columns, partitions=TOPIC.partitions
        )
        columns = evolve_plain(self.location, plain.definition(shape.partition_columns), rules=NEW_TABLE)
        layout = TableLayout(
            name=TOPIC.name,
            location=self.location,
            value_columns=(),
            partition_columns=shape.partition_columns,
        )
        self.table = with_columns(layout, columns)
        start = start_table(
            self.spark,
            self.table,
            topic=asked,
            dead_letters=MadeTopic(topic_id="letters"),
            data_dir=self.settings.data_dir,
            plain=dataclasses.replace(plain, columns=columns),
        )
        self.progress = start.progress
        identity = dataclasses.replace(TOPIC, topic_id=asked.topic_id)
        work = cast(
            TableWork,
            SimpleNamespace(
                table=self.table,
                topic=identity,
                measures={},
                check=lambda _: None,
                rows=lambda records: with_coordinates(
                    shape.rows(records, columns), self.table, topic=identity
                ),
            ),
        )
        self._reading = PlainReading(work, start.progress)
        self.log = start.files.log
        self.writer = DeltaLakeWriter(
            start.files,
            self.table,
            topic=identity,
            version=start.version,
            progress=start.progress,
            dead_letters=cast(LakeDeadLetters, NoLetters()),
            policy=partition_policy(self.table, self.settings),
            measures=self._reading.measures,
            check=self._reading.check,
        )

    def write(self, records: Sequence[Record]) -> WrittenBatch:
        return self.writer.write(self._reading.rows(frame(self.spark, list(records))))
