"""What an entry says, made of its headers alone."""

from __future__ import annotations

import pytest

from headrace.core.errors import HeadraceError
from headrace.dead_letters.entries import At, DeadLetter, Headers, parse_at
from headrace.dead_letters.sending import sent_headers
from headrace.lake.dead_letter_headers import RecordPlace, parse_place


def letter(*headers: tuple[str, bytes | None]) -> DeadLetter:
    return DeadLetter(
        topic="events_dlq",
        at=At(partition=2, offset=17),
        timestamp_ms=1,
        key=b"k",
        value=b"v",
        headers=tuple(headers),
    )


def test_an_entry_names_reason_query_position_and_place() -> None:
    entry = letter(
        ("headrace-error", b"why"),
        ("headrace-query", b"CSAS_A_1"),
        ("headrace-position", b"line 3, column 8"),
        ("headrace-read-from", b"events/3Zk0c9mDQ8uJ1x5vX0qg5A/3/18254"),
        ("headrace-attempts", b"2"),
        ("headrace-posted-at", b"1700"),
        ("headrace-original-trace", b"abc"),
        ("headrace-original-empty", None),
    )
    assert (entry.reason, entry.query, entry.position) == ("why", "CSAS_A_1", "line 3, column 8")
    assert entry.read_from == RecordPlace(
        topic="events", topic_id="3Zk0c9mDQ8uJ1x5vX0qg5A", partition=3, offset=18254
    )
    assert (entry.attempts, entry.posted_at_ms) == (2, 1700)
    assert entry.original_headers == (("trace", b"abc"), ("empty", None))


def test_a_record_that_somebody_else_wrote_says_nothing() -> None:
    entry = letter(("headrace-read-from", b"events/3"), ("headrace-attempts", "²".encode()))
    assert (entry.reason, entry.query, entry.position, entry.read_from) == (None, None, None, None)
    assert (entry.attempts, entry.posted_at_ms, entry.original_headers) == (1, None, ())


def test_a_place_reads_as_it_is_written() -> None:
    place = RecordPlace(topic="a.b_c-d", topic_id="x-_y", partition=0, offset=9)
    assert parse_place(str(place)) == place
    with pytest.raises(ValueError, match="four parts"):
        parse_place("a/b/1")


@pytest.mark.parametrize("text", ["", "3", "0:", ":1", "a:b", "-1:0", "0:1:2"])
def test_what_is_no_partition_and_offset_is_refused(text: str) -> None:
    with pytest.raises(HeadraceError, match=r"Write PARTITION:OFFSET") as raised:
        parse_at(text)
    assert f"`{text}`" in raised.value.message


def test_a_repaired_record_has_the_headers_of_the_old_one_and_says_where_it_comes_from() -> None:
    entry = letter(
        ("headrace-read-from", b"events/id/3/5"),
        ("headrace-attempts", b"1"),
        ("headrace-posted-at", b"1700"),
        ("headrace-original-trace", b"abc"),
    )
    assert sent_headers(entry) == (
        ("trace", b"abc"),
        ("headrace-rowtime", b"1700"),
        ("headrace-repaired-from", b"events_dlq/2/17"),
        ("headrace-attempts", b"1"),
    )


def test_what_an_earlier_query_or_repair_wrote_is_not_sent_as_if_it_were_of_this_one() -> None:
    """The lake would take a record with coordinates that it has for a repetition, and drop it."""
    old: Headers = (
        ("headrace-original-headrace-source", b"CSAS_A_1/id/0/0/0"),
        ("headrace-original-headrace-posted-at", b"5"),
        ("headrace-original-headrace-rowtime", b"7"),
        ("headrace-original-headrace-repaired-from", b"events_dlq/0/0"),
        ("headrace-original-headrace-attempts", b"1"),
    )
    entry = letter(*old, ("headrace-attempts", b"2"), ("headrace-posted-at", b"5"))
    assert sent_headers(entry) == (
        ("headrace-rowtime", b"7"),
        ("headrace-repaired-from", b"events_dlq/2/17"),
        ("headrace-attempts", b"2"),
    )
