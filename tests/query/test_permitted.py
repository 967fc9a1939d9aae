"""What a question may not do. Each escape is tried on both fences: our check of a statement, and DuckDB's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from headrace.core.errors import HeadraceError
from headrace.query.lake_database import LakeDatabase
from headrace.query.sql import LakeQuery
from tests.query.delta_tables import data_files, write_events

ALLOWED = [
    "SELECT 1",
    "SELECT 1;",
    "-- a comment\nSELECT 1 /* another; */ ; -- and one more;",
    "FROM events",
    "TABLE events",
    "VALUES (1), (2)",
    "(SELECT 1) UNION ALL (SELECT 2) EXCEPT SELECT 3",
    "WITH a AS (SELECT * FROM events), b AS MATERIALIZED (FROM a) SELECT * FROM a JOIN b USING (USER_ID)",
    "WITH RECURSIVE a AS (SELECT 1 i UNION ALL SELECT i + 1 FROM a WHERE i < 3) SELECT * FROM a",
    "SELECT * EXCLUDE (USER_ID), COLUMNS('.*_TYPE') FROM events AS e "
    "ORDER BY ALL DESC NULLS LAST LIMIT 5 OFFSET 0",
    "SELECT DISTINCT ON (EVENT_TYPE) * FROM events LIMIT 50%",
    "SELECT count(*) FILTER (WHERE USER_ID > '1'), string_agg(USER_ID ORDER BY USER_ID) FROM events "
    "GROUP BY GROUPING SETS ((EVENT_TYPE), ()) HAVING count(*) > 0",
    "SELECT row_number() OVER (PARTITION BY EVENT_TYPE ORDER BY USER_ID "
    "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM events QUALIFY true",
    "SELECT CAST(1 AS DECIMAL(10, 2)), TRY_CAST('x' AS INTEGER[]), "
    "NULL::STRUCT(a INT, b MAP(INT, TEXT)), 'x'::ENUM('x')",
    "SELECT list_transform([1, 2], lambda x: x + 1), {'a': 1}.a, CASE WHEN true THEN 1 END, INTERVAL 1 DAY",
    "SELECT * FROM range(3) t(i), LATERAL (SELECT i + 1), unnest([1, 2]), generate_series(1, 2)",
    "SELECT * FROM events a ASOF JOIN events b ON a.USER_ID >= b.USER_ID",
    "SELECT * FROM events TABLESAMPLE 50%",
    "FROM (PIVOT events ON EVENT_TYPE IN ('Search') USING count(*))",
    "UNPIVOT (SELECT 1 a, 2 b) ON a, b",
    "SELECT (SELECT max(USER_ID) FROM events), EXISTS (FROM events), '1' IN (SELECT USER_ID FROM events)",
    "DESCRIBE events",
    "DESCRIBE SELECT * FROM events",
    "SUMMARIZE events",
    "SHOW TABLES",
    "SHOW ALL TABLES",
    "SHOW events",
    "EXPLAIN SELECT * FROM events",
    "EXPLAIN ANALYZE SELECT * FROM events",
    "/* why */ EXPLAIN (FORMAT JSON) SELECT * FROM events",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM main.events",
    "SELECT table_name FROM duckdb_tables()",
]

# Statements that both fences must stop. {outside} is a folder outside the lake, which holds secret.csv.
ESCAPES = [
    "SELECT * FROM read_csv('{outside}/secret.csv')",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/proc/self/environ')",
    "SELECT * FROM read_json('{outside}/secret.csv')",
    "SELECT * FROM '{outside}/secret.csv'",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM sniff_csv('{outside}/secret.csv')",
    "SELECT (SELECT content FROM read_text('{outside}/secret.csv'))",
    "SELECT * FROM query('SELECT * FROM read_text(''/etc/passwd'')')",
    "SELECT * FROM query_table('{outside}/secret.csv')",
    "SELECT * FROM read_csv('{lake}/../outside/secret.csv')",
    "SELECT * FROM read_parquet('http://127.0.0.1:9/x.parquet')",
    "SELECT * FROM python_variable",
    "SELECT * FROM enable_logging('QueryLog')",
    "COPY (SELECT 1) TO '{outside}/written.csv'",
    "COPY events TO '{outside}/written.csv'",
    "WITH a AS (COPY (SELECT 1) TO '{outside}/written.csv') SELECT 1",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{outside}/written.csv'",
    "EXPORT DATABASE '{outside}/written'",
    "IMPORT DATABASE '{outside}'",
    "ATTACH '{outside}/written.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "SET threads = 64",
    "SET GLOBAL memory_limit = '100GB'",
    "RESET memory_limit",
    "PRAGMA enable_profiling = 'json'",
    "PRAGMA memory_limit = '100GB'",
    "CREATE SECRET s (TYPE http, BEARER_TOKEN 'x')",
]

# Statements that change nothing outside of the connection, so DuckDB lets them pass: our check stops them.
NOT_QUESTIONS = [
    "",
    " ; ",
    "-- nothing",
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP VIEW events",
    "CREATE TABLE t AS SELECT 1",
    "CREATE OR REPLACE TEMP VIEW events AS SELECT 1",
    "CREATE TEMP MACRO f(x) AS x",
    "INSERT INTO events VALUES (1)",
    "WITH a AS (INSERT INTO t VALUES (1) RETURNING *) SELECT * FROM a",
    "WITH a AS (DELETE FROM t RETURNING *) SELECT * FROM a",
    "UPDATE events SET USER_ID = '1'",
    "DELETE FROM events",
    "TRUNCATE events",
    "MERGE INTO events USING events AS e ON true WHEN MATCHED THEN DELETE",
    "DROP VIEW events",
    "ALTER VIEW events RENAME TO e",
    "COMMENT ON VIEW events IS 'x'",
    "BEGIN",
    "CHECKPOINT",
    "VACUUM",
    "ANALYZE",
    "USE memory",
    "CALL pragma_version()",
    "PRAGMA version",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "SET VARIABLE files_0 = ['x']",
    "EXPLAIN CREATE TABLE t AS SELECT 1",
    "EXPLAIN SET threads = 1",
    "EXPLAIN EXPLAIN SELECT 1",
    "PIVOT events ON EVENT_TYPE USING count(*)",
    "SELECT sleep_ms(1)",
    "SELECT write_log('x')",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM arrow_scan(1, 2, 3)",
    "SELECT * FROM json_execute_serialized_sql('x')",
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("permitted")
    outside = folder / "outside"
    outside.mkdir()
    (outside / "secret.csv").write_text("secret\n42\n")
    write_events(folder / "lake", [("Search", "2026-01-01", "1"), ("Message", "2026-01-01", "2")])
    return folder / "lake"


@pytest.fixture(scope="module")
def query(lake: Path) -> Iterator[LakeQuery]:
    query = LakeQuery(lake)
    yield query
    query.close()


def placed(sql: str, lake: Path) -> str:
    return sql.replace("{outside}", str(lake.parent / "outside")).replace("{lake}", str(lake))


@pytest.mark.parametrize("sql", ALLOWED)
def test_questions_are_answered(query: LakeQuery, sql: str) -> None:
    assert query.run(sql).columns != ()


@pytest.mark.parametrize("sql", ESCAPES + NOT_QUESTIONS)
def test_what_is_no_question_is_refused(lake: Path, query: LakeQuery, sql: str) -> None:
    before = {path: path.stat().st_mtime_ns for path in lake.parent.rglob("*")}
    with pytest.raises(HeadraceError) as caught:
        query.run(placed(sql, lake))
    assert caught.value.code == "query_failed"
    assert caught.value.remedy != ""
    assert {path: path.stat().st_mtime_ns for path in lake.parent.rglob("*")} == before
    assert query.run("SELECT count(*) FROM events").rows == ((2,),)


@pytest.mark.parametrize("sql", ESCAPES)
def test_duckdb_itself_would_not_let_it_pass(lake: Path, sql: str) -> None:
    python_variable = [1, 2, 3]
    assert python_variable
    database = LakeDatabase(lake, time_limit_seconds=5, memory_limit="64MB", threads=1)
    connection = database.connect([], widened=())
    before = {path: path.stat().st_mtime_ns for path in lake.parent.rglob("*")}
    with pytest.raises(duckdb.Error):
        connection.execute(placed(sql, lake)).fetchall()
    assert {path: path.stat().st_mtime_ns for path in lake.parent.rglob("*")} == before
    connection.close()
    database.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM '{file}'",
        'SELECT * FROM "{file}"',
        "SELECT * FROM read_parquet('{file}')",
        "SELECT * FROM parquet_scan(['{file}'])",
        "SELECT * FROM parquet_metadata('{file}')",
        "SELECT * FROM read_text('{log}')",
        "SELECT * FROM glob('{lake}/**')",
        "DESCRIBE '{file}'",
        "SUMMARIZE '{file}'",
        "SHOW '{file}'",
        'WITH "{file}" AS (SELECT 1) SELECT * FROM (SELECT * FROM "{file}")',
        "SELECT 1 WHERE EXISTS (FROM '{file}')",
        "COPY (SELECT 1) TO '{file}'",
        "WITH a AS (COPY (SELECT 1) TO '{file}') SELECT 1",
        "EXPLAIN ANALYZE WITH a AS (COPY (SELECT 1) TO '{file}') SELECT 1",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{file}'",
    ],
)
def test_files_of_the_lake_are_read_through_their_snapshot_only(
    lake: Path, query: LakeQuery, sql: str
) -> None:
    file = data_files(lake)[0]
    log = lake / "events" / "_delta_log" / f"{0:020d}.json"
    before = file.read_bytes()
    with pytest.raises(HeadraceError, match=r"not allowed here|not a table of the lake"):
        query.run(sql.format(file=file, log=log, lake=lake))
    assert file.read_bytes() == before


def test_a_statement_without_end_is_refused(query: LakeQuery) -> None:
    with pytest.raises(HeadraceError, match="longer than"):
        query.run("SELECT " + "1 + " * 500_000 + "1")


def test_a_deeply_nested_statement_does_no_harm(query: LakeQuery) -> None:
    with pytest.raises(HeadraceError):
        query.run("SELECT " + "(" * 50_000 + "1" + ")" * 50_000)
    assert query.run("SELECT " + "(" * 50 + "1" + ")" * 50).rows == ((1,),)
