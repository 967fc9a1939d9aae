"""Spark's answer to a translated statement is DuckDB's, value by value, or the statement is refused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.core.errors import HeadraceError
from headrace.pipeline.spark.questions import running
from headrace.query.spark.functions import SAME_LETTERS
from tests.pipeline.questions.two_engines import TwoEngines, two_engines

# A statement a line.
SAME = [
    line
    for line in Path(__file__).with_name("same.sql").read_text(encoding="utf-8").splitlines()
    if not line.startswith("--")
]

# `make test` asks one of so many.
SHORT_FORM = 8

# What is refused, and a word of the reason.
REFUSED = (
    ("SELECT list(N) FROM awkward", "not translated"),
    ("SELECT string_agg(T, ',') FROM awkward", "not translated"),
    ("SELECT median(N) FROM awkward", "not translated"),
    ("SELECT approx_count_distinct(N) FROM awkward", "not translated"),
    ("SELECT regexp_matches(T, 'a') FROM awkward", "not translated"),
    ("SELECT T ~ 'a' FROM awkward", "not translated"),
    ("SELECT T SIMILAR TO 'a' FROM awkward", "not translated"),
    ("SELECT substring(T, 0, 3) FROM awkward", "count differently"),
    ("SELECT substring(T, N, 3) FROM awkward", "count differently"),
    ("SELECT left(T, -1) FROM awkward", "count differently"),
    ("SELECT S.a FROM awkward", ""),
    ("SELECT [1, 2]", "not translated"),
    ("SELECT [1, 2][1]", "not translated"),
    ("SELECT X::VARCHAR FROM awkward", "differently"),
    ("SELECT AT_UTC::VARCHAR FROM awkward", "differently"),
    ("SELECT TRY_CAST(T AS INT) FROM awkward", "not translated"),
    ("SELECT D = DAY_TEXT FROM awkward", "CAST"),
    ("SELECT T = 1 FROM awkward", "CAST"),
    ("SELECT X % 2 FROM awkward", "integers"),
    ("SELECT AT_LOCAL - AT_LOCAL FROM awkward", "not translated"),
    ("SELECT T LIKE KIND FROM awkward", "literals"),
    ("SELECT T ILIKE 'größe' FROM awkward", "ASCII"),
    ("SELECT count(DISTINCT S) FROM awkward", "compared"),
    ("SELECT * FROM awkward ORDER BY S", "ORDER BY"),
    ("SELECT KIND, count(*) FROM awkward GROUP BY ROLLUP (KIND)", ""),
    ("SELECT DISTINCT ON (KIND) KIND, ID FROM awkward ORDER BY ID", ""),
    ("SELECT ID FROM awkward LIMIT 10%", ""),
    ("SELECT ID FROM awkward USING SAMPLE 10%", ""),
    ("SELECT * FROM awkward a POSITIONAL JOIN others o", ""),
    ("SELECT * FROM range(3)", ""),
    ("SELECT unnest([1, 2])", "not translated"),
    ("SELECT ID FROM awkward UNION ALL BY NAME SELECT ID FROM others", ""),
    ("SELECT ID FROM awkward UNION ALL SELECT NAME FROM others", "CAST"),
    ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r", ""),
    ("SELECT first(N) FROM awkward", "not translated"),
    ("SELECT random()", "not translated"),
    (
        "WITH t0 AS (SELECT ID FROM others), "
        + ", ".join(f"t{n} AS (SELECT a.ID FROM t{n - 1} a, t{n - 1} b)" for n in range(1, 30))
        + " SELECT count(*) FROM t29",
        "64 times",
    ),
    (f"SELECT replace(T, 'a', '{'b' * 1000}') FROM awkward", "memory"),
    (f"SELECT {'(' * 30}1{')' * 30}", "deep"),
    (f"SELECT {'+'.join('1' * 5000)}", "depth"),
    ("SELECT repeat('x', 1000)", "not translated"),
    ("SELECT 99999999999999999999", "large"),
    ("SELECT INTERVAL 1 DAY", ""),
    ("SELECT sum(S.a) FROM awkward", ""),
    ("DESCRIBE awkward", ""),
    ("EXPLAIN SELECT 1", "EXPLAIN"),
    ("SELECT 1; SELECT 2", "2 statements"),
    ("COPY awkward TO 'x'", "read-only"),
    ("SELECT * FROM '/etc/passwd'", "not a table"),
    ("SELECT nothing FROM awkward", "nothing"),
)
# What only the data shows: Spark refuses it on the way, or both engines do.
REFUSED_BY_DATA = (
    "SELECT upper(T || 'ß') FROM awkward",
    "SELECT lower('İ' || T) FROM awkward",
    "SELECT CAST(T AS INT) FROM awkward",
    "SELECT CAST(T AS DATE) FROM awkward",
    "SELECT CAST(X AS BIGINT) FROM awkward",
    "WITH t0 AS (SELECT T AS x FROM awkward WHERE ID = 0), "
    + ", ".join(f"t{n} AS (SELECT x || x AS x FROM t{n - 1})" for n in range(1, 26))
    + " SELECT length(x) FROM t25",
    "SELECT N // 0 FROM awkward",
    "SELECT N % ID FROM awkward",
    "SELECT N * N * 2 FROM awkward",
    "SELECT sum(B) * 9223372036854775807 FROM awkward",
)


@pytest.fixture(scope="module")
def engines(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoEngines]:
    with two_engines(spark, tmp_path_factory.mktemp("engines")) as engines:
        yield engines


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param(statement, marks=[pytest.mark.long] if number % SHORT_FORM else [])
        for number, statement in enumerate(SAME)
    ],
)
def test_both_engines_answer_alike(engines: TwoEngines, statement: str) -> None:
    expected, found = engines.duckdb(statement), engines.spark(statement)
    assert found.columns == expected.columns
    assert found.types == expected.types
    assert [_comparable(row) for row in found.rows] == [_comparable(row) for row in expected.rows]


@pytest.mark.parametrize(("statement", "reason"), REFUSED)
def test_what_they_would_answer_differently_is_refused(
    engines: TwoEngines, statement: str, reason: str
) -> None:
    with pytest.raises(HeadraceError, match=reason or None) as raised:
        engines.spark(statement)
    assert raised.value.code == "query_failed"
    assert raised.value.remedy


@pytest.mark.parametrize("statement", REFUSED_BY_DATA)
def test_what_only_the_data_shows_is_an_error_and_no_other_answer(
    engines: TwoEngines, statement: str
) -> None:
    with pytest.raises(HeadraceError) as raised:
        engines.spark(statement)
    assert raised.value.code == "query_failed"


@pytest.mark.long
def test_letters_have_the_same_case_where_it_is_not_refused(engines: TwoEngines) -> None:
    """All of them. They come as text from UTF-8, since Spark's `chr` ends at 255."""
    for first, last in SAME_LETTERS:
        letters = [chr(number) for number in range(max(first, 1), last + 1)]
        for start in range(0, len(letters), 4000):
            text = "a".join(letters[start : start + 4000])
            statement = "SELECT upper($1::VARCHAR), lower($1::VARCHAR)"
            assert engines.spark(statement, [text]).rows == engines.duckdb(statement, [text]).rows


