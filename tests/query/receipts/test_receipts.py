"""What a receipt says at every step of an event's way, over a real log and real files."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.core.errors import HeadraceError
from headrace.query.receipts.receipt import Receipt
from headrace.query.receipts.settling import in_lake, in_sql
from headrace.query.receipts.traces import Passage, Seen
from headrace.query.receipts.ways import Yield
from headrace.query.tail.chunk_files import Worthwhile
from tests.query.receipts.made_platform import QUERY, MadePlatform, waiting
from tests.query.records import delete_topic, produce, wait_until


def test_every_step_of_the_way_to_the_lake(platform: MadePlatform) -> None:
    (receipt,) = platform.post()
    posted = platform.look(receipt)
    assert (posted.sql, posted.lake) == (Seen.PENDING, Seen.PENDING)
    assert "about 1 records to read" in posted.behind
    platform.derive([receipt])
    derived = platform.look(receipt)
    assert (derived.sql, derived.lake) == (Seen.VISIBLE, Seen.PENDING)
    (query,), (table,) = derived.queries, derived.tables
    assert (query.query, query.passage, [each.offset for each in query.records]) == (
        QUERY,
        Passage.WRITTEN,
        [0],
    )
    assert (table.name, table.version) == (platform.sink, None)
    version = platform.table.write()
    written = platform.look(receipt)
    assert (written.sql, written.lake, written.tables[0].version) == (Seen.VISIBLE, Seen.VISIBLE, version)
    # Rows that move to another file are still there; the answer may name the version that first had them.
    platform.table.optimize()
    assert platform.look(receipt).lake is Seen.VISIBLE


def test_somebody_who_waits_is_answered_when_it_happens(platform: MadePlatform) -> None:
    (first, second) = platform.post(2)
    with ThreadPoolExecutor() as threads:
        in_tail = threads.submit(platform.wait, second, in_sql)
        in_file = threads.submit(platform.wait, second, in_lake)
        wait_until(lambda: platform.receipts.waited_for == 2, "both wait")
        platform.derive([first])
        assert waiting(platform, in_tail)
        platform.derive([second])
        assert in_tail.result().sql is Seen.VISIBLE
        assert waiting(platform, in_file)
        version = platform.table.write()
        assert in_file.result().tables[0].version == version
    assert platform.receipts.waited_for == 0


def test_the_time_is_over(platform: MadePlatform) -> None:
    (receipt,) = platform.post()
    assert platform.wait(receipt, in_sql, seconds=0.2).sql is Seen.PENDING
    assert platform.receipts.waited_for == 0


def test_a_dead_letter_of_a_query_has_its_reason(platform: MadePlatform) -> None:
    (good, bad) = platform.post(2)
    platform.derive([good])
    platform.reject(bad, "Server_Time is no time: 'x'")
    found = platform.wait(bad, in_sql)
    assert (found.sql, found.lake) == (Seen.DEAD_LETTER, Seen.DEAD_LETTER)
    (letter,) = found.letters
    assert (letter.by, letter.reason) == (QUERY, "Server_Time is no time: 'x'")
    assert (letter.at.topic, letter.at.offset) == (platform.letters, 0)
    assert platform.look(good).sql is Seen.VISIBLE


def test_a_record_that_the_connector_refuses(platform: MadePlatform) -> None:
    """The tail knows that it is no row, and only its dead letter says so for sure."""
    (receipt,) = platform.post()
    headers = platform.table.headers(receipt.offset, 1)
    platform.table.send([b"no Avro"], headers=[headers])
    found = platform.look(receipt)
    assert (found.sql, found.lake) == (Seen.PENDING, Seen.PENDING)
    connector = platform.table_way()
    platform.letter(connector.letters, connector.query, (platform.sink_id, 0, 0), "it is no Avro")
    found = platform.wait(receipt, in_sql)
    assert (found.sql, found.letters[0].by, found.letters[0].reason) == (
        Seen.DEAD_LETTER,
        "lake",
        "it is no Avro",
    )
    # A version behind it changes nothing.
    platform.table.write()
    assert platform.wait(receipt, in_lake).lake is Seen.DEAD_LETTER


def test_left_out_is_said_when_it_is_certain(make_platform: Callable[..., MadePlatform]) -> None:
    platform = make_platform(gives=Yield.ANY)
    (dropped, kept) = platform.post(2)
    platform.derive([kept])
    # The query has passed it, but nothing says so: results need not come in order.
    assert platform.look(dropped).sql is Seen.PENDING
    platform.commit_query()
    found = platform.look(dropped)
    assert (found.sql, found.lake, found.queries[0].passage) == (
        Seen.LEFT_OUT,
        Seen.LEFT_OUT,
        Passage.LEFT_OUT,
    )
    assert platform.look(kept).sql is Seen.VISIBLE


def test_what_is_missing_is_not_called_left_out(platform: MadePlatform) -> None:
    """A query that makes one record of each has lost it, or it has expired."""
    (receipt,) = platform.post()
    platform.commit_query()
    found = platform.look(receipt)
    assert (found.sql, found.queries[0].passage) == (Seen.UNKNOWN, Passage.UNKNOWN)
    assert "reconcile" in found.queries[0].reason


def test_old_events_are_found_behind_what_is_followed(platform: MadePlatform) -> None:
    receipts = platform.post(50)
    for begin in range(0, 50, 10):
        platform.derive(receipts[begin : begin + 9])
        platform.reject(receipts[begin + 9], f"bad {begin}")
        platform.commit_query(begin + 10)
    platform.table.write()
    # The newest is asked for first: the topic is followed from there.
    assert platform.look(receipts[48]).lake is Seen.VISIBLE
    for begin in range(0, 50, 10):
        assert platform.look(receipts[begin]).lake is Seen.VISIBLE
        found = platform.look(receipts[begin + 9])
        assert (found.sql, found.letters[0].reason) == (Seen.DEAD_LETTER, f"bad {begin}")
    assert platform.receipts.waited_for == 0


def test_a_query_with_state_has_taken_it(make_platform: Callable[..., MadePlatform]) -> None:
    platform = make_platform(gives=Yield.STATE)
    (receipt,) = platform.post()
    assert platform.look(receipt).sql is Seen.PENDING
    platform.commit_query()
    found = platform.look(receipt)
    assert (found.sql, found.queries[0].passage) == (Seen.LEFT_OUT, Passage.TAKEN)


def test_a_query_that_began_behind_it(platform: MadePlatform) -> None:
    (old, new) = platform.post(2)
    platform.ways.ways[0] = platform.query_way(begins={platform.source_id: {0: 1}})
    platform.derive([new])
    assert platform.look(old).queries[0].passage is Passage.NOT_READ
    assert platform.look(new).sql is Seen.VISIBLE


def test_a_topic_that_no_table_has(platform: MadePlatform) -> None:
    platform.ways.ways = []
    (receipt,) = platform.post()
    found = platform.wait(receipt, in_sql)
    assert (found.sql, found.lake, found.queries, found.tables) == (Seen.NO_TABLE, Seen.NO_TABLE, (), ())


def test_a_connector_reads_the_topic_itself(platform: MadePlatform) -> None:
    receipt = Receipt(topic=platform.sink, partition=0, offset=0)
    platform.derive(platform.post())
    assert platform.look(receipt).sql is Seen.VISIBLE
    assert platform.look(receipt).lake is Seen.PENDING
    platform.table.write()
    assert platform.look(receipt).lake is Seen.VISIBLE


def test_two_tables_of_one_topic(platform: MadePlatform) -> None:
    """It is visible in all, or it is still on its way; a question names those that count."""
    other = platform.table_way(table="other", location=platform.table.location.parent / "other")
    platform.ways.ways.append(other)
    (receipt,) = platform.post()
    platform.derive([receipt])
    found = platform.look(receipt)
    assert {each.table: each.sql for each in found.tables} == {
        platform.sink: Seen.VISIBLE,
        "other": Seen.PENDING,
    }
    assert found.sql is Seen.PENDING
    assert platform.look(receipt, tables=frozenset({platform.sink.casefold()})).sql is Seen.VISIBLE


def test_statements_in_a_circle(platform: MadePlatform) -> None:
    platform.ways.ways.append(
        platform.query_way(query="BACK", source=platform.sink, sink=platform.source, letters="none_dlq")
    )
    (receipt,) = platform.post()
    platform.derive([receipt])
    found = platform.look(receipt)
    assert {each.query: each.passage for each in found.queries} == {
        QUERY: Passage.WRITTEN,
        "BACK": Passage.PENDING,
    }


def test_a_restore_takes_it_away_again(platform: MadePlatform) -> None:
    before = platform.table.version
    (receipt,) = platform.post()
    platform.derive([receipt])
    platform.table.write()
    assert platform.look(receipt).lake is Seen.VISIBLE
    platform.table.restore(before, is_ours=True)
    found = platform.look(receipt)
    assert (found.sql, found.lake) == (Seen.VISIBLE, Seen.PENDING)
    version = platform.table.write()
    found = platform.look(receipt)
    assert (found.lake, found.tables[0].version) == (Seen.VISIBLE, version)


def test_a_repair_takes_it_away_again(platform: MadePlatform) -> None:
    before = platform.table.version
    receipts = platform.post(2)
    platform.derive(receipts[:1])
    platform.table.write()
    assert platform.look(receipts[0]).lake is Seen.VISIBLE
    platform.table.log.commit_file(before + 1).path.rename(platform.table.folder / "aside")
    # Other commits with these numbers, of which none has the row.
    platform.table.write({})
    platform.table.write({})
    found = platform.look(receipts[0])
    assert (found.sql, found.lake) == (Seen.VISIBLE, Seen.PENDING)


def test_rows_in_data_files_of_the_tail(make_platform: Callable[..., MadePlatform]) -> None:
    platform = make_platform(worthwhile=Worthwhile(bytes=0, rows_of_file=1))
    receipts = platform.post(3)
    platform.derive(receipts)
    assert [platform.look(each).sql for each in receipts] == [Seen.VISIBLE] * 3


def test_a_row_whose_record_is_gone(platform: MadePlatform) -> None:
    (receipt,) = platform.post()
    platform.derive([receipt])
    platform.commit_query()
    version = platform.table.write()
    assert platform.look(receipt).lake is Seen.VISIBLE
    delete_topic(platform.bootstrap, platform.sink)
    wait_until(lambda: platform.look(receipt).queries[0].records == (), "the topic is gone")
    found = platform.look(receipt)
    assert (found.sql, found.lake, found.tables[0].version) == (Seen.VISIBLE, Seen.VISIBLE, version)


def refusal(platform: MadePlatform, receipt: Receipt) -> HeadraceError:
    with pytest.raises(HeadraceError) as raised:
        platform.look(receipt)
    return raised.value


def test_offsets_without_an_event(platform: MadePlatform) -> None:
    platform.post()
    beyond = refusal(platform, platform.receipt(1))
    assert (beyond.code, "ends before offset 1" in beyond.message) == ("event_not_found", True)
    other = refusal(platform, Receipt(topic=platform.source, partition=1, offset=0))
    assert (other.code, "1 partition" in other.message) == ("event_not_found", True)
    unknown = refusal(platform, Receipt(topic=f"{platform.source}_none", partition=0, offset=0))
    assert unknown.code == "no_such_topic"


def test_markers_and_aborted_records_are_no_events(platform: MadePlatform) -> None:
    producer = Producer(
        {"bootstrap.servers": platform.bootstrap, "transactional.id": platform.source, "linger.ms": 0}
    )
    producer.init_transactions(60)
    for ends in ("abort", "commit"):
        producer.begin_transaction()
        producer.produce(platform.source, b"{}")
        producer.flush(60)
        if ends == "commit":
            # Not yet: nobody reads it before.
            found = platform.look(platform.receipt(2))
            assert (found.sql, "not committed" in found.behind) == (Seen.PENDING, True)
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)
    assert "aborted" in refusal(platform, platform.receipt(0)).message
    assert "marker" in refusal(platform, platform.receipt(1)).message
    assert platform.look(platform.receipt(2)).queries[0].query == QUERY
    assert "marker" in refusal(platform, platform.receipt(3)).message


def test_an_event_that_has_expired(platform: MadePlatform) -> None:
    platform.post(3)
    admin, place = (
        AdminClient({"bootstrap.servers": platform.bootstrap}),
        TopicPartition(platform.source, 0, 2),
    )
    admin.delete_records([place])[place].result()
    assert refusal(platform, platform.receipt(1)).code == "event_expired"
    assert platform.look(platform.receipt(2)).sql is Seen.PENDING


def test_headers_that_anybody_may_have_written(platform: MadePlatform) -> None:
    odd: list[Any] = [
        [("headrace-source", b"\xff\xfe")],
        [("headrace-source", None)],
        [("headrace-source", b"a/b/c/d/e")],
        [("headrace-source", f"{QUERY}/{platform.source_id}/0/{'9' * 40}/0".encode())],
        [],
        [(f"h{number}", b"x") for number in range(100)],
    ]
    # Each before a record that counts, in batches of their own and all together.
    for headers in (*([each] for each in odd), odd):
        (receipt,) = platform.post()
        produce(platform.bootstrap, platform.letters, [{"value": b"", "headers": each} for each in headers])
        assert platform.look(receipt).sql is Seen.PENDING
        platform.reject(receipt, "at last")
        assert platform.wait(receipt, in_sql).letters[0].reason == "at last"
