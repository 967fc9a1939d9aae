"""Avro records to lake rows: each once, whatever is repeated, restored, wiped or damaged."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headrace.client.cluster import Cluster
from headrace.client.message_sizes import derived_topic_config
from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.lake import layout
from headrace.lake.coordinates import SourceCoordinates
from headrace.lake.delta_log import DeltaLog
from headrace.lake.positions import Reached
from headrace.lake.repairing import carry_out, plan_repair
from headrace.pipeline.spark.formats.avro_format import new_schema_id
from headrace.pipeline.spark.stateless import value_schema
from headrace.testing import EmbeddedBroker
from tests.example_plans import avro_plan, lake_sink
from tests.pipeline.lake_harness import SCHEMA_ID, Lake
from tests.pipeline.plans.harness import SECONDS
from tests.pipeline.records import Record, avro


class Events(Lake):
    def users(self) -> list[str]:
        """The USER_ID of every row, sorted."""
        rows = self.spark.read.format("delta").load(str(self.table.path)).collect()
        return sorted(row["USER_ID"] for row in rows)


@pytest.fixture
def lake(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, topic_name: str) -> Events:
    settings = dataclasses.replace(
        Settings(), data_dir=tmp_path, engine="external", bootstrap_servers=broker.bootstrap
    )
    return Events(spark, settings, lake_sink(settings), schema=_SCHEMA, dead_letter_topic=topic_name)


def _event(
    source_offset: int,
    *,
    offset: int | None = None,
    topic_id: str = "src",
    partition: int = 0,
    type_: str | None = "View",
    date: str | None = "2026-03-14",
) -> Record:
    values = dict.fromkeys(json_names(), None) | {
        "USER_ID": f"{topic_id}-{source_offset}",
        "EVENT_TYPE": type_,
        "SERVER_DATE": date,
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


_SCHEMA = value_schema(avro_plan("events"))


def json_names() -> list[str]:
    return [field["name"] for field in json.loads(_SCHEMA)["fields"]]


def test_rows_carry_values_partitions_and_coordinates(lake: Events) -> None:
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


def test_rows_out_of_order_are_all_written(lake: Events) -> None:
    """A look-up shuffles rows: offsets of a source come in any order."""
    lake.write(_event(50), _event(3), _event(20, offset=51))
    lake.write(_event(2, offset=52), _event(49, offset=53), _event(1, offset=54))
    assert lake.users() == ["src-1", "src-2", "src-20", "src-3", "src-49", "src-50"]


def test_a_run_goes_on_from_the_positions_of_the_last_commit(lake: Events) -> None:
    lake.write(_event(0, offset=7), _event(1, offset=9))
    assert lake.writer.progress.positions == Reached(topic_id="avroid", offsets={0: 10})
    lake.restart()
    assert lake.writer.progress.positions == Reached(topic_id="avroid", offsets={0: 10})
    assert lake.writer.progress.bounds == {}, "nothing is looked up"


def test_a_commit_that_was_lost_is_caught_up_with(lake: Events) -> None:
    """The newest commit is gone, for example after a power failure; Spark's checkpoint would not know."""
    lake.write(_event(0), _event(1))
    lake.write(_event(2), _event(3))
    log = DeltaLog(lake.table.path)
    Path(log.commit_file(log.newest_version())).unlink()
    lake.restart()
    assert lake.writer.progress.positions.offsets == {0: 2}
    lake.write(_event(2), _event(3))
    assert lake.users() == ["src-0", "src-1", "src-2", "src-3"]


def test_a_torn_commit_stops_the_table_until_it_is_repaired(lake: Events) -> None:
    lake.write(_event(0), _event(1))
    lake.write(_event(2), _event(3))
    log = DeltaLog(lake.table.path)
    torn = Path(log.commit_file(log.newest_version()))
    torn.write_bytes(torn.read_bytes()[:100])
    with pytest.raises(HeadraceError, match="headrace lake repair events") as error:
        lake.restart()
    assert str(torn) in str(error.value)
    plan = plan_repair("events", lake.table.path)
    assert plan is not None
    carry_out(plan, lake.table.path)
    lake.restart()
    lake.write(_event(2), _event(3))
    assert lake.users() == ["src-0", "src-1", "src-2", "src-3"]


