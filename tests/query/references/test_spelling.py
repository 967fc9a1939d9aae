"""Clauses that are ours: each spelling, and that no other statement changes."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import HeadraceError
from headrace.query.references.moments import moment_of, named_moment, table_of
from headrace.query.references.spelling import respelled
from headrace.query.references.words import pieces
from tests.query.test_permitted import ALLOWED

SPELLED = [
    ("FROM e AS OF VERSION 12", 'FROM "e@v12" AS "e"'),
    ("FROM e AS OF VERSION 12 x JOIN y", 'FROM "e@v12" x JOIN y'),
    ("FROM e AS OF VERSION 12 AS x(a, b)", 'FROM "e@v12" AS x(a, b)'),
    ('FROM "a ""b""" AS OF VERSION 1 WHERE 1', 'FROM "a ""b""@v1" AS "a ""b""" WHERE 1'),
    ("FROM a.e AS OF TIMESTAMP '2026-01-01', f", 'FROM a."e@2026-01-01" AS "e", f'),
    ("FROM e TIMESTAMP AS OF TIMESTAMP '2026-01-01'", 'FROM "e@2026-01-01" AS "e"'),
    ("FROM e FOR SYSTEM_TIME AS OF DATE '2026-01-01' x", 'FROM "e@2026-01-01" x'),
    ("FROM version AS OF VERSION 1 v, timestamp VERSION AS OF 2 t", 'FROM "version@v1" v, "timestamp@v2" t'),
    ("FROM e x AT (VERSION => 12), f AT (VERSION => 3)", 'FROM "e@v12" AS x, "f@v3" AS "f"'),
    ("FROM (SELECT 1) s JOIN b.e AS x(a, b) AT (TIMESTAMP => '2026-01-01')",
     'FROM (SELECT 1) s JOIN b."e@2026-01-01" AS x ( a , b )'),
]  # fmt: skip

UNCHANGED = [
    "SELECT x AS of FROM t",
    "SELECT 'a AS OF VERSION 1', $$b AS OF VERSION 1$$, E'c\\' AS OF VERSION 1' FROM t",
    "SELECT 1 -- FROM t AS OF VERSION 1",
    "SELECT 1 /* FROM t AS OF VERSION 1 */",
    'SELECT "AS OF VERSION 1" FROM t',
    "SELECT x AT TIME ZONE 'UTC' FROM t",
    "FROM a ASOF JOIN b ON a.x >= b.x",
    "WITH freshness AS (SELECT 1) SELECT * FROM freshness",
    "/* /* */ ' */ SELECT 'events AS OF VERSION 1'",
    "-- a\rSELECT '\nevents AS OF VERSION 1'",
    "SELECT 1 AS \U0001f600$$, 'events AS OF VERSION 1' AS a$$",
    "SELECT DISTINCT version AS of FROM t",
    "SELECT ALL timestamp AS of FROM t",
]


@pytest.mark.parametrize(("written", "expected"), SPELLED)
def test_a_clause_becomes_a_name(written: str, expected: str) -> None:
    assert respelled(written).sql == expected
    assert respelled(expected).sql == expected


@pytest.mark.parametrize("sql", [*UNCHANGED, *ALLOWED])
def test_other_statements_stay_as_they_are(sql: str) -> None:
    assert is_understood(sql)
    assert respelled(sql).sql == sql


@pytest.mark.parametrize(
    "clause", ["WITH (freshness = lake)", "with(FRESHNESS='lake')", "WITH (freshness = LAKE) ;"]
)
def test_freshness_at_the_end(clause: str) -> None:
    found = respelled(f"SELECT 1 {clause}")
    assert found.freshness == "lake"
    assert found.sql.rstrip(" ;") == "SELECT 1"


# Words of statements with and without our clauses, in any order.
WORDS = st.lists(
    st.sampled_from([
        "SELECT", "*", "FROM", "events", '"events"', "AS", "OF", "VERSION", "TIMESTAMP", "12", "'2026-01-01'",
        "AT", "(", ")", "=>", ",", ".", "FOR", "JOIN", "WHERE", "WITH", "freshness", "=", "lake", ";", "x",
        "--", "/*", "*/", "'", "$$", "\n", "\r", "E'", "\\", "DISTINCT", "of",
    ]),
    max_size=25,
)  # fmt: skip


@given(WORDS)
def test_whatever_the_words_are_only_our_clauses_go(words: list[str]) -> None:
    sql = " ".join(words)
    try:
        found = respelled(sql).sql
    except HeadraceError as error:
        found = error.code
    # What DuckDB understands is never changed, but for its own AT, which no table of ours has.
    assert found == sql or "AT (" in sql or not is_understood(sql)


def is_understood(sql: str) -> bool:
    try:
        return bool(duckdb.extract_statements(sql))
    except duckdb.Error:
        return False


@given(st.text(alphabet="ab'\"$/*-\\\n;1é𝄞E", max_size=40))
def test_pieces_come_in_order_and_are_parts_of_the_text(sql: str) -> None:
    end = 0
    for piece in pieces(sql):
        assert piece.start >= end
        assert sql[piece.start : piece.end] == piece.text
        end = piece.end


@given(st.text(min_size=1, max_size=20), st.integers(0, 10**17))
def test_names_of_moments(table: str, version: int) -> None:
    name = named_moment(table, version=version)
    assert table_of(name, {table.casefold()}) == table.casefold()
    assert (moment_of(name).table, moment_of(name).version) == (table, version)
    # A table that has such a name itself comes first.
    assert table_of(name, {table.casefold(), name.casefold()}) is None
