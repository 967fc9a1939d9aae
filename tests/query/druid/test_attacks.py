"""Hostile statements: whatever the text is, the outcome is a translation or a clear error."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.query.druid.errors import DruidSqlError
from headrace.query.druid.functions import FUNCTIONS
from headrace.query.druid.parameters import Parameter
from headrace.query.permitted import check_permitted
from tests.query.druid.asking import EVENTS, asked, database, translated


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    return database()


def refusal(statement: str) -> DruidSqlError:
    with pytest.raises(DruidSqlError) as caught:
        translated(statement)
    return caught.value


@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ("", "There is no statement"),
        ("-- nothing", "There is no statement"),
        (";;", "There is no statement"),
        ("SELECT 1; SELECT 2", "These are 2 statements"),
        ("SELECT 1; DROP TABLE events", "These are 2 statements"),
        ("INSERT INTO events SELECT 1", "INSERT is not allowed: SQL over the lake is read-only (line 1, col"),
        ("REPLACE INTO events OVERWRITE ALL SELECT 1", "REPLACE is not allowed"),
        ("/* x */ DELETE FROM events", "DELETE is not allowed"),
        ("COPY events TO '/tmp/x'", "COPY is not allowed"),
        ("ATTACH '/tmp/x'", "ATTACH is not allowed"),
        ("INSTALL httpfs", "INSTALL is not allowed"),
        ("LOAD httpfs", "LOAD is not allowed"),
        ("PRAGMA database_list", "PRAGMA is not allowed"),
        ("SET memory_limit = '1TB'", "There is no statement"),
        ("CALL pragma_version()", "CALL is not allowed"),
        ("FROM events", "FROM is not allowed"),
        ("EXPLAIN SELECT 1", "This form of EXPLAIN"),
        ("EXPLAIN PLAN FOR INSERT INTO events SELECT 1", "INSERT is not allowed"),
        ("WITH x AS (INSERT INTO events SELECT 1) SELECT * FROM x", "INSERT is not supported"),
        ("WITH x AS (DELETE FROM events RETURNING *) SELECT * FROM x", ""),
        ("WITH RECURSIVE x AS (SELECT 1) SELECT * FROM x", "RECURSIVE is not supported"),
        ("SELECT * FROM read_csv('/etc/passwd')", "Table functions are not supported (line 1, column 15)"),
        ("SELECT * FROM '/etc/passwd'", "'/etc/passwd' not found"),
        ('SELECT * FROM "/etc/passwd"', "'/etc/passwd' not found"),
        ("SELECT * FROM duckdb_settings()", "Table functions are not supported"),
        ("SELECT * FROM pg_catalog.pg_tables", "'pg_catalog.pg_tables' not found"),
        ("SELECT * FROM information_schema.nothing", "not found"),
        ("SELECT * FROM other.events", "'other.events' not found"),
        ("SELECT * FROM events, LATERAL (SELECT 1)", "LATERAL is not supported"),
        ("SELECT read_text('/etc/passwd')", "There is no function READ_TEXT (line 1, column 8)"),
        ("SELECT 1,\n getenv('HOME')", "There is no function GETENV (line 2, column 2)"),
        ("SELECT COUTN(*) FROM events", "Did you mean COUNT?"),
        ("SELECT \"lower\"(1), current_setting('x')", "There is no function CURRENT_SETTING"),
        ("SELECT HLL_SKETCH_ESTIMATE(TYPE) FROM events", "sketches cannot be stored here"),
        ("SELECT events.lower('x')", ""),
        ("SELECT nope FROM events", "Column 'nope' not found in any table (line 1, column 8)"),
        ("SELECT e.nope FROM events e", "Column 'nope' not found in table 'e'"),
        ("SELECT x.TYPE FROM events e", "Table 'x' not found"),
        ("SELECT TYPE[1] FROM events", "BRACKET is not supported"),
        ("SELECT * EXCLUDE (TYPE) FROM events", ""),
        ("SELECT COLUMNS(*) FROM events", ""),
        ("SELECT TYPE FROM events USING SAMPLE 10", ""),
        ("SELECT TYPE FROM events QUALIFY 1 = 1", "QUALIFY is not supported"),
        ("SELECT DISTINCT ON (TYPE) TYPE FROM events", "DISTINCT is not supported"),
        ("SELECT VIEWS INTO x FROM events", "INTO is not supported"),
        ("SELECT TYPE FROM events FOR UPDATE", "LOCK is not supported"),
        ("SELECT TYPE FROM events LIMIT (SELECT 1)", "LIMIT takes a number"),
        ("SELECT SUM(DISTINCT VIEWS) FROM events", "SUM does not take DISTINCT"),
        ("SELECT STRLEN()", "STRLEN takes 1 argument, not 0: STRLEN(expr)"),
        ("SELECT TIME_FLOOR(__time, 'x') FROM events", "'x' is no ISO 8601 period (line 1, column 8)"),
        ("SELECT TIME_FLOOR(__time, TYPE) FROM events", "must be a literal"),
        ("SELECT TIME_FLOOR(__time, 'P1M1D') FROM events", "months and shorter units"),
        ("SELECT TIME_FORMAT(__time, 'GGG') FROM events", "letters GGG"),
        ("SELECT TIME_FORMAT(__time, 'yyyy', 'Mars') FROM events", "no time zone 'Mars'"),
        ("SELECT TIME_IN_INTERVAL(__time, '2000') FROM events", "no ISO 8601 interval"),
        ("SELECT TIMESTAMP 'soon'", "'soon' is no time"),
        ("SELECT CAST(1 AS INET)", ""),
        ("SELECT __time - __time FROM events", "Only an interval"),
        ("SELECT LATEST(x) FROM (SELECT 1 AS x)", "LATEST needs the column __time"),
        ("SELECT 'unfinished", "cannot be read"),
        ("SELECT (1", "cannot be parsed"),
        ("SELECT 1)", "cannot be parsed"),
        ("SELECT \0", "null character"),
        ("SELECT " + "x" * 1_000_001, "longer than 1000000 characters"),
        ("SELECT ?", "has 1 parameters"),
        ("SELECT ROW_NUMBER() FROM events", "ROW_NUMBER needs an OVER clause"),
        ("SELECT LOWER(*) FROM events", "LOWER does not take *"),
    ],
)  # fmt: skip
def test_refused_with_the_reason(statement: str, part: str) -> None:
    assert part in str(refusal(statement))


@pytest.mark.parametrize(
    "nested",
    [
        lambda n: f"SELECT {'(' * n}1{')' * n}",
        lambda n: f"SELECT {'ABS(' * n}1{')' * n}",
        lambda n: f"{'SELECT * FROM (' * n}SELECT 1 AS a{')' * n}",
        lambda n: f"SELECT {'(SELECT ' * n}1{')' * n}",
        lambda n: f"SELECT {'NOT ' * n}true",
        lambda n: f"SELECT {'- ' * n}1",
        lambda n: f"SELECT {'CASE WHEN true THEN ' * n}1{' END' * n}",
        lambda n: f"SELECT 1{'::BIGINT' * n}",
        lambda n: f"SELECT {'ARRAY[' * n}1{']' * n}",
        lambda n: f"SELECT a{'.a' * n}",
        lambda n: f"SELECT 1 WHERE 1 IN ({'SELECT 1 WHERE 1 IN (' * n}1{')' * n})",
        lambda n: f"{'WITH a AS (' * n}SELECT 1{') SELECT 1' * n}",
        lambda n: f"{'(' * n}SELECT 1{')' * n}",
        lambda n: f"SELECT 1 {'UNION ALL (SELECT 1 ' * n}{')' * n}",
    ],
)  # fmt: skip
def test_nested_three_thousand_times(nested, connection) -> None:  # type: ignore[no-untyped-def]
    assert "nested too deeply" in str(refusal(nested(3000)))
    # In a thread, as the door does it; deep enough for what tools generate.
    with ThreadPoolExecutor(1) as threads:
        failure = threads.submit(asked, connection, nested(12)).exception()
    assert failure is None or ("nested" not in str(failure) and isinstance(failure, DruidSqlError))


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT COUNT(*) FROM events WHERE " + " OR ".join(f"VIEWS = {n}" for n in range(2_000)),
        f"SELECT COUNT(*) FROM events WHERE VIEWS IN ({', '.join(map(str, range(20_000)))})",
        f"SELECT {' + '.join(['1'] * 200)} AS n",
        " UNION ALL ".join(["SELECT 1 AS a"] * 200),
        "SELECT COUNT(*) FROM events "
        + " ".join(f"JOIN events e{n} ON e{n}.TYPE = events.TYPE" for n in range(60)),
    ],
)  # fmt: skip
def test_long_statements(statement: str, connection: duckdb.DuckDBPyConnection) -> None:
    assert asked(connection, statement)


def test_statements_that_are_too_long_to_parse() -> None:
    assert "more than 50000 words" in str(refusal(f"SELECT {', '.join(['1'] * 30_000)}"))


def test_comments_and_trailing_semicolons_are_harmless(connection: duckdb.DuckDBPyConnection) -> None:
    for statement in ("SELECT 1 -- ; DROP TABLE events", "/* ; */ SELECT /* x */ 1 /* y */ ;", "SELECT 1;;"):
        assert asked(connection, statement) == ["[1]"]
    assert "--" not in translated("SELECT 1 -- x")


def test_identifiers_with_everything_in_them(connection: duckdb.DuckDBPyConnection) -> None:
    statement = (
        'SELECT "odd ""name"" {x}" AS "ä ""b"" {0}", \'{0}\' FROM events WHERE "odd ""name"" {x}" = \'o\''
    )
    assert asked(connection, statement) == ['["o","{0}"]']
    assert asked(connection, 'SELECT LOWER("a;b") FROM (SELECT \'X\' AS "a;b") AS "t; DROP"') == ['["x"]']


_text = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=40)
_quick = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@given(_text)
@_quick
def test_a_literal_stays_what_it_is(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    literal = "'" + text.replace("'", "''") + "'"
    (row,) = asked(
        connection, f"SELECT {literal}, ?, CONCAT({literal}, ?)", *[Parameter(type="VARCHAR", value=text)] * 2
    )
    assert json.loads(row) == [text, text, text + text]


@given(_text.filter(lambda text: text.strip() != ""))
@_quick
def test_an_identifier_stays_what_it_is(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    name = '"' + text.replace('"', '""') + '"'
    assert asked(connection, f"SELECT {name} FROM (SELECT 1 AS {name}) WHERE {name} = 1") == ["[1]"]


_words = st.sampled_from([
    "SELECT", "FROM", "events", "(", ")", ",", "*", "TYPE", "WHERE", "=", "'x'", "1", "COUNT", "GROUP BY",
    "AND", "NOT", "CASE", "END", "WITH", "AS", "UNION", "ALL", "read_csv", "'/etc/passwd'", ".", "INTERVAL",
    "DAY", "OVER", "ORDER BY", "LIMIT", "JOIN", "ON", "[", "]", "::", "CAST", "EXTRACT", "TRIM", "VALUES",
    ";", "--", "/*", "?", "LATERAL", "UNNEST", "EXCEPT", "pragma_version", "TABLE", "IN", "IS", "NULL",
    "PIVOT", "FILTER", "{", "}", "$1",
])  # fmt: skip


@given(st.lists(_words, max_size=25).map(" ".join))
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nothing_gets_past_what_the_lake_permits(connection: duckdb.DuckDBPyConnection, words: str) -> None:
    """Any salad of words is an error of ours, or SQL that `permitted.py` lets pass or DuckDB cannot parse."""
    try:
        sql = translated(f"SELECT {words}")
    except DruidSqlError:
        return
    try:
        assert check_permitted(connection.cursor(), sql, {EVENTS.name}).tables <= {EVENTS.name}
    except duckdb.ParserException:
        return


def test_every_template_names_only_arguments_that_the_function_has() -> None:
    for function in FUNCTIONS.values():
        if isinstance(function.meaning, str):
            places = {int(number) for number in re.findall(r"{(\d)}", function.meaning)}
            assert places <= set(range(function.least)), function.name
