"""Answers as charts: bars and lines say what the answer says, and nothing else."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.sql_chart import HEIGHT, MOST_BARS, chart
from headrace.core.errors import HeadraceError
from headrace.query.sql import QueryResult


def result(kinds: tuple[str, str], rows: list[tuple[object, object]]) -> QueryResult:
    return QueryResult(columns=("WHAT", "COUNT"), types=kinds, rows=tuple(rows))


def test_bars_are_as_long_as_their_numbers() -> None:
    lines = chart(result(("VARCHAR", "BIGINT"), [("View", 100), ("Search", 50), (None, 0), ("x", None)]), 60)
    lengths = [line.count("█") for line in lines]
    assert lengths[0] == 2 * lengths[1]
    assert lengths[2:] == [0, 0]
    assert [line.split()[-1] for line in lines] == ["100", "50", "0", "NULL"]
    assert max(map(len, lines)) <= 60


def test_numbers_below_zero_go_to_the_other_side() -> None:
    above, below = chart(result(("VARCHAR", "DOUBLE"), [("a", 5.0), ("b", -5.0)]), 60)
    assert above.index("│") == below.index("│")
    assert above.index("█") > above.index("│")
    assert below.rindex("█") < below.index("│")


def test_a_time_and_a_number_are_a_line_whose_gaps_are_gaps() -> None:
    begin = date(2026, 1, 1)
    days = [begin + timedelta(days=number) for number in range(20) if number != 10]
    lines = chart(result(("DATE", "BIGINT"), [(day, 1 + day.day) for day in days]), 70)
    assert "2026-01-01" in lines[HEIGHT]
    assert "2026-01-20" in lines[HEIGHT]
    lowest = lines[HEIGHT - 1].split("┤")[1].ljust(60)
    wide = 60 // 20
    drawn = [lowest[number * wide : (number + 1) * wide] != " " * wide for number in range(20)]
    assert drawn == [number != 10 for number in range(20)]


def test_dates_that_are_texts_are_times_too() -> None:
    rows: list[tuple[object, object]] = [(f"2026-01-{day:02}", day) for day in range(1, 20)]
    assert "┤" in chart(result(("VARCHAR", "BIGINT"), rows), 70)[0]


def test_more_rows_than_columns_are_means_and_the_chart_says_so() -> None:
    begin = datetime(2026, 1, 1)
    rows: list[tuple[object, object]] = [(begin + timedelta(seconds=number), 7) for number in range(5000)]
    lines = chart(result(("TIMESTAMP", "INTEGER"), rows), 80)
    assert "mean" in lines[-1]


def test_rows_that_are_not_shown_are_counted() -> None:
    rows: list[tuple[object, object]] = [(f"k{number}", number) for number in range(MOST_BARS + 7)]
    assert chart(result(("VARCHAR", "BIGINT"), rows), 80)[-1] == "… and 7 more rows"


@pytest.mark.parametrize(
    ("columns", "kinds", "row"),
    [
        (("A",), ("BIGINT",), (1,)),
        (("A", "B", "C"), ("VARCHAR", "BIGINT", "BIGINT"), ("x", 1, 2)),
        (("A", "B"), ("VARCHAR", "VARCHAR"), ("x", "y")),
        (("A", "B"), ("VARCHAR", "UUID"), ("x", "y")),
    ],
)
def test_an_answer_that_fits_no_chart_is_told_why(
    columns: tuple[str, ...], kinds: tuple[str, ...], row: tuple[object, ...]
) -> None:
    with pytest.raises(HeadraceError, match="does not fit a chart") as raised:
        chart(QueryResult(columns=columns, types=kinds, rows=(row,)), 80)
    assert raised.value.code == "bad_request"


_LABELS = st.one_of(st.none(), st.text(max_size=60), st.dates(), st.datetimes(), st.booleans(), st.integers())
_VALUES = st.one_of(
    st.none(),
    st.integers(-(10**400), 10**400),
    st.floats(),
    st.decimals(allow_nan=False, allow_infinity=False),
)


@given(st.lists(st.tuples(_LABELS, _VALUES), max_size=30), st.sampled_from(["VARCHAR", "DATE", "TIMESTAMP"]))
def test_any_answer_of_two_columns_has_a_chart(rows: list[tuple[object, object]], kind: str) -> None:
    lines = chart(result((kind, "DOUBLE"), rows), 80)
    assert lines
    assert all(line.isprintable() for line in lines)