@pytest.mark.long
def test_a_torn_commit_that_has_a_checkpoint_doubles_nothing(
    lake: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "CHECKPOINT_INTERVAL", 2)
    synced: set[str] = set()
    real = os.fsync

    def note(descriptor: int) -> None:
        synced.add(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    lake.write(_event(0), _event(1))
    lake.write(_event(2))
    log = DeltaLog(lake.table.path)
    assert {file.name for file in log.checkpoints()[2]} <= synced
    Path(log.commit_file(2)).write_bytes(b"")
    assert plan_repair("events", lake.table.path) is None, "everybody can read the table"
    lake.restart()
    assert lake.write(_event(0), _event(1), _event(2), _event(3)).repeated == 3
    assert lake.users() == [f"src-{number}" for number in range(4)]


@pytest.mark.long
def test_a_table_repaired_under_its_writer_is_read_again_from_there(lake: Events) -> None:
    lake.write(_event(0), _event(1))
    lake.write(_event(2), _event(3))
    log = DeltaLog(lake.table.path)
    Path(log.commit_file(log.newest_version())).write_bytes(b"")
    plan = plan_repair("events", lake.table.path)
    assert plan is not None
    carry_out(plan, lake.table.path)
    with pytest.raises(HeadraceError, match="is not what it was"):
        lake.write(_event(4))
    assert log.damage() is None, "nothing was added above the gap"
    lake.restart()
    assert lake.writer.progress.positions.offsets == {0: 2}
    lake.write(_event(2), _event(3), _event(4))
    assert lake.users() == [f"src-{number}" for number in range(5)]


def test_a_topic_made_again_is_another_source(lake: Events) -> None:
    lake.write(_event(0), _event(1))
    assert lake.write(_event(0, offset=2, topic_id="new")).rows == 1
    assert lake.users() == ["new-0", "src-0", "src-1"]


def test_a_restored_table_goes_on_from_the_restored_version(lake: Events) -> None:
    lake.write(_event(0), _event(1))
    version = DeltaTable(str(lake.table.path)).version()
    lake.write(_event(2))
    lake.spark.sql(f"RESTORE TABLE delta.`{lake.table.path}` TO VERSION AS OF {version}")
    with pytest.raises(HeadraceError, match="RESTORE"):
        lake.write(_event(3))
    lake.restart()
    assert lake.writer.progress.positions.offsets == {0: 2}
    lake.write(_event(2), _event(3))
    assert lake.users() == ["src-0", "src-1", "src-2", "src-3"]


@pytest.mark.long
def test_rows_of_somebody_else_are_not_written_again(lake: Events) -> None:
    lake.write(_event(0), _event(1))
    path = str(lake.table.path)
    theirs = lake.spark.read.format("delta").load(path).limit(1)
    renamed = {"_SOURCE_OFFSET": F.lit(5).cast("bigint"), "USER_ID": F.lit("theirs")}
    theirs.withColumns(renamed).write.format("delta").mode("append").save(path)
    lake.restart()
    assert lake.writer.progress.positions.offsets == {0: 2}
    assert lake.write(_event(4), _event(5), _event(6)).repeated == 1
    assert lake.users() == ["src-0", "src-1", "src-4", "src-6", "theirs"]


@pytest.mark.long
def test_rows_of_somebody_else_without_coordinates_stop_nothing(lake: Events) -> None:
    lake.write(_event(0), _event(1))
    path = str(lake.table.path)
    theirs = lake.spark.read.format("delta").load(path).limit(1)
    without = {name: F.lit(None) for name in theirs.columns if name.startswith("_")}
    half = {"_SOURCE_OFFSET": F.lit(None), "USER_ID": F.lit("theirs, too")}
    for columns in ({**without, "USER_ID": F.lit("theirs")}, half):
        theirs.withColumns(columns).write.format("delta").mode("append").save(path)
    lake.restart()
    assert lake.write(_event(1, offset=2), _event(2, offset=3)).repeated == 1
    assert lake.users() == ["src-0", "src-1", "src-2", "theirs", "theirs, too"]


@pytest.mark.long
def test_compaction_and_deletions_of_others_disturb_nothing(lake: Events) -> None:
    lake.write(_event(0))
    lake.write(_event(1))
    lake.spark.sql(f"OPTIMIZE delta.`{lake.table.path}`")
    lake.spark.sql(f"DELETE FROM delta.`{lake.table.path}` WHERE USER_ID = 'src-0'")
    lake.write(_event(2))
    lake.restart()
    assert lake.writer.progress.positions.offsets == {0: 3}
    assert lake.users() == ["src-1", "src-2"]


@pytest.mark.long
def test_another_definition_of_the_table_starts_a_new_run(lake: Events) -> None:
    lake.write(_event(0), _event(1))
    table = f"delta.`{lake.table.path}`"
    lake.spark.sql(f"DELETE FROM {table} WHERE USER_ID = 'src-0'")
    lake.spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT named CHECK (USER_ID IS NOT NULL)")
    with pytest.raises(HeadraceError, match="ADD CONSTRAINT"):
        lake.write(_event(2))
    lake.restart()
    assert lake.writer.progress.positions.offsets == {0: 2}
    lake.spark.sql(f"ALTER TABLE {table} ADD COLUMNS (THEIRS STRING)")
    lake.restart()
    lake.write(_event(2))
    assert lake.users() == ["src-1", "src-2"], "what was deleted does not come back"
    lake.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')")
    with pytest.raises(HeadraceError, match="does not write: inCommitTimestamp"):
        lake.restart()


@pytest.mark.long
def test_a_topic_recreated_with_other_partitions_doubles_nothing(lake: Events) -> None:
    lake.write(_event(0), _event(1), _event(2))
    lake.restart(TopicIdentity(name="events_avro", topic_id="another", partitions=3))
    assert lake.writer.progress.positions == Reached(topic_id="another")
    # The same records again, on other partitions now, one of them twice, and one that is new.
    again = lake.write(
        _event(1, offset=0, partition=2), _event(0, offset=0, partition=1), _event(0, offset=1, partition=1)
    )
    assert (again.rows, again.repeated) == (0, 3)
    assert lake.write(_event(2, offset=1, partition=2), _event(3, offset=2, partition=1)).rows == 1
    assert lake.users() == ["src-0", "src-1", "src-2", "src-3"]
    lake.restart(lake.topic)
    assert lake.writer.progress.positions.offsets == {1: 3, 2: 2}
    assert lake.write(_event(1, offset=2, partition=2)).rows == 0, "the bounds are kept"


def test_a_topic_that_came_back_shorter_doubles_nothing(lake: Events) -> None:
    lake.write(_event(0), _event(1), _event(2))
    lake.restart(has_all=False)
    assert lake.writer.progress.positions.offsets == {}
    # The query upstream derives what was lost again, further behind.
    assert lake.write(_event(0), _event(2, offset=9), _event(1, offset=10), _event(3, offset=11)).rows == 1
    assert lake.users() == ["src-0", "src-1", "src-2", "src-3"]


def test_a_flood_of_new_partitions_becomes_dead_letters(lake: Events) -> None:
    lake.settings = dataclasses.replace(lake.settings, lake_new_partitions_per_hour=3)
    room = derived_topic_config(lake.settings)
    Cluster(lake.bootstrap).create_topic(lake.dead_letter_topic, partitions=1, config=room)
    lake.restart()
    lake.write(_event(0))
    made_up = [_event(number, type_=f"made up {number:03}") for number in range(1, 61)]
    many = [_event(number, type_="Sold") for number in range(100, 130)]
    written = lake.write(*made_up, *many, _event(130))
    assert (written.rows, written.dead_letters) == (2 + 30 + 1, 58)
    assert len({path.name for path in lake.table.path.glob("EVENT_TYPE=*")}) == 4
    letters = _read_all(lake.bootstrap, lake.dead_letter_topic, 58)
    assert {headers["headrace-error"] for _, headers in letters} == {
        "The table has no folder for EVENT_TYPE, SERVER_DATE of this record, and more than 3 new ones in an "
        "hour are not made (lake_new_partitions_per_hour)."
    }
    assert {value for value, _ in letters} == {record.value for record in made_up[2:]}


def test_a_new_table_looks_ahead_for_large_partitions_only(lake: Events) -> None:
    lake.settings = dataclasses.replace(lake.settings, lake_new_partitions_per_hour=3)
    room = derived_topic_config(lake.settings)
    Cluster(lake.bootstrap).create_topic(lake.dead_letter_topic, partitions=1, config=room)
    lake.restart(waiting=1_000_000)
    made_up = [_event(number, type_=f"made up {number:03}") for number in range(1, 61)]
    many = [_event(number, type_="Sold") for number in range(100, 130)]
    written = lake.write(*made_up, *many)
    assert (written.rows, written.dead_letters, written.repeated) == (3 + 30, 57, 0)
    assert lake.writer.progress.positions.offsets == {0: 130}


def test_values_that_cannot_name_a_folder_become_dead_letters(lake: Events) -> None:
    room = derived_topic_config(lake.settings)
    Cluster(lake.bootstrap).create_topic(lake.dead_letter_topic, partitions=1, config=room)
    bad = [
        _event(0, date="2026-02-30"),
        _event(1, date="yesterday"),
        _event(2, date="2026-3-1"),
        _event(3, type_="x" * 300),
        _event(4, type_="/" * 90),
    ]
    fine = [_event(5, type_="/" * 70), _event(6, type_="ü=%"), _event(7, type_=None), _event(8, date=None)]
    written = lake.write(*bad, *fine)
    assert (written.rows, written.dead_letters) == (4, 5)
    letters = _read_all(lake.bootstrap, lake.dead_letter_topic, 5)
    reasons = sorted(headers["headrace-error"] for _, headers in letters)
    assert [reason.split(":")[0] for reason in reasons] == [
        *["EVENT_TYPE is too long for the name of a folder"] * 2,
        *["SERVER_DATE is not a date (yyyy-MM-dd)"] * 3,
    ]


def test_dead_letters_that_an_earlier_run_sent_are_not_sent_again(lake: Events) -> None:
    room = derived_topic_config(lake.settings)
    Cluster(lake.bootstrap).create_topic(lake.dead_letter_topic, partitions=1, config=room)
    lake.sent = frozenset({(0, 0), (0, 2)})
    lake.restart()
    written = lake.write(*(Record(value=b"bad", offset=number, key=b"k") for number in range(4)))
    assert (written.rows, written.dead_letters) == (0, 4)
    letters = _read_all(lake.bootstrap, lake.dead_letter_topic, 2)
    letters.sort(key=lambda each: each[1]["headrace-read-from"])
    assert [headers["headrace-read-from"][-2:] for _, headers in letters] == ["/1", "/3"]
    assert [headers["headrace-source"] for _, headers in letters] == [
        f"{lake.query}/avroid/0/{offset}/0" for offset in (1, 3)
    ]
    lake.restart()
    assert lake.writer.progress.positions.offsets == {0: 4}, "a commit without rows"
    assert lake.writer.progress.dead_letters_from.offsets == {0: 2}


def test_a_record_with_a_dead_letter_never_becomes_a_row(lake: Events) -> None:
    """The run that sent it crashed before its commit; this one has made fewer folders in the last hour."""
    room = derived_topic_config(lake.settings)
    Cluster(lake.bootstrap).create_topic(lake.dead_letter_topic, partitions=1, config=room)
    lake.sent = frozenset({(0, 1), (0, 3)})
    lake.restart()
    written = lake.write(_event(0), _event(1, type_="new"), _event(2, type_="new"))
    assert (written.rows, written.dead_letters) == (2, 1)
    assert lake.writer.progress.dead_letters_from == Reached(), "the next run must find the one about 3, too"
    lake.write(_event(3), _event(4))
    assert lake.users() == ["src-0", "src-2", "src-4"]
    assert Cluster(lake.bootstrap).end_offsets(lake.dead_letter_topic) == {0: 0}, "nothing is sent again"


@pytest.mark.long
def test_records_of_other_writers_count_with_their_own_coordinates(lake: Events) -> None:
    value = _event(0).value
    plain = [Record(value=value, offset=offset) for offset in (5, 6)]
    assert lake.write(*plain).rows == 2
    lake.restart(has_all=False)
    assert lake.write(*plain).rows == 0
    odd = [b"not/ours", b"q/t/99999999999/1/0", b"q/t/batch/17/0", b"q/t/1/99999999999999999999/0"]
    records = [
        Record(
            value=value, offset=7 + number, headers={"headrace-source": each, "headrace-posted-at": b"soon"}
        )
        for number, each in enumerate(odd)
    ]
    assert lake.write(*records).rows == len(odd)


def test_of_headers_with_the_same_name_the_last_one_counts(lake: Events) -> None:
    """A record that a query has derived may have had these headers before."""
    event = _event(0)
    former = (("headrace-source", b"other/t/3/99/0"), ("trace", b"a"), ("trace", b"b"))
    assert lake.write(dataclasses.replace(event, first_headers=former)).rows == 1
    (row,) = lake.spark.read.format("delta").load(lake.table.location.uri).collect()
    query, _, partition, offset, _ = event.headers["headrace-source"].decode().split("/")
    assert (row["_QUERY"], row["_SOURCE_PARTITION"], row["_SOURCE_OFFSET"]) == (
        query,
        int(partition),
        int(offset),
    )


def test_an_unknown_schema_is_learned_and_evolved_fields_are_read(lake: Events) -> None:
    fields = [{"name": name, "type": ["null", "string"]} for name in ("EVENT_TYPE", "USER_ID", "GONE_SINCE")]
    older = json.dumps({"type": "record", "name": "Older", "fields": fields})
    value = avro(older, {"EVENT_TYPE": "View", "USER_ID": "old", "GONE_SINCE": "x"}, schema_id=3)
    with pytest.raises(PySparkException) as ended:
        lake.write(Record(value=value, offset=0))
    assert new_schema_id(str(ended.value)) == 3, "the query ends, and its next start asks for that schema"
    lake.schemas[3] = older
    assert lake.write(Record(value=value, offset=0)).rows == 1
    assert lake.users() == ["old"]


def test_what_cannot_be_read_goes_to_the_dead_letters_and_harms_no_other(lake: Events) -> None:
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
    messages = consumer.consume(count, timeout=SECONDS)
    consumer.close()
    assert len(messages) == count
    return [(m.value(), {name: value.decode() for name, value in m.headers()}) for m in messages]
