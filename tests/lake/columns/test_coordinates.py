"""Coordinates of rows, from the headers of records in columns."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lake import layout
from headrace.lake.columns.coordinates import coordinates_of
from headrace.lake.columns.unusual import UnusualRecordsError
from headrace.lake.coordinates import SOURCE_PATTERN
from headrace.wire.records import Headers
from tests.lake.columns.records import FIRST_TIMESTAMP, columns_of_values

SOURCE, POSTED = b"headrace-source", b"headrace-posted-at"


def read(*headers: Headers) -> list[dict[str, Any]]:
    records = columns_of_values([b"value"] * len(headers), list(headers))
    return pa.table(coordinates_of(records, partition=3, topic_id="here")).to_pylist()


def own(offset: int) -> tuple[Any, ...]:
    return "", "here", 3, offset, 0


def sources(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = (layout.QUERY, layout.SOURCE_TOPIC_ID, layout.SOURCE_PARTITION, layout.SOURCE_OFFSET)
    return [tuple(row[name] for name in (*names, layout.SOURCE_ORDINAL)) for row in rows]


def posted(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def test_the_columns_are_those_of_the_layout() -> None:
    (row,) = read(())
    assert list(row) == [column.name for column in layout.COORDINATE_COLUMNS]


def test_records_of_others_come_from_where_they_were_read() -> None:
    rows = read((), ((b"trace", b"7"),), ((b"headrace-sourcE", b"q/t/1/2/0"),))
    assert sources(rows) == [own(0), own(1), own(2)]
    assert [(row[layout.TOPIC_PARTITION], row[layout.TOPIC_OFFSET]) for row in rows] == [
        (3, 0),
        (3, 1),
        (3, 2),
    ]
    assert [row[layout.POSTED_AT] for row in rows] == [posted(FIRST_TIMESTAMP + at) for at in range(3)]


def test_derived_records_say_where_they_come_from() -> None:
    rows = read(
        ((SOURCE, b"q/topic/1/18254/0"), (POSTED, b"1700000000123")),
        ((b"other", None), (SOURCE, b"q/topic/2/999999999999999999/12"), (POSTED, b"0")),
        ((SOURCE, b"/u/000000001/0/999999999"), (POSTED, b"5")),
    )
    assert sources(rows) == [
        ("q", "topic", 1, 18254, 0),
        ("q", "topic", 2, 999999999999999999, 12),
        ("", "u", 1, 0, 999999999),
    ]
    assert [row[layout.POSTED_AT] for row in rows] == [posted(1700000000123), posted(0), posted(5)]


def test_of_headers_with_the_same_name_the_last_one_counts() -> None:
    rows = read(
        ((SOURCE, b"garbage"), (SOURCE, b"q/t/1/2/0")),
        ((SOURCE, b"q/t/1/3/0"),),
    )
    assert sources(rows) == [("q", "t", 1, 2, 0), ("q", "t", 1, 3, 0)]


def test_rows_of_many_records_come_from_where_they_were_read() -> None:
    rows = read(((SOURCE, b"q/checkpoint/batch/7/key"),), ((SOURCE, b"q/checkpoint/batch/7/a/b/c"),))
    assert sources(rows) == [own(0), own(1)]


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([((SOURCE, b"q/t/1/2/0"),), ()], id="one without"),
        pytest.param([((SOURCE, b"q/t/1/2/0"),), ((SOURCE, b"q/c/batch/2/0"),)], id="two forms"),
        pytest.param([((SOURCE, None),)], id="null"),
        pytest.param([((SOURCE, b"\xff/t/1/2/0"),)], id="not UTF-8"),
        pytest.param([((POSTED, b"-5"),)], id="posted before 1970"),
        pytest.param([((POSTED, b" 5"),)], id="posted with a space"),
        pytest.param([((POSTED, b""),)], id="posted at nothing"),
        pytest.param([((POSTED, b"0x5"),)], id="posted in hexadecimal"),
        pytest.param([((POSTED, b"999999999999999"),)], id="posted after the year 9999"),
        pytest.param([((POSTED, b"5"),), ()], id="one without a time"),
    ],
)
def test_what_is_left_to_single_rows(headers: list[Headers]) -> None:
    with pytest.raises(UnusualRecordsError):
        read(*headers)


parts = st.text("q/09-é\n", max_size=4)


@given(st.lists(st.tuples(parts, parts, parts, parts, parts).map("/".join), min_size=1, max_size=4))
def test_any_text_is_a_source_as_the_pattern_says(texts: list[str]) -> None:
    found = [re.fullmatch(SOURCE_PATTERN, text) for text in texts]
    given_headers: list[Headers] = [((SOURCE, text.encode()),) for text in texts]
    if any(found) and not all(found):
        with pytest.raises(UnusualRecordsError):
            read(*given_headers)
        return
    expected = [
        own(at) if each is None else (each[1], each[2], *map(int, each.groups()[2:]))
        for at, each in enumerate(found)
    ]
    assert sources(read(*given_headers)) == expected
