"""Tasks that write stretches of a real topic as data files: whatever the topic has, each row once."""

from __future__ import annotations

import dataclasses
import errno
import json
import pickle
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.cluster import Cluster
from headrace.lake import layout
from headrace.lake.avro_columns import columns_of
from headrace.lake.columns import task as tasks
from headrace.lake.columns.folders import FolderColumn
from headrace.lake.columns.plan import ColumnPlan
from headrace.lake.columns.task import Stretch, TaskResult, run_task, split
from headrace.lake.location import Location
from headrace.lake.storage.local import LocalFiles
from headrace.lake.types import Simple
from headrace.testing import EmbeddedBroker
from headrace.wire.errors import UnsupportedMagicError
from headrace.wire.record_columns import RecordColumns
from tests.lake.columns.records import framed

SCHEMA = {
    "type": "record",
    "name": "Row",
    "fields": [{"name": "KIND", "type": ["null", "string"]}, {"name": "NUMBER", "type": "long"}],
}
NEWER = {**SCHEMA, "fields": [{"name": "NUMBER", "type": "long"}, {"name": "NOTE", "type": "string"}]}
COLUMNS = columns_of(json.dumps({**SCHEMA, "fields": [*SCHEMA["fields"], NEWER["fields"][1]]}))


def value(number: int, kind: str | None = "a") -> bytes:
    return framed(1, SCHEMA, {"KIND": kind, "NUMBER": number})


class Topic:
    """A topic of two partitions, and the plan of a table for it."""

    def __init__(self, broker: EmbeddedBroker, name: str, folder: Path) -> None:
        self.bootstrap = broker.bootstrap
        self.cluster = Cluster(broker.bootstrap)
        self.cluster.create_topic(name, partitions=2)
        topic = self.cluster.topic(name)
        assert topic is not None
        self.folder = folder
        self.plan = ColumnPlan(
            bootstrap=broker.bootstrap,
            topic=topic,
            location=Location.local(folder),
            columns=COLUMNS,
            folders=(FolderColumn(name="KIND", type=Simple.STRING),),
            schemas={1: json.dumps(SCHEMA), 2: json.dumps(NEWER)},
            drops_nulls=True,
            codec="snappy",
            rows_per_file=1_000,
        )

    def produce(self, *values: bytes | None, partition: int = 0, **options: Any) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, **options})
        if "transactional.id" in options:
            producer.init_transactions()
            producer.begin_transaction()
        for each in values:
            producer.produce(self.plan.topic.name, each, partition=partition)
        assert producer.flush(30) == 0
        if "transactional.id" in options:
            if options.get("client.id") == "aborts":
                producer.abort_transaction()
            else:
                producer.commit_transaction()

    def stretches(self) -> list[Stretch]:
        ends = self.cluster.end_offsets(self.plan.topic.name)
        return [Stretch(partition=number, first=0, end=end) for number, end in sorted(ends.items())]

    def run(self, *stretches: Stretch, plan: ColumnPlan | None = None) -> TaskResult:
        return run_task(plan or self.plan, 0, stretches or self.stretches())

    def rows(self, result: TaskResult) -> list[dict[str, Any]]:
        """As a reader of the table has them."""
        found = []
        for file in result.files:
            add = json.loads(file.add)["add"]
            rows = pq.read_table(self.folder / unquote(add["path"]), partitioning=None).to_pylist()
            stats = json.loads(add["stats"])
            assert stats["numRecords"] == len(rows) == file.rows
            for name in ("_TOPIC_PARTITION", "_TOPIC_OFFSET", "_SOURCE_PARTITION", "_SOURCE_OFFSET"):
                limits = [row[name] for row in rows]
                assert (stats["minValues"][name], stats["maxValues"][name]) == (min(limits), max(limits))
            found += [{**row, **add["partitionValues"]} for row in rows]
        return found

    def numbers(self, result: TaskResult) -> list[int]:
        return sorted(row["NUMBER"] for row in self.rows(result))

    def files(self) -> list[Path]:
        return [path for path in self.folder.rglob("*") if path.is_file()]


@pytest.fixture
def topic(broker: EmbeddedBroker, topic_name: str, tmp_path: Path) -> Iterator[Topic]:
    made = Topic(broker, topic_name, tmp_path / "table")
    yield made
    made.cluster.close()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_record_becomes_a_row(topic: Topic, codec: str) -> None:
    for partition in (0, 1):
        values = [value(10 * at + partition, "ab"[at % 2]) for at in range(500)]
        topic.produce(*values, partition=partition, **{"compression.type": codec})
    result = topic.run()
    assert (result.records, result.dropped, result.highest) == (1_000, 0, {0: 499, 1: 499})
    assert topic.numbers(result) == sorted(10 * at + partition for at in range(500) for partition in (0, 1))
    assert {file.partition for file in result.files} == {("a",), ("b",)}
    assert len(result.latencies_ms) == 1_000
    row = next(row for row in topic.rows(result) if row["NUMBER"] == 4991)
    assert (row["KIND"], row["NOTE"], row["_TOPIC_PARTITION"], row["_TOPIC_OFFSET"]) == ("b", None, 1, 499)
    assert (row["_QUERY"], row["_SOURCE_TOPIC_ID"]) == ("", topic.plan.topic.topic_id)


