"""Avro records to lake rows: each once, whatever is repeated, restored, wiped or damaged."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.client.cluster import Cluster
from headrace.client.message_sizes import derived_topic_config
from headrace.client.topics import TopicIdentity
from headrace.core.settings import Settings
from headrace.lake.coordinates import SourceCoordinates
from headrace.lake.writer import WrittenBatch
from headrace.pipeline import marketplace
from headrace.pipeline.spark.formats.avro_format import new_schema_id, writer_schemas
from headrace.pipeline.spark.lake_rows import lake_rows
from headrace.pipeline.spark.lake_writer import DeltaLakeWriter
from headrace.pipeline.spark.stateless import GivenRecords, value_schema
from headrace.pipeline.spark.steps.building import built
from headrace.testing import EmbeddedBroker
from tests.pipeline.records import Record, avro, frame

TOPIC = TopicIdentity(name="events_avro", topic_id="avroid", partitions=1)
SCHEMA_ID = 7


class Lake:
    """A table, its writer, and the records of its topic."""

    query = "events-to-lake"

    def __init__(self, spark: SparkSession, settings: Settings, dead_letter_topic: str) -> None:
        self.spark = spark
        self.settings = settings
        self.bootstrap = settings.bootstrap
        plan = marketplace.lake_plan(settings)
        assert plan.lake_table is not None
        self.plan, self.table = plan, plan.lake_table
        self.dead_letter_topic = dead_letter_topic
        self.schemas = {SCHEMA_ID: _SCHEMA}
        self.absent: set[int] = set()
        self.restart()

    def restart(self, topic: TopicIdentity = TOPIC) -> None:
        self.topic = topic
        self.writer = DeltaLakeWriter(
            self.spark,
            self.table,
            query=self.query,
            topic=topic,
            dead_letter_topic=self.dead_letter_topic,
            settings=self.settings,
        )

    def write(self, *records: Record) -> WrittenBatch:
        schemas = writer_schemas(self.schemas, absent=self.absent)
        inputs = GivenRecords(frame(self.spark, list(records)), self.query, self.topic, schemas)
        return self.writer.write(lake_rows(built(self.plan.root, inputs), self.table, topic=self.topic))

    def users(self) -> list[str]:
        """The USER_ID of every row, sorted."""
        rows = self.spark.read.format("delta").load(str(self.table.path)).collect()
        return sorted(row["USER_ID"] for row in rows)


@pytest.fixture
def lake(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, topic_name: str) -> Lake:
    settings = dataclasses.replace(
        Settings(), data_dir=tmp_path, engine="external", bootstrap_servers=broker.bootstrap
    )
    return Lake(spark, settings, topic_name)


def _event(
    source_offset: int,
    *,
    offset: int | None = None,
    topic_id: str = "src",
    partition: int = 0,
    user: str = "",
) -> Record:
    values = dict.fromkeys(json_names(), None) | {
        "USER_ID": user or f"{topic_id}-{source_offset}",
        "EVENT_TYPE": "View",
        "SERVER_DATE": "2026-03-14",
    }
    source = SourceCoordinates(
        query="q", topic_id=topic_id, partition=0, offset=source_offset, ordinal=0
    ).as_header()
    return Record(
        value=avro(_SCHEMA, values, schema_id=SCHEMA_ID),
        offset=source_offset if offset is None else offset,
        partition=partition,
        headers={"headrace-source": source, "headrace-posted-at": b"1773489600000"},
    )


_SCHEMA = value_schema(marketplace.avro_plan("events"))


def json_names() -> list[str]:
    return [field["name"] for field in json.loads(_SCHEMA)["fields"]]


def test_rows_carry_values_partitions_and_coordinates(lake: Lake) -> None:
    written = lake.write(_event(3, offset=90), _event(4, offset=91))
    assert (written.rows, written.repeated, written.dead_letters) == (2, 0, 0)
    assert len(written.latency_quantiles_ms) == 101
    first = lake.spark.read.format("delta").load(str(lake.table.path)).orderBy("_TOPIC_OFFSET").first()
    assert first is not None
    assert (first["USER_ID"], first["EVENT_TYPE"], first["DEVICE_TYPE"]) == ("src-3", "View", None)
    assert (first["_QUERY"], first["_SOURCE_TOPIC_ID"], first["_SOURCE_PARTITION"]) == ("q", "src", 0)
    assert (first["_SOURCE_OFFSET"], first["_SOURCE_ORDINAL"]) == (3, 0)
    assert (first["_TOPIC_PARTITION"], first["_TOPIC_OFFSET"]) == (0, 90)
    assert first["_POSTED_AT"].timestamp() == 1773489600.0
    files = DeltaTable(str(lake.table.path)).file_uris()
    assert all("EVENT_TYPE=View/SERVER_DATE=2026-03-14/" in file for file in files)


def test_what_is_repeated_is_dropped_in_the_batch_and_after_it(lake: Lake) -> None:
    lake.write(_event(0), _event(1), _event(1, offset=2))
    again = lake.write(_event(0, offset=3), _event(1, offset=4), _event(2, offset=5))
    assert (again.rows, again.repeated) == (1, 2)
    assert lake.users() == ["src-0", "src-1", "src-2"]


def test_a_restart_knows_the_marks_of_the_last_commit(lake: Lake) -> None:
    lake.write(_event(0), _event(1))
    before = lake.writer.marks
    lake.restart()
    assert lake.writer.marks == before
    assert lake.write(_event(0), _event(1)).rows == 0
    assert lake.users() == ["src-0", "src-1"]


def test_a_topic_made_again_is_another_source(lake: Lake) -> None:
    lake.write(_event(0), _event(1))
    assert lake.write(_event(0, offset=2, topic_id="new")).rows == 1
    assert lake.users() == ["new-0", "src-0", "src-1"]


def test_after_a_restore_the_rows_are_the_truth(lake: Lake) -> None:
    lake.write(_event(0), _event(1))
    version = DeltaTable(str(lake.table.path)).version()
    lake.write(_event(2))
    lake.spark.sql(f"RESTORE TABLE delta.`{lake.table.path}` TO VERSION AS OF {version}")
    lake.restart()
    assert lake.write(_event(0), _event(1), _event(2)).rows == 1
    assert lake.users() == ["src-0", "src-1", "src-2"]


def test_compaction_keeps_the_cached_marks(lake: Lake) -> None:
    lake.write(_event(0))
    lake.write(_event(1))
    lake.spark.sql(f"OPTIMIZE delta.`{lake.table.path}`")
    before = lake.writer.marks
    lake.restart()
    assert lake.writer.marks == before
    assert lake.write(_event(0), _event(1), _event(2)).rows == 1


def test_a_topic_with_more_partitions_does_not_double_what_moved(lake: Lake) -> None:
    lake.write(_event(0), _event(1), _event(2))
    lake.restart(TopicIdentity(name="events_avro", topic_id="another", partitions=3))
    # The same records again, on other partitions now, and one that is new.
    assert lake.write(_event(1, offset=0, partition=2), _event(0, offset=0, partition=1)).rows == 0
    assert lake.write(_event(2, offset=1, partition=2), _event(3, offset=1, partition=1)).rows == 1
    assert lake.users() == ["src-0", "src-1", "src-2", "src-3"]


def test_records_of_other_writers_count_with_their_own_coordinates(lake: Lake) -> None:
    value = _event(0).value
    plain = [Record(value=value, offset=offset) for offset in (5, 6)]
    assert lake.write(*plain).rows == 2
    assert lake.write(*plain).rows == 0
    odd = Record(
        value=value, offset=7, headers={"headrace-source": b"not/ours", "headrace-posted-at": b"soon"}
    )
    assert lake.write(odd).rows == 1


def test_an_unknown_schema_is_learned_and_evolved_fields_are_read(lake: Lake) -> None:
    fields = [{"name": name, "type": ["null", "string"]} for name in ("EVENT_TYPE", "USER_ID", "GONE_SINCE")]
    older = json.dumps({"type": "record", "name": "Older", "fields": fields})
    value = avro(older, {"EVENT_TYPE": "View", "USER_ID": "old", "GONE_SINCE": "x"}, schema_id=3)
    with pytest.raises(PySparkException) as ended:
        lake.write(Record(value=value, offset=0))
    assert new_schema_id(str(ended.value)) == 3, "the query ends, and its next start asks for that schema"
    lake.schemas[3] = older
    assert lake.write(Record(value=value, offset=0)).rows == 1
    assert lake.users() == ["old"]


def test_what_cannot_be_read_goes_to_the_dead_letters_and_harms_no_other(lake: Lake) -> None:
    lake.absent.add(99)
    room = derived_topic_config(lake.settings)
    Cluster(lake.bootstrap).create_topic(lake.dead_letter_topic, partitions=1, config=room)
    huge_string = b"\x00\x00\x00\x00\x07\x02\xfe\xff\xff\xff\x0f"
    bad = [
        (None, "null"),
        (b"", "wire format"),
        (b"\x00\x00", "wire format"),
        (b'{"json": 1}', "wire format"),
        (b"\x00\x00\x00\x00\x63abc", "no schema with id 99"),
        (b"\x00\x00\x00\x00\x07\xff\xff", "cannot be read"),
        (huge_string, "cannot be read"),
        (b"x" * 1_500_000, "wire format"),
    ]
    records = [
        Record(value=value, offset=number, key=b"k", headers={"trace": b"t"})
        for number, (value, _) in enumerate(bad)
    ]
    written = lake.write(*records, _event(50, offset=50))
    assert (written.rows, written.dead_letters) == (1, len(bad))
    letters = _read_all(lake.bootstrap, lake.dead_letter_topic, len(bad))
    for number, (value, expected) in enumerate(bad):
        (headers,) = [headers for letter, headers in letters if letter == value]
        assert expected in headers["headrace-error"]
        assert headers["headrace-query"] == lake.query
        assert headers["headrace-read-from"] == f"{lake.topic.name}/{lake.topic.topic_id}/0/{number}"
        assert (headers["headrace-attempts"], headers["headrace-original-trace"]) == ("1", "t")


def _read_all(bootstrap: str, topic: str, count: int) -> list[tuple[bytes | None, dict[str, str]]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(count, timeout=30)
    consumer.close()
    assert len(messages) == count
    return [(m.value(), {name: value.decode() for name, value in m.headers()}) for m in messages]
