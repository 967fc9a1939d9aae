"""Every function on a real DuckDB, with the results that Druid documents, and the SQL it becomes."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.query.druid.functions import FUNCTIONS
from tests.query.druid.asking import asked, database, translated

FIXTURES = Path(__file__).parent / "fixtures"


def pairs(name: str) -> list[tuple[str, list[str]]]:
    """The statements of a file, each with what stands behind its arrows."""
    text = "\n".join(
        line
        for line in (FIXTURES / name).read_text(encoding="utf-8").split("\n")
        if not line.startswith("--")
    )
    found = []
    for block in filter(None, (each.strip("\n") for each in text.split("\n\n"))):
        statement, *expected = block.split("\n=> ")
        assert expected, f"no arrow behind: {statement}"
        found.append((statement, expected))
    return found


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    return database()


@pytest.mark.parametrize(("expression", "expected"), pairs("expressions.sql"), ids=str)
def test_expressions(connection: duckdb.DuckDBPyConnection, expression: str, expected: list[str]) -> None:
    assert asked(connection, f"SELECT {expression}") == [f"[{value}]" for value in expected]


@pytest.mark.parametrize(("query", "expected"), pairs("queries.sql"), ids=str)
def test_queries(connection: duckdb.DuckDBPyConnection, query: str, expected: list[str]) -> None:
    assert asked(connection, query) == expected


@pytest.mark.parametrize(("query", "expected"), pairs("translations.sql"), ids=str)
def test_the_sql_that_a_query_becomes(query: str, expected: list[str]) -> None:
    assert [translated(query)] == expected


def test_every_function_has_an_example() -> None:
    text = " ".join(each for name in ("expressions.sql", "queries.sql") for each, _ in pairs(name))
    assert {name for name in FUNCTIONS if not re.search(rf"\b{name}\(", text)} == {"LOOKUP"}


def test_distinct_counts_approximate_on_request() -> None:
    assert "approx_count_distinct" in translated("SELECT COUNT(DISTINCT TYPE) FROM events", exact=False)
    assert "approx" not in translated("SELECT COUNT(DISTINCT TYPE) FROM events")


_times = st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2100, 1, 1))
_zones = st.sampled_from(["UTC", "America/Los_Angeles", "Europe/Berlin", "Asia/Kolkata", "+05:45", "-03:30"])


@given(
    time=_times,
    zone=_zones,
    unit=st.sampled_from(["P1D", "P1W", "P1M", "P3M", "P1Y", "PT1H", "PT15M", "P2D"]),
)
@settings(max_examples=200, deadline=None)
def test_floor_and_ceiling_enclose_a_time(time: datetime, zone: str, unit: str) -> None:
    literal = f"TIMESTAMP '{time.isoformat(sep=' ', timespec='milliseconds')}'"
    floor, ceiling = (f"{name}({literal}, '{unit}', NULL, '{zone}')" for name in ("TIME_FLOOR", "TIME_CEIL"))
    same = f"TIME_FLOOR({floor}, '{unit}', NULL, '{zone}') = {floor}"
    (row,) = asked(_DATABASE, f"SELECT {floor} <= {literal}, {ceiling} >= {literal}, {same}")
    assert row == "[true,true,true]"


@given(time=_times, zone=st.sampled_from(["America/Los_Angeles", "Europe/Berlin", "Asia/Kolkata", "UTC"]))
@settings(max_examples=100, deadline=None)
def test_a_formatted_time_is_the_one_of_the_zone(time: datetime, zone: str) -> None:
    literal = f"TIMESTAMP '{time.isoformat(sep=' ', timespec='milliseconds')}'"
    (row,) = asked(_DATABASE, f"SELECT TIME_FORMAT({literal}, 'yyyy-MM-dd HH:mm:ss', '{zone}')")
    local = time.replace(tzinfo=UTC).astimezone(ZoneInfo(zone))
    assert json.loads(row) == [local.strftime("%Y-%m-%d %H:%M:%S")]


_DATABASE = database()