def test_only_the_records_of_the_stretch(topic: Topic) -> None:
    topic.produce(*map(value, range(100)))
    assert topic.numbers(topic.run(Stretch(partition=0, first=37, end=41))) == [37, 38, 39, 40]
    assert topic.run(Stretch(partition=0, first=7, end=7)) == TaskResult()


def test_aborted_transactions_have_no_rows(topic: Topic) -> None:
    topic.produce(value(1), value(2), **{"transactional.id": "c"})
    topic.produce(value(3), value(4), **{"transactional.id": "a", "client.id": "aborts"})
    topic.produce(value(5))
    result = topic.run()
    assert topic.numbers(result) == [1, 2, 5]
    # Two records and a marker for each transaction.
    assert (result.records, result.highest) == (3, {0: 6})


def test_records_of_several_schemas_keep_their_order(topic: Topic) -> None:
    newer = [framed(2, NEWER, {"NUMBER": at, "NOTE": f"n{at}"}) for at in range(10)]
    topic.produce(*(newer[at] if at % 3 else value(at) for at in range(10)))
    rows = sorted(topic.rows(topic.run()), key=lambda row: row["_TOPIC_OFFSET"])
    assert [row["NUMBER"] for row in rows] == list(range(10))
    assert [row["NOTE"] for row in rows] == [f"n{at}" if at % 3 else None for at in range(10)]
    assert [row["KIND"] for row in rows] == [None if at % 3 else "a" for at in range(10)]


def test_records_without_a_value_are_dropped_if_the_sink_says_so(topic: Topic) -> None:
    topic.produce(value(1), None, value(2))
    result = topic.run()
    assert (result.records, result.dropped, topic.numbers(result)) == (3, 1, [1, 2])
    strict = topic.run(plan=dataclasses.replace(topic.plan, drops_nulls=False))
    assert strict == TaskResult(unusual="a record has no value")
    topic.produce(None, None, partition=1)
    (nothing,) = [topic.run(Stretch(partition=1, first=0, end=2))]
    assert (nothing.records, nothing.dropped, nothing.files, nothing.highest) == (2, 2, (), {1: 1})


def test_files_have_no_more_rows_than_the_sink_says(topic: Topic) -> None:
    topic.produce(*map(value, range(2_500)))
    result = topic.run()
    assert [file.rows for file in result.files] == [1_000, 1_000, 500]
    assert topic.numbers(result) == list(range(2_500))


def test_rows_are_written_before_too_many_wait(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_WAITING_BYTES", 1)
    monkeypatch.setattr(tasks, "_DECODED_BYTES", 1)
    for at in range(5):
        topic.produce(value(at))
    result = topic.run()
    assert len(result.files) == 5
    assert topic.numbers(result) == list(range(5))


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b"", "a value is not in Confluent's wire format"),
        (b"{}", "a value is not in Confluent's wire format"),
        (b'{"a":1}', "a value is not in Confluent's wire format"),
        (b"\x00\x00\x00\x00\x09\x00", "a record has the schema 9, which is new"),
        (value(1)[:-1], "a record cannot be read with its schema 1"),
        (value(1) + b"\x00", "a record cannot be read with its schema 1"),
        (value(1, "x" * 300), "KIND is too long for the name of a folder"),
    ],
)
def test_a_batch_with_an_unusual_record_leaves_no_file(
    topic: Topic, monkeypatch: pytest.MonkeyPatch, bad: bytes, why: str
) -> None:
    # So that there are files before the record is found.
    monkeypatch.setattr(tasks, "_WAITING_BYTES", 1)
    monkeypatch.setattr(tasks, "_DECODED_BYTES", 1)
    topic.produce(value(1))
    topic.produce(bad)
    assert topic.run() == TaskResult(unusual=why)
    assert not topic.folder.exists() or list(topic.folder.iterdir()) == [], "not even empty folders stay"


def test_records_that_cannot_be_had_are_a_failure(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "PATIENCE_SECONDS", 0.1)
    topic.produce(value(1))
    late = topic.run(Stretch(partition=0, first=0, end=2))
    assert late.failure is not None
    assert late.failure[0] == "log_unavailable"
    assert "nothing came behind offset 1" in late.failure[1]
    assert topic.files() == []


def test_a_recreated_topic_is_a_failure(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "PATIENCE_SECONDS", 0.1)
    name = topic.plan.topic.name
    topic.produce(value(1))
    topic.cluster.delete_topic(name)
    topic.cluster.create_topic(name, partitions=2)
    topic.produce(value(2))
    result = topic.run(Stretch(partition=0, first=0, end=1))
    assert result.failure is not None
    assert result.files == ()


def test_expired_records_are_no_fault_of_the_log(topic: Topic) -> None:
    topic.produce(value(1))
    beyond = topic.run(Stretch(partition=0, first=7, end=9))
    assert beyond.failure is not None
    code, message, _ = beyond.failure
    assert code == "pipeline_failed"
    assert f"partition 0 of topic `{topic.plan.topic.name}` has no offset 7 any more" in message


