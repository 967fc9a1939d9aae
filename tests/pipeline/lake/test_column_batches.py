"""Batches in columns and the same batches in rows: the tables are equal, whatever the topic has."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import signal
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.lake.avro_columns import columns_of
from headrace.lake.columns.avro_decoding import UnsupportedShapeError, decoder_of
from headrace.lake.columns.plan import ColumnPlan, column_plan
from headrace.lake.columns.task import Stretch
from headrace.lake.delta_log import DeltaLog
from headrace.lake.evolution import NEW_TABLE
from headrace.lake.layout import TableLayout
from headrace.lake.location import Location
from headrace.lake.positions import Reached
from headrace.lake.sent_letters import SentLetters
from headrace.lake.sink import (
    Converter,
    ConverterKind,
    ErrorPolicy,
    LakeSink,
    LocalStorage,
    NullValues,
    Partitioning,
)
from headrace.lake.writer import WrittenBatch
from headrace.pipeline.spark.formats.avro_format import writer_schemas
from headrace.pipeline.spark.kafka_source import records_in
from headrace.pipeline.spark.lake import column_batches
from headrace.pipeline.spark.lake.avro_values import AvroValues, columns_of_schemas
from headrace.pipeline.spark.lake.column_batches import BatchStretches, ColumnBatches
from headrace.pipeline.spark.lake.dead_letters import LakeDeadLetters
from headrace.pipeline.spark.lake.delta_files import DeltaFiles
from headrace.pipeline.spark.lake.evolving import with_columns
from headrace.pipeline.spark.lake.rows import with_coordinates
from headrace.pipeline.spark.lake.shape import TableShape
from headrace.pipeline.spark.lake.table_run import partition_policy
from headrace.pipeline.spark.lake.table_start import start_table
from headrace.pipeline.spark.lake.writer import DeltaLakeWriter
from headrace.testing import EmbeddedBroker
from tests.lake.columns.records import framed
from tests.pipeline.lake.generated_avro import Generated, generated, record
from tests.pipeline.lake_harness import MadeTopic

PLACE = ["_TOPIC_PARTITION", "_TOPIC_OFFSET"]
NO_FOLDERS = Partitioning()


class Table:
    """A table for a topic, written in one of the two ways."""

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        topic: TopicIdentity,
        sink: LakeSink,
        schemas: Mapping[int, Any],
        *,
        letters: str,
        has_columns: bool,
    ) -> None:
        self.spark = spark
        self.settings = settings
        self.topic = topic
        known = writer_schemas({at: json.dumps(each) for at, each in schemas.items()}, absent=())
        fields = columns_of_schemas(known, table=None, rules=NEW_TABLE)
        self.shape = TableShape(sink, topic.name, AvroValues(fields, schemas=known))
        self.columns = self.shape.struct
        self.path = settings.data_dir / "lake" / ("columns" if has_columns else "rows")
        self.layout = with_columns(
            TableLayout(
                name=self.path.name,
                location=Location.local(self.path),
                value_columns=(),
                partition_columns=self.shape.partition_columns,
            ),
            self.columns,
        )
        self.plan = column_plan(
            sink,
            topic,
            bootstrap=settings.bootstrap,
            location=self.layout.location,
            columns=self.columns,
            partition_columns=self.layout.partition_columns,
            derived_columns=self.shape.derived_columns,
            schemas=known.by_id,
        )
        asked = MadeTopic(topic.topic_id, has_all=True)
        start = start_table(spark, self.layout, topic=asked, dead_letters=asked, data_dir=settings.data_dir)
        policy = partition_policy(self.layout, settings)
        self.columns_used: ColumnBatches | None = None
        if has_columns and isinstance(self.plan, ColumnPlan):
            assert isinstance(start.files, DeltaFiles)
            assert start.files.takes_any_rows
            self.columns_used = ColumnBatches(spark, self.plan, policy)
        self.writer = DeltaLakeWriter(
            start.files,
            self.layout,
            topic=topic,
            version=start.version,
            progress=start.progress,
            dead_letters=LakeDeadLetters(
                settings,
                query=self.path.name,
                topic=topic,
                dead_letter_topic=letters,
                client_id="test",
                sent=SentLetters(places=frozenset(), ends=Reached(topic_id="letters")),
                ends=lambda: Cluster(settings.bootstrap).end_offsets(letters),
            ),
            policy=policy,
            in_columns=self.columns_used,
        )
        self._reached = dict.fromkeys(range(topic.partitions), 0)

    def write(self, ends: Mapping[int, int]) -> WrittenBatch:
        """Everything before these offsets that it does not have yet."""
        limits = {number: (self._reached[number], end) for number, end in ends.items()}
        self._reached = dict(ends)
        records = records_in(self.spark, self.settings.bootstrap, self.topic, limits)
        rows = with_coordinates(self.shape.rows(records, self.columns), self.layout, topic=self.topic)
        stretches = [
            Stretch(partition=number, first=first, end=end) for number, (first, end) in limits.items()
        ]
        return self.writer.write(rows, stretches)

    def write_from(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> WrittenBatch:
        self._reached = dict(starts)
        return self.write(ends)

    def rows(self) -> list[Any]:
        return self.spark.read.format("delta").load(str(self.path)).orderBy(*PLACE).collect()

    def progress(self) -> Any:
        return self.writer.progress


class TwoWays:
    """A topic, and a table of it in each way."""

    def __init__(
        self,
        spark: SparkSession,
        broker: EmbeddedBroker,
        folder: Path,
        name: str,
        *,
        schemas: Mapping[int, Any],
        partitioning: Partitioning,
        **settings: Any,
    ) -> None:
        self.settings = dataclasses.replace(
            Settings(), data_dir=folder, engine="external", bootstrap_servers=broker.bootstrap, **settings
        )
        self.cluster = Cluster(broker.bootstrap)
        self.cluster.create_topic(name, partitions=2)
        self.cluster.create_topic(f"{name}-letters", partitions=1)
        topic = self.cluster.topic(name)
        assert topic is not None
        self.topic = topic
        sink = LakeSink(
            name="sink",
            topics=(name,),
            topics_regex="",
            storage=LocalStorage(root=folder / "lake"),
            topics_dir="",
            key=Converter(kind=ConverterKind.STRING),
            value=Converter(kind=ConverterKind.AVRO),
            partitioning=partitioning,
            flush_size=1_000,
            commit_within_ms=None,
            null_values=NullValues.IGNORE,
            errors=ErrorPolicy(tolerates_all=True),
        )
        self.columns, self.rows = (
            Table(
                spark,
                self.settings,
                topic,
                sink,
                schemas,
                letters=f"{name}-letters",
                has_columns=has_columns,
            )
            for has_columns in (True, False)
        )

    def produce(self, *values: bytes | None, partition: int = 0, headers: Any = None) -> None:
        producer = Producer({"bootstrap.servers": self.settings.bootstrap})
        for each in values:
            producer.produce(self.topic.name, each, partition=partition, headers=headers)
        assert producer.flush(30) == 0

    def write(self) -> tuple[WrittenBatch, WrittenBatch]:
        ends = self.cluster.end_offsets(self.topic.name)
        return self.columns.write(ends), self.rows.write(ends)

    def check_equal(self) -> list[Any]:
        found = self.columns.rows()
        assert found == self.rows.rows()
        assert self.columns.progress().positions == self.rows.progress().positions
        return found


@pytest.fixture
def made(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, topic_name: str) -> Iterator[Any]:
    opened: list[TwoWays] = []

    def make(schemas: Mapping[int, Any], partitioning: Partitioning = NO_FOLDERS, **settings: Any) -> TwoWays:
        opened.append(
            TwoWays(
                spark, broker, tmp_path, topic_name, schemas=schemas, partitioning=partitioning, **settings
            )
        )
        return opened[-1]

    yield make
    for each in opened:
        each.cluster.close()


def schema(**types: Any) -> dict[str, Any]:
    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    return {"type": "record", "name": "Row", "fields": fields}


EVENT = schema(KIND=["null", "string"], DAY="string", NUMBER="long")
BY_KIND = Partitioning(fields=("KIND", "DAY"), date_fields=("DAY",))


def event(number: int, kind: str | None = "a", day: str = "2026-03-14") -> bytes:
    return framed(1, EVENT, {"KIND": kind, "DAY": day, "NUMBER": number})


def readable(seed: int) -> tuple[Generated, random.Random] | None:
    chance, numbers = random.Random(seed), count()
    fields = [generated(chance, lambda: f"N{next(numbers)}") for _ in range(6)]
    supported = []
    for field in fields:
        text = json.dumps(record([field], "Row").schema)
        try:
            decoder_of(text, columns_of(text))
            supported.append(field)
        except UnsupportedShapeError:
            continue
    return (record(supported, "Row"), chance) if supported else None


SEEDS = [seed for seed in range(100) if readable(seed) is not None]


@pytest.mark.parametrize(
    "seed", [SEEDS[0], *(pytest.param(seed, marks=pytest.mark.long) for seed in SEEDS[1:40])]
)
def test_generated_records_become_the_same_rows(made: Any, seed: int) -> None:
    found = readable(seed)
    assert found is not None
    generated_row, chance = found
    both: TwoWays = made({1: generated_row.schema})
    pairs = [generated_row.pair(chance) for _ in range(60)]
    fitting = [framed(1, generated_row.schema, written) for written, fits in pairs if isinstance(fits, dict)]
    both.produce(*fitting)
    written, _ = both.write()
    assert written.in_columns
    assert len(both.check_equal()) == len(fitting)


def test_folders_headers_and_nulls_are_the_same(made: Any) -> None:
    both: TwoWays = made({1: EVENT, 2: schema(NUMBER="long", DAY="string")}, BY_KIND)
    kinds = ["a", None, "", "a/b ü", "50%", "x=y:z", "c d", "'#?{[]^*\""]
    both.produce(*(event(at, kinds[at % len(kinds)]) for at in range(40)), None)
    derived = [("headrace-source", b"q/t/1/7/0"), ("headrace-posted-at", b"1700000000123"), ("x", None)]
    both.produce(event(100, day="2026-03-15"), partition=1, headers=derived)
    both.produce(framed(2, schema(NUMBER="long", DAY="string"), {"NUMBER": 5, "DAY": "2026-03-14"}))
    first, _ = both.write()
    of_batch = [("headrace-source", b"q/checkpoint/batch/7/key")]
    both.produce(*map(event, range(3)), headers=of_batch)
    second, _ = both.write()
    assert (first.in_columns, second.in_columns) == (True, True)
    assert (first.rows, second.rows) == (42, 3)
    rows = both.check_equal()
    assert {row["KIND"] for row in rows} == {None, *kinds} - {""}
    for read in (both.columns.path, both.rows.path):
        # Readers that are not Spark find the same rows.
        table = DeltaTable(str(read))
        numbers = duckdb.from_arrow(table.to_pyarrow_table()).aggregate("sum(NUMBER), count(*)").fetchall()
        assert numbers == [(sum(row["NUMBER"] for row in rows), len(rows))]
        assert table.count() == len(rows)
    assert DeltaLog(both.columns.layout.location).damage() is None


@pytest.mark.long
def test_folders_of_fields_within_fields_are_made_in_rows(made: Any) -> None:
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "city", "type": "string"}]}
    row = schema(inner=inner, NUMBER="long")
    both: TwoWays = made({1: row}, Partitioning(fields=("inner.city",)))
    assert both.columns.plan == "inner.city, partition columns, are not fields of its records"
    both.produce(*(framed(1, row, {"inner": {"city": city}, "NUMBER": 1}) for city in "xyx"))
    both.write()
    assert [each["inner.city"] for each in both.check_equal()] == ["x", "y", "x"]


def test_the_files_have_the_same_types(made: Any, spark: SparkSession) -> None:
    """Readers that are not Spark would otherwise read the files of one way differently."""
    types = {"date": "int", "timestamp-millis": "long", "timestamp-micros": "long"}
    row = schema(
        NESTED={"type": "record", "name": "N", "fields": [{"name": "TEXT", "type": ["null", "string"]}]},
        **{kind: {"type": stored, "logicalType": kind} for kind, stored in types.items()},
    )
    row["fields"] = [{**each, "name": each["name"].replace("-", "_")} for each in row["fields"]]
    both: TwoWays = made({1: row})
    first = {"NESTED": {"TEXT": "a"}, "date": -719_162, "timestamp_millis": 0, "timestamp_micros": 0}
    # The year 1, for which readers know several calendars.
    first["timestamp_millis"] = -62_134_000_000_000
    both.produce(framed(1, row, first))
    written, _ = both.write()
    assert written.in_columns
    columns, rows = (
        next(path for path in table.path.rglob("*.parquet") if path.parent.name != "_delta_log")
        for table in (both.columns, both.rows)
    )
    assert pq.ParquetFile(columns).schema.equals(pq.ParquetFile(rows).schema)
    both.check_equal()
    for name in ("datetime", "int96"):
        spark.conf.set(f"spark.sql.parquet.{name}RebaseModeInRead", "EXCEPTION")
    try:
        found = spark.read.parquet(str(columns)).collect()
        assert str(found[0]["date"]) == "0001-01-01"
    finally:
        for name in ("datetime", "int96"):
            spark.conf.unset(f"spark.sql.parquet.{name}RebaseModeInRead")


def test_a_partition_that_came_later_ends_the_run(made: Any) -> None:
    both: TwoWays = made({1: EVENT})
    both.produce(event(1))
    assert both.columns.write({0: 1, 1: 0}).in_columns
    admin = AdminClient({"bootstrap.servers": both.settings.bootstrap})
    admin.create_partitions([NewPartitions(both.topic.name, 3)])[both.topic.name].result(30)
    # The first batch that knows of it has nothing of it.
    stretches = [Stretch(partition=2, first=0, end=0)]
    assert both.columns.columns_used is not None
    assert both.columns.columns_used.write(stretches) is None
    both.produce(event(2), partition=2)
    with pytest.raises(HeadraceError, match="has got more partitions"):
        both.columns.write_from({0: 1, 1: 0, 2: 0}, {0: 1, 1: 0, 2: 1})


def test_a_worker_that_dies_leaves_the_batch_to_rows(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that the kernel kills because memory is short: the next attempt would be the same."""

    def dies(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    both: TwoWays = made({1: EVENT}, BY_KIND)
    both.produce(event(1))
    monkeypatch.setattr(column_batches, "run_task", dies)
    written, _ = both.write()
    assert (written.rows, written.in_columns) == (1, False)
    both.check_equal()


def test_a_bad_record_is_a_dead_letter_and_the_rest_are_rows(made: Any) -> None:
    """The batch, and one more, are written in rows; after that, columns are tried again."""
    both: TwoWays = made({1: EVENT}, BY_KIND)
    both.produce(event(1), event(2)[:-1], event(3, day="no date"), event(4))
    written, in_rows = both.write()
    assert written == dataclasses.replace(in_rows, latency_quantiles_ms=written.latency_quantiles_ms)
    assert (written.rows, written.dead_letters, written.in_columns) == (2, 2, False)
    ways = []
    for at in range(2):
        both.produce(event(10 + at))
        ways.append(both.write()[0].in_columns)
    assert ways == [False, True]
    rows = both.check_equal()
    assert [row["NUMBER"] for row in rows] == [1, 4, 10, 11]
    files = {path.name for path in both.columns.path.rglob("*.parquet") if path.parent.name != "_delta_log"}
    assert files == {Path(uri).name for uri in DeltaTable(str(both.columns.path)).file_uris()}


@pytest.mark.long
def test_bad_records_that_come_again_and_again_cost_less_and_less(made: Any) -> None:
    both: TwoWays = made({1: EVENT}, BY_KIND)
    ways = []
    for at in range(8):
        both.produce(event(at), *([b"bad"] if at in (0, 2) else []))
        ways.append(both.columns.write(both.cluster.end_offsets(both.topic.name)).in_columns)
    assert ways == [False, False, False, False, False, True, True, True]


@pytest.mark.long
def test_a_flood_of_partitions_is_refused_as_in_rows(made: Any) -> None:
    both: TwoWays = made({1: EVENT}, BY_KIND, lake_new_partitions_per_hour=3)
    both.produce(*(event(at, f"made up {at}") for at in range(10)), *map(event, range(30)))
    written, in_rows = both.write()
    assert (written.rows, written.dead_letters) == (in_rows.rows, in_rows.dead_letters) == (33, 7)
    both.check_equal()
    folders = {path.name for path in both.columns.path.iterdir() if path.name.startswith("KIND=made")}
    assert {name for name in folders if any((both.columns.path / name).rglob("*.parquet"))} == {
        f"KIND=made up {at}" for at in range(3)
    }


@pytest.mark.long
def test_large_batches_are_shared_by_several_tasks(made: Any) -> None:
    both: TwoWays = made({1: EVENT}, BY_KIND)
    numbers = list(range(30_000))
    both.produce(*(event(at, "ab"[at % 2]) for at in numbers))
    written = both.columns.write(both.cluster.end_offsets(both.topic.name))
    assert (written.rows, written.in_columns) == (30_000, True)
    assert [row["NUMBER"] for row in both.columns.rows()] == numbers


def test_a_table_with_rules_of_its_own_is_written_by_delta(made: Any, spark: SparkSession) -> None:
    both: TwoWays = made({1: EVENT})
    path = str(both.columns.path)
    assert DeltaFiles(spark, both.columns.layout).takes_any_rows
    spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT small CHECK (NUMBER < 10)")
    assert not DeltaFiles(spark, both.columns.layout).takes_any_rows


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('v1\n{"batchWatermarkMs":0}\n{"t":{"0":7,"1":3}}', [(0, 2, 7), (1, 0, 3)]),
        ('v1\n{"batchWatermarkMs":0}\n{"t":{"0":7,"1":3,"2":1}}', None),
        ('v1\n{"batchWatermarkMs":0}\n{"other":{"0":7}}', None),
        ("v1\n{}\n-", None),
        ("", None),
    ],
)
def test_the_stretches_of_a_batch_are_in_the_checkpoint(
    tmp_path: Path, content: str, expected: list[tuple[int, int, int]] | None
) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text(content)
    stretches = BatchStretches(tmp_path, topic="t", starting_offsets='{"t": {"0": 2, "1": 0}}')
    found = stretches.of(0)
    assert (found and [(each.partition, each.first, each.end) for each in found]) == expected
    # The next batch begins where this one ended.
    (tmp_path / "offsets" / "1").write_text('v1\n{}\n{"t":{"0":9,"1":9}}')
    following = stretches.of(1)
    if expected is not None:
        assert following is not None
        assert [each.first for each in following] == [7, 3]


def test_a_beginning_that_only_the_log_knows_is_not_certain(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text('v1\n{}\n{"t":{"0":7}}')
    assert BatchStretches(tmp_path, topic="t", starting_offsets='{"t": {"0": -2}}').of(0) is None