def test_parameters_are_values_and_never_sql(engines: TwoEngines) -> None:
    statement = "SELECT ID FROM awkward WHERE T IN (?, ?) OR N = ? OR X = ? ORDER BY ID"
    parameters = ["a'b", "back\\slash", -7, 2.5]
    assert engines.spark(statement, parameters).rows == engines.duckdb(statement, parameters).rows
    assert engines.spark("SELECT $2::VARCHAR, $1::BIGINT", [1, "'; DROP"]).rows == [("'; DROP", 1)]


def test_an_answer_with_too_many_rows_is_refused(engines: TwoEngines) -> None:
    with pytest.raises(HeadraceError, match="more than 1000 rows"):
        engines.spark("SELECT a.ID FROM awkward a, awkward b, awkward c")


def test_an_answer_can_come_through_the_driver(engines: TwoEngines, monkeypatch: pytest.MonkeyPatch) -> None:
    """As from a cluster, whose executors do not have our disk."""
    monkeypatch.setattr(running, "_LOCAL", "nowhere")
    for statement in ("SELECT * FROM awkward ORDER BY T, ID", "SELECT ID, NULL AS x FROM others WHERE false"):
        expected, found = engines.duckdb(statement), engines.spark(statement)
        assert found.types == expected.types
        assert [_comparable(row) for row in found.rows] == [_comparable(row) for row in expected.rows]
    with pytest.raises(HeadraceError, match="more than 1000 rows"):
        engines.spark("SELECT a.ID FROM awkward a, awkward b, awkward c")


def test_commands_and_files_are_not_run_whoever_asks(engines: TwoEngines, tmp_path: Path) -> None:
    """The topic is no barrier: what it says is parsed as a query."""
    for text in (
        f"INSERT OVERWRITE DIRECTORY '{tmp_path}' USING csv SELECT 1",
        "SET spark.sql.ansi.enabled=false",
    ):
        with pytest.raises(HeadraceError):
            engines.run_in_spark(text, tmp_path / "answer")
    with pytest.raises(HeadraceError):
        engines.run_in_spark("SELECT * FROM text.`/etc/passwd`", tmp_path / "answer")
    assert list(tmp_path.iterdir()) == []


def test_the_answer_says_which_version_was_read_and_that_it_is_the_lake_only(engines: TwoEngines) -> None:
    (table,) = engines.spark("SELECT count(*) FROM awkward").summary["tables"]
    assert (table["table"], table["version"], table["files"]) == ("awkward", 1, 4)
    assert (table["engine"], table["freshness"]) == ("spark", "lake")


def _comparable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Not-a-number equals itself, and 0.0 is not -0.0. Sums may differ in their last digits."""
    return tuple(_compared(value) for value in row)


def _compared(value: Any) -> Any:
    if isinstance(value, float):
        return str(value) if math.isnan(value) or value == 0 else float(f"{value:.14g}")
    return value