def test_a_connection_that_broke_between_two_tasks_is_made_anew(topic: Topic) -> None:
    topic.produce(value(1))
    assert topic.run().records == 1
    (reader,) = [tasks._reader(topic.bootstrap)]
    for connection in reader._connections.values():
        connection._socket.shutdown(socket.SHUT_RDWR)
    assert topic.numbers(topic.run()) == [1]


def test_wide_rows_are_made_in_pieces(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """A null takes a byte of a record, and much more in a column."""
    sizes = []
    rows_of = tasks.rows_of

    def observed(records: RecordColumns, **others: Any) -> pa.Table:
        sizes.append(len(records))
        return rows_of(records, **others)

    monkeypatch.setattr(tasks, "rows_of", observed)
    # Three columns of values and the coordinates.
    monkeypatch.setattr(tasks, "_DECODED_VALUES", 10 * (3 + len(layout.COORDINATE_COLUMNS)))
    topic.produce(*map(value, range(25)))
    assert topic.numbers(topic.run()) == list(range(25))
    assert max(sizes) == 10
    assert sum(sizes) == 25


def test_waiting_rows_are_counted_as_they_are_in_memory(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "_DECODED_BYTES", 1)
    # More than the bytes of the values, less than those of the columns.
    monkeypatch.setattr(tasks, "_WAITING_BYTES", 50)
    for at in range(3):
        topic.produce(value(at))
    assert len(topic.run().files) == 3


@pytest.mark.parametrize("error", [MemoryError(), pa.ArrowInvalid("no"), UnsupportedMagicError("magic 1")])
def test_what_columns_cannot_do_is_left_to_rows(
    topic: Topic, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    topic.produce(value(1))
    monkeypatch.setattr(tasks, "record_columns", fail)
    assert topic.run().unusual


def test_a_file_that_was_written_in_part_is_removed(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a disk that is full."""
    topic.produce(value(1))

    def write(_: LocalFiles, name: str, content: memoryview) -> None:
        path = topic.folder / name
        path.parent.mkdir(parents=True)
        path.write_bytes(content[:10])
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(LocalFiles, "write", write)
    result = topic.run()
    assert result.storage_failure is not None
    assert result.storage_failure[0] == errno.ENOSPC
    assert topic.files() == []


def test_a_clean_up_that_fails_does_not_hide_why(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_WAITING_BYTES", 1)
    monkeypatch.setattr(tasks, "_DECODED_BYTES", 1)
    topic.produce(value(1))
    topic.produce(b"bad")

    def fail(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(LocalFiles, "delete", fail)
    assert topic.run().unusual == "a value is not in Confluent's wire format"


def test_a_write_that_fails_names_the_file(tmp_path: Path) -> None:
    """Python names it only if it cannot be opened."""
    code = f"""
import resource, signal
from pathlib import Path
from headrace.lake.storage.local import LocalFiles
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    LocalFiles(Path({str(tmp_path)!r})).write("a/b.parquet", memoryview(bytes(1000)))
except OSError as error:
    print(error.filename)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == str(tmp_path / "a" / "b.parquet")


def test_a_storage_that_fails_is_told_with_its_file(topic: Topic) -> None:
    topic.produce(value(1))
    topic.folder.parent.mkdir(exist_ok=True)
    topic.folder.write_text("not a folder")
    result = topic.run()
    assert result.storage_failure is not None
    number, text, file = result.storage_failure
    assert (number, text) == (20, "Not a directory")
    assert str(topic.folder) in file


def test_plans_and_results_go_from_process_to_process(topic: Topic) -> None:
    topic.produce(value(1))
    result = run_task(pickle.loads(pickle.dumps(topic.plan)), 0, topic.stretches())
    assert pickle.loads(pickle.dumps(result)) == result
    assert result.records == 1


def test_files_say_nothing_of_dictionaries(topic: Topic) -> None:
    """Otherwise pyarrow would read some columns as another type than the table's."""
    topic.produce(value(1))
    (file,) = topic.run().files
    schema = pq.read_schema(topic.folder / file.name)
    assert schema.field(layout.QUERY).type == pa.string()
    assert schema.field(layout.POSTED_AT).type == pa.timestamp("us", "UTC")
    assert "KIND" not in schema.names


stretch = st.builds(
    lambda number, first, size: Stretch(partition=number, first=first, end=first + size),
    st.integers(0, 3),
    st.integers(0, 50),
    st.integers(0, 100),
)


@given(st.lists(stretch, max_size=4, unique_by=lambda each: each.partition), st.integers(1, 5))
def test_shares_are_equal_and_have_every_offset_once(stretches: list[Stretch], count: int) -> None:
    def offsets(found: list[Stretch]) -> list[tuple[int, int]]:
        return [(each.partition, at) for each in found for at in range(each.first, each.end)]

    parts = split(stretches, count)
    assert sorted(offsets([each for part in parts for each in part])) == sorted(offsets(stretches))
    assert len(parts) <= count
    sizes = [len(offsets(part)) for part in parts]
    assert all(sizes)
    assert not sizes or max(sizes) == -(-len(offsets(stretches)) // count)
