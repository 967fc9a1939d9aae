"""Views of tails: what is a row and what is not, waiting, limits, and that nothing missing goes unsaid."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from headrace.client.cluster import Cluster
from headrace.lake.columns.folders import FolderColumn
from headrace.lake.read_columns import ReadColumns
from headrace.lake.sink import (
    Converter,
    ConverterKind,
    ErrorPolicy,
    NullValues,
    Partitioning,
    Predicate,
    TimePartitions,
    Transformation,
)
from headrace.lake.types import Field, Simple, Struct
from headrace.query.snapshots import TableSnapshot
from headrace.query.sources import TailView
from headrace.query.tail.chunk_files import Worthwhile
from headrace.query.tail.decoding import BatchDecoder
from headrace.query.tail.tails import Tails
from headrace.testing import EmbeddedBroker
from tests.lake.columns.records import framed
from tests.query.records import delete_topic, wait_until
from tests.query.tail.written_table import (
    COLUMNS,
    COORDINATES,
    FIRST,
    SECOND,
    FeedsOfTests,
    WrittenTable,
    numbers_in,
    rows_in,
    twice,
)

WAIT = 60.0

MakeTable = Callable[..., WrittenTable]


def seen(tails: Tails, table: WrittenTable, version: int | None = None) -> TailView:
    return tails.view(table.snapshot(version), wait_seconds=WAIT)


def value(number: int, kind: str | None = "a") -> bytes:
    return framed(1, FIRST, {"KIND": kind, "NUMBER": number})


def test_records_behind_the_positions_are_rows_of_the_table(table: WrittenTable, tails: Tails) -> None:
    table.produce(10)
    table.produce(5, partition=1, kind=None)
    table.write({0: 4, 1: 2})
    view = seen(tails, table)
    assert (view.starts, view.reached, view.behind, view.reason) == ({0: 4, 1: 2}, {0: 10, 1: 5}, 0, "")
    expected = [each for each in table.records if each.offset >= view.starts[each.partition]]
    assert rows_in(view) == table.rows_of(expected)


def test_a_view_says_what_it_did_not_wait_for(table: WrittenTable, tails: Tails) -> None:
    numbers = table.produce(10)
    first = tails.view(table.snapshot(), wait_seconds=0)
    assert (first.chunks, first.behind) == ((), 10)
    assert first.reason == f"topic {table.name} is still being read"
    assert numbers_in(seen(tails, table)) == numbers


def test_a_table_that_no_connector_writes_has_an_empty_tail(
    table: WrittenTable, tails: Tails, feeds: FeedsOfTests
) -> None:
    feeds.feeds.clear()
    assert seen(tails, table) == TailView(chunks=(), starts={}, reached={})


def test_another_table_in_its_place_has_no_tail(table: WrittenTable, tails: Tails) -> None:
    table.produce(3)
    other: TableSnapshot = dataclasses.replace(table.snapshot(), table_id="other")
    view = tails.view(other, wait_seconds=WAIT)
    assert (view.chunks, view.reason) == ((), "the table cannot be read: another table is in its place")


def test_a_deleted_topic_has_no_tail(table: WrittenTable, tails: Tails) -> None:
    table.produce(3)
    assert seen(tails, table).chunks
    delete_topic(table.bootstrap, table.name)
    view = seen(tails, table)
    assert (view.chunks, view.reason) == ((), f"topic {table.name} does not exist")


DEAD_LETTERS = [
    b"",
    b"{}",
    b"\x00\x00\x00\x00\x63\x02",
    value(1)[:-1],
    value(1, "x" * 300),
]


@pytest.mark.parametrize("bad", DEAD_LETTERS)
def test_dead_letters_are_no_rows_and_not_missing(table: WrittenTable, tails: Tails, bad: bytes) -> None:
    numbers = table.produce(2)
    table.send([bad])
    numbers += table.produce(2)
    view = seen(tails, table)
    assert (numbers_in(view), view.behind, view.reason) == (numbers, 0, "")


def test_a_folder_that_is_no_date_is_a_dead_letter(make_table: MakeTable, tails: Tails) -> None:
    by_date = Partitioning(fields=("KIND",), date_fields=("KIND",))
    table = make_table(partitioning=by_date)
    table.send([value(1, "2026-02-28"), value(2, "2026-02-30"), value(3, ""), value(4, None)])
    view = seen(tails, table)
    assert ([row["NUMBER"] for row in rows_in(view)], view.behind) == ([1, 4], 0)


def test_a_connector_that_stops_at_a_bad_record_stops_the_tail_of_its_partition(
    make_table: MakeTable, tails: Tails
) -> None:
    table = make_table(errors=ErrorPolicy(tolerates_all=False))
    numbers = table.produce(2)
    table.send([b"bad"])
    later = table.produce(3)
    other = table.produce(4, partition=1)
    view = seen(tails, table)
    assert (numbers_in(view), view.behind, view.reached) == (numbers + other, 4, {0: 2, 1: 4})
    assert view.reason.startswith("the connector stops at offset 2 of partition 0: The value is not in")
    # Somebody has skipped it.
    table.write({0: 3, 1: 4})
    assert numbers_in(seen(tails, table)) == later


def test_what_only_the_lake_can_tell_counts_as_missing_until_it_has_told(
    table: WrittenTable, tails: Tails
) -> None:
    numbers = table.produce(2)
    table.send([value(1) + b"\x00"])
    numbers += table.produce(2)
    view = seen(tails, table)
    assert (numbers_in(view), view.behind) == (numbers, 1)
    assert view.reason == (
        "1 records are left to the lake: a value has bytes behind what its schema describes"
    )
    table.write({0: 3})
    told = seen(tails, table)
    assert (numbers_in(told), told.behind, told.reason) == (numbers[2:], 0, "")


@pytest.mark.parametrize(
    ("policy", "rows", "behind"),
    [(NullValues.IGNORE, [1, 2], 0), (NullValues.FAIL, [1, 2], 0), (NullValues.WRITE, [1, None, 2], 0)],
)
def test_records_without_a_value(
    make_table: MakeTable, tails: Tails, policy: NullValues, rows: list[int | None], behind: int
) -> None:
    table = make_table(null_values=policy)
    table.send([value(1), None, value(2)])
    view = seen(tails, table)
    assert ([row["NUMBER"] for row in rows_in(view)], view.behind) == (rows, behind)


def test_the_empty_text_in_a_folder_is_null(table: WrittenTable, tails: Tails) -> None:
    table.produce(1, kind="")
    table.produce(1, kind="a")
    assert [row["KIND"] for row in rows_in(seen(tails, table))] == [None, "a"]


def test_aborted_records_are_no_rows(table: WrittenTable, tails: Tails) -> None:
    producer = Producer({"bootstrap.servers": table.bootstrap, "transactional.id": table.name})
    producer.init_transactions()
    for number, commits in enumerate([True, False, True]):
        producer.begin_transaction()
        producer.produce(table.name, value(number), partition=0)
        producer.flush(30)
        if commits:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.begin_transaction()
    producer.produce(table.name, value(3), partition=0)
    producer.flush(30)
    view = seen(tails, table)
    assert (numbers_in(view), view.behind) == ([0, 2], 0)
    producer.commit_transaction()
    wait_until(lambda: numbers_in(seen(tails, table)) == [0, 2, 3], "the last transaction is visible")


def test_records_that_expired_leave_a_gap(table: WrittenTable, tails: Tails) -> None:
    numbers = table.produce(10)
    table.expire(0, 4)
    view = seen(tails, table)
    assert (numbers_in(view), view.behind) == (numbers[4:], 0)


def test_a_registry_that_is_away_is_told_and_waited_for(
    table: WrittenTable, tails: Tails, feeds: FeedsOfTests
) -> None:
    schemas, feeds.schemas = feeds.schemas, None
    numbers = table.produce(3)
    wait_until(
        lambda: tails.view(table.snapshot(), wait_seconds=0.2).reason == "The registry does not answer.",
        "the view says why it has nothing",
    )
    assert tails.view(table.snapshot(), wait_seconds=0).behind == 3
    feeds.schemas = schemas
    assert numbers_in(seen(tails, table)) == numbers


JSON_COLUMNS = Struct(
    fields=(
        Field(name="KIND", type=Simple.STRING),
        Field(name="NUMBER", type=Simple.BIGINT),
        Field(name="SHARE", type=Simple.DOUBLE),
        *COORDINATES,
    )
)


def test_a_fault_of_ours_is_told_and_ends_nothing(
    table: WrittenTable, tails: Tails, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the thread would end, and every view would wait for it."""
    decode = BatchDecoder.decode

    def fail(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(BatchDecoder, "decode", fail)
    table.produce(3)
    view = tails.view(table.snapshot(), wait_seconds=1)
    assert view.behind == 3
    assert "cannot be decoded: ZeroDivisionError" in view.reason
    monkeypatch.setattr(BatchDecoder, "decode", decode)
    assert not seen(tails, table).reason


def test_plain_json_is_rows_and_the_rest_is_left_to_the_lake(make_table: MakeTable, tails: Tails) -> None:
    table = make_table(columns=JSON_COLUMNS, value=Converter(kind=ConverterKind.JSON))
    good = [
        {"KIND": "ä", "NUMBER": 1, "SHARE": 0.5, "more": [1]},
        {"NUMBER": 2, "SHARE": 3},
        {"KIND": None},
    ]
    odd = [
        b'{"KIND": 5}',
        b'{"kind": "a"}',
        b'{"NUMBER": 1.0}',
        b'{"NUMBER": true}',
        b'{"NUMBER": 9223372036854775808}',
        b'{"SHARE": NaN}',
        b'{"SHARE": 1e999}',
        b'{"KIND": "\\ud800"}',
        b'{"KIND": "a", "KIND": "b"}',
        b"[1]",
        b"\xff",
        b"",
    ]
    table.send([*(json.dumps(each).encode() for each in good), *odd])
    view = seen(tails, table)
    found = [(row["KIND"], row["NUMBER"], row["SHARE"]) for row in rows_in(view)]
    assert found == [("ä", 1, 0.5), (None, 2, 3.0), (None, None, None)]
    assert view.behind == len(odd)
    assert "left to the lake" in view.reason


@pytest.mark.parametrize(
    ("kind", "column", "given"),
    [
        (ConverterKind.STRING, Simple.STRING, "ä\x00".encode()),
        (ConverterKind.BYTES, Simple.BINARY, b"\xff"),
    ],
)
def test_texts_and_bytes_by_the_partition_of_the_topic(
    make_table: MakeTable, tails: Tails, kind: ConverterKind, column: Simple, given: bytes
) -> None:
    table = make_table(
        columns=Struct(
            fields=(
                Field(name="value", type=column),
                Field(name="partition", type=Simple.INT),
                *COORDINATES,
            )
        ),
        folders=(FolderColumn(name="partition", type=Simple.INT),),
        value=Converter(kind=kind),
        partitioning=Partitioning(by_partition=True),
    )
    table.send([given], partition=1)
    expected = given.decode() if column is Simple.STRING else given
    assert [(row["value"], row["partition"]) for row in rows_in(seen(tails, table))] == [(expected, 1)]


def test_folders_by_the_clock_are_unknown_and_the_rows_are_not(make_table: MakeTable, tails: Tails) -> None:
    by_clock = TimePartitions(columns=(("KIND", "yyyy"),), duration_ms=1, timezone="UTC")
    table = make_table(partitioning=Partitioning(time=by_clock), columns=COLUMNS)
    table.produce(3, kind="a")
    view = seen(tails, table)
    assert (view.unknown, view.behind, view.reason) == (("KIND",), 0, "")
    assert [(row["KIND"], row["NUMBER"]) for row in rows_in(view)] == [(None, 0), (None, 1), (None, 2)]


READ = Struct(
    fields=(Field(name="KIND", type=Simple.STRING), Field(name="NUMBER", type=Simple.BIGINT)),
)


def test_transformed_records_are_rows_as_soon_as_a_commit_says_how_they_are_read(
    make_table: MakeTable, tails: Tails
) -> None:
    steps = (
        Transformation(
            name="mark",
            kind="InsertField",
            side="value",
            settings={"static.field": "MARK", "static.value": "m", "topic.field": "TOPIC"},
        ),
        Transformation(
            name="drop",
            kind="Filter",
            side="",
            predicate=Predicate(kind="HasHeaderKey", settings={"name": "x"}),
        ),
        Transformation(name="cast", kind="Cast", side="value", settings={"spec": "NUMBER:string"}),
    )
    columns = Struct(
        fields=(
            Field(name="KIND", type=Simple.STRING),
            *(Field(name=name, type=Simple.STRING) for name in ("NUMBER", "MARK", "TOPIC")),
            *COORDINATES,
        )
    )
    table = make_table(columns=columns, transformations=steps)
    table.send([value(1), value(2)], headers=[[("x", b"")], []])
    before = seen(tails, table)
    assert (before.chunks, before.behind) == ((), 2)
    assert before.reason == "its connector has not said yet as what it reads records, to transform them"
    table.say_reads(ReadColumns(value=READ))
    view = seen(tails, table)
    found = [(row["KIND"], row["NUMBER"], row["MARK"], row["TOPIC"]) for row in rows_in(view)]
    assert (found, view.behind) == ([("a", "2", "m", table.name)], 0)
    # The run has not read a field NOTE yet.
    table.send([framed(2, SECOND, {"KIND": "a", "NUMBER": 3, "NOTE": "n"})])
    view = seen(tails, table)
    assert (len(rows_in(view)), view.behind) == (1, 1)
    assert view.reason == "1 records are left to the lake: the lake has not read a field NOTE yet"
    # It reads NUMBER as another type from now on.
    wider = Struct(fields=(READ.fields[0], Field(name="NUMBER", type=Simple.DOUBLE)))
    table.say_reads(ReadColumns(value=wider))
    assert (seen(tails, table).chunks, seen(tails, table).behind) == ((), 3)
    # Nothing transforms them any more, says a run.
    table.say_reads(None)
    assert seen(tails, table).behind == 3


def test_texts_need_no_commit_to_be_transformed(make_table: MakeTable, tails: Tails) -> None:
    table = make_table(
        columns=Struct(fields=(Field(name="LINE", type=Simple.STRING), *COORDINATES)),
        folders=(),
        partitioning=Partitioning(),
        value=Converter(kind=ConverterKind.STRING),
        transformations=(
            Transformation(name="h", kind="HoistField", side="value", settings={"field": "LINE"}),
        ),
    )
    table.send([b"one", b"t\xc3w\xc3\xb6"])
    assert [row["LINE"] for row in rows_in(seen(tails, table))] == ["one", "t\ufffdw\xf6"]


@pytest.mark.parametrize(
    ("of_sink", "why"),
    [
        (
            {"transformations": (Transformation(name="f", kind="Filter", side=""),)},
            "its connector has not said yet as what it reads records, to transform them",
        ),
        ({"stores_keys": True}, "it has no column _KEY as the lake writes it"),
        (
            {
                "partitioning": Partitioning(
                    time=TimePartitions(
                        columns=(("KIND", "w"),), duration_ms=1, timezone="UTC", extractor="Record"
                    )
                )
            },
            "The table cannot be partitioned by the pattern 'w', which is not supported.",
        ),
        ({"partitioning": Partitioning()}, "its folders are not those that its connector asks for"),
    ],
)
def test_what_cannot_be_decoded_here_is_told(
    make_table: MakeTable, tails: Tails, of_sink: dict[str, Any], why: str
) -> None:
    table = make_table(**of_sink)
    table.produce(7)
    view = seen(tails, table)
    assert (view.chunks, view.behind, view.reason) == ((), 7, why)


def test_a_connector_that_feeds_nothing_now_is_told(
    table: WrittenTable, tails: Tails, feeds: FeedsOfTests
) -> None:
    feeds.feeds[str(table.folder)] = dataclasses.replace(table.feed, problem="connector lake is stopped")
    table.produce(7)
    view = seen(tails, table)
    assert (view.chunks, view.behind, view.reason) == ((), 7, "connector lake is stopped")


def test_a_table_that_begins_at_the_end_of_its_topic_has_no_tail_before_it_has_begun(
    table: WrittenTable, tails: Tails, feeds: FeedsOfTests
) -> None:
    late = dataclasses.replace(table.feed, sink=dataclasses.replace(table.feed.sink, starts_at_latest=True))
    feeds.feeds[str(table.folder)] = late
    table.produce(7)
    view = seen(tails, table)
    assert view.chunks == ()
    assert view.reason == "connector lake has not said yet where the table begins"
    table.write({0: 5})
    assert len(numbers_in(seen(tails, table))) == 2


def test_rows_of_more_new_folders_than_the_table_gets_are_left_to_the_lake(
    make_table: MakeTable, tails: Tails
) -> None:
    table = make_table(per_hour=3)
    table.produce(1, kind="a")
    table.write()
    shown = [table.produce(1, kind=kind)[0] for kind in ("b", "c", "a")]
    assert numbers_in(seen(tails, table)) == shown
    for kind in ("d", "e"):
        table.produce(1, kind=kind)
    shown += table.produce(2, kind="b")
    view = seen(tails, table)
    assert (numbers_in(view), view.behind) == (sorted(shown), 2)
    assert "the table gets only so many of these in an hour" in view.reason
    table.write()
    shown = table.produce(1, kind="d")
    assert numbers_in(seen(tails, table)) == shown


def test_tails_take_no_more_bytes_than_they_may(
    broker: EmbeddedBroker, make_table: MakeTable, feeds: FeedsOfTests, tmp_path: Path
) -> None:
    most = 200_000
    tails = Tails(broker.bootstrap, feeds, tmp_path / "small", most_bytes=most, keep_seconds=0.2)
    try:
        table = make_table(partitions=1)
        total = 0
        view = seen(tails, table)
        while not view.behind:
            total += len(table.produce(200))
            view = seen(tails, table)
            assert tails.bytes_used <= most
            assert total < 50_000
        assert view.reason == "the tails of all tables take as many bytes as they may"
        assert len(numbers_in(view)) + view.behind == total
        # The lake has them, and so the tail makes room.
        table.write()
        more = table.produce(50)
        wait_until(lambda: numbers_in(seen(tails, table)) == more, "there is room again")
        assert sum(file.stat().st_size for file in (tmp_path / "small").iterdir()) <= most
    finally:
        tails.close()


def test_a_table_that_nobody_asks_for_is_not_followed_and_leaves_no_files(
    broker: EmbeddedBroker, table: WrittenTable, feeds: FeedsOfTests, tmp_path: Path
) -> None:
    threads = threading.active_count()
    tails = Tails(
        broker.bootstrap, feeds, tmp_path / "t", most_bytes=2**24, idle_seconds=0.5, keep_seconds=0.2
    )
    try:
        numbers = table.produce(5)
        assert numbers_in(seen(tails, table)) == numbers
        assert tails.followed == 1
        wait_until(lambda: tails.followed == 0 and tails.bytes_used == 0, "it is forgotten")
        assert list((tmp_path / "t").iterdir()) == []
        assert numbers_in(seen(tails, table)) == numbers
    finally:
        tails.close()
    assert not (tmp_path / "t").exists()
    wait_until(lambda: threading.active_count() <= threads + 3, "no thread of the tails is left")


def test_small_chunks_become_few(table: WrittenTable, tails: Tails) -> None:
    numbers: list[int] = []
    earlier: list[tuple[int, TailView]] = []
    for at in range(60):
        numbers += table.produce(3, partition=at % 2)
        view = seen(tails, table)
        earlier.append((len(numbers), view))
        assert numbers_in(view) == numbers
    wait_until(lambda: len(seen(tails, table).chunks) <= 16, "small chunks are merged")
    assert numbers_in(seen(tails, table)) == numbers
    # Whoever was about to open the small ones still can.
    for count, view in earlier[-20:]:
        assert numbers_in(view) == numbers[:count]


def test_chunks_become_data_files_and_these_become_few(
    broker: EmbeddedBroker, make_table: MakeTable, feeds: FeedsOfTests, tmp_path: Path
) -> None:
    worthwhile = Worthwhile(bytes=4_000, rows_of_file=8)
    tails = Tails(broker.bootstrap, feeds, tmp_path / "t", most_bytes=2**24, worthwhile=worthwhile)
    try:
        table = make_table(partitions=1)
        for at in range(40):
            table.produce(6, kind=["a", "", None, "a=b/c"][at % 4])
            seen(tails, table)

        def is_settled() -> bool:
            chunks = seen(tails, table).chunks
            return len(chunks) <= 8 and any(chunk.files for chunk in chunks)

        wait_until(is_settled, "chunks are merged to data files")
        view = seen(tails, table)
        assert rows_in(view) == table.rows_of(table.records)
        of_files = next(chunk for chunk in view.chunks if chunk.files)
        assert {name.partition("/")[0] for name in of_files.files} == {
            "KIND=a",
            "KIND=__HIVE_DEFAULT_PARTITION__",
            "KIND=a%3Db%2Fc",
        }
        table.write({0: 100})
        assert rows_in(seen(tails, table)) == table.rows_of(table.records[100:])
    finally:
        tails.close()


def test_a_chunk_that_is_mapped_can_be_read_after_its_file_is_gone(table: WrittenTable, tails: Tails) -> None:
    numbers = table.produce(5)
    (chunk,) = seen(tails, table).chunks
    with pa.memory_map(chunk.path) as source:
        opened = pa.ipc.open_file(source)
        Path(chunk.path).unlink()
        assert opened.read_all().column("NUMBER").to_pylist() == numbers


def test_what_the_newest_version_does_not_need_is_evicted_and_read_again_for_an_older_one(
    broker: EmbeddedBroker, table: WrittenTable, feeds: FeedsOfTests, tmp_path: Path
) -> None:
    tails = Tails(broker.bootstrap, feeds, tmp_path / "t", most_bytes=2**24, keep_seconds=0.2)
    try:
        numbers = table.produce(5)
        old = table.version
        assert numbers_in(seen(tails, table)) == numbers
        table.write()
        wait_until(lambda: not seen(tails, table).chunks and tails.bytes_used == 0, "the old chunks are gone")
        more = table.produce(2)
        assert numbers_in(seen(tails, table, old)) == numbers + more
        assert numbers_in(seen(tails, table)) == more
    finally:
        tails.close()


def test_many_questions_while_records_come_and_the_table_commits(table: WrittenTable, tails: Tails) -> None:
    """Each sees everything that the log had before it asked, once."""
    stopping = threading.Event()
    failures: list[BaseException] = []
    acknowledged: list[int] = []

    def produce() -> None:
        while not stopping.is_set():
            acknowledged.extend(table.produce(5, partition=len(acknowledged) % 2))

    def write() -> None:
        while not stopping.is_set():
            # The table learns of its records a moment after the log has them.
            ends: dict[int, int] = {}
            for each in list(table.records):
                ends[each.partition] = max(ends.get(each.partition, 0), each.offset + 1)
            table.write(ends)
            time.sleep(0.05)

    def ask() -> None:
        for _ in range(15):
            known = list(acknowledged)
            version = table.version
            view = seen(tails, table, version)
            together = table.numbers(version) + numbers_in(view)
            assert twice(together) == []
            assert set(known) <= set(together)
            assert (view.behind, view.reason) == (0, "")

    def guarded(work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                failures.append(error)

        return run

    writers = [threading.Thread(target=guarded(work)) for work in (produce, write)]
    readers = [threading.Thread(target=guarded(ask)) for _ in range(4)]
    for thread in [*writers, *readers]:
        thread.start()
    for thread in readers:
        thread.join()
    stopping.set()
    for thread in writers:
        thread.join()
    assert failures == []
    assert acknowledged


def test_a_log_that_is_away_leaves_what_was_read(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path / "log")
    broker.start()
    feeds = FeedsOfTests(Cluster(broker.bootstrap))
    tails = Tails(broker.bootstrap, feeds, tmp_path / "tails", most_bytes=2**24)
    try:
        table = WrittenTable(broker, "t", tmp_path / "lake", feeds)
        numbers = table.produce(5)
        assert numbers_in(seen(tails, table)) == numbers
        broker.stop()
        view = tails.view(table.snapshot(), wait_seconds=1)
        assert numbers_in(view) == numbers
        assert view.reason.startswith(f"The log at {broker.bootstrap} could not")
        broker.start()
        numbers += table.produce(5)
        wait_until(lambda: numbers_in(seen(tails, table)) == numbers, "the tail goes on")
        wait_until(lambda: not seen(tails, table).reason, "nothing is said to be missing")
    finally:
        tails.close()
        feeds.cluster.close()
        broker.close()


def test_a_log_that_lost_records_is_read_again_and_what_the_table_has_is_left_out(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path / "log")
    broker.start()
    feeds = FeedsOfTests(Cluster(broker.bootstrap))
    tails = Tails(broker.bootstrap, feeds, tmp_path / "tails", most_bytes=2**24)
    try:
        table = WrittenTable(broker, "t", tmp_path / "lake", feeds, is_derived=True)
        table.produce(10)
        table.write()
        more = table.produce(1)
        assert numbers_in(seen(tails, table)) == more
        broker.stop()
        away = tails.view(table.snapshot(), wait_seconds=0)
        assert (numbers_in(away), bool(away.reason)) == (more, True)
        feeds.shorter = {0}
        broker.start()
        # What was lost is derived again.
        table.produce_numbers([7, 8, 9], partition=0)
        more += table.produce(1)
        wait_until(lambda: not seen(tails, table).reason, "the log answers")
        view = seen(tails, table)
        assert (numbers_in(view), view.starts) == (more, {0: 0, 1: 0})
    finally:
        tails.close()
        feeds.cluster.close()
        broker.close()


def test_what_was_read_of_a_log_that_has_lost_it_is_not_shown(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path / "log")
    broker.start()
    feeds = FeedsOfTests(Cluster(broker.bootstrap))
    tails = Tails(broker.bootstrap, feeds, tmp_path / "tails", most_bytes=2**24)
    try:
        table = WrittenTable(broker, "t", tmp_path / "lake", feeds)
        numbers = table.produce(10)
        before = {chunk.path for chunk in seen(tails, table).chunks}
        broker.stop()
        assert {chunk.path for chunk in tails.view(table.snapshot(), wait_seconds=0).chunks} == before
        # Nothing of it is committed, so only the tail has anything to lose.
        feeds.shorter = {0}
        broker.start()
        wait_until(lambda: not seen(tails, table).reason, "the log answers")
        view = seen(tails, table)
        assert numbers_in(view) == numbers
        assert before.isdisjoint(chunk.path for chunk in view.chunks)
    finally:
        tails.close()
        feeds.cluster.close()
        broker.close()


@pytest.mark.parametrize("is_derived", [False, True])
def test_a_repaired_table_has_other_commits_with_the_same_numbers(
    make_table: MakeTable, tails: Tails, *, is_derived: bool
) -> None:
    table = make_table(is_derived=is_derived)
    numbers = table.produce(20)
    table.write({0: 2})
    kept = table.version
    assert numbers_in(seen(tails, table)) == numbers[2:]
    table.write({0: 10})
    table.write({0: 12})
    assert numbers_in(seen(tails, table)) == numbers[12:]
    for version in range(kept + 1, table.version + 1):
        commit = table.log.commit_file(version).path
        commit.rename(table.folder / f"{version}.aside")
    # The first of them anew, and somebody asks again only then.
    assert table.write({0: 5}) == kept + 1
    assert numbers_in(seen(tails, table)) == numbers[5:]
    assert numbers_in(seen(tails, table, kept)) == numbers[2:]
    assert table.write({0: 15}) == kept + 2
    assert numbers_in(seen(tails, table)) == numbers[15:]
