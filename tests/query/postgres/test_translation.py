"""Statements of PostgreSQL and what they mean to DuckDB: values, refusals, the types of parameters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import duckdb
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.query.postgres.catalogue.columns import RELATIONS
from headrace.query.postgres.catalogue.relations import Catalogue
from headrace.query.postgres.command_reading import command_of
from headrace.query.postgres.lexer import statements
from headrace.query.postgres.protocol import types
from headrace.query.postgres.protocol.decoding import quoted
from headrace.query.postgres.protocol.errors import PostgresError
from headrace.query.postgres.translation import Session, Translation, translate, with_parameters
from headrace.query.snapshots import Column

COLUMNS = {"A": "INTEGER", "B": "BIGINT", "T": "TIMESTAMP WITH TIME ZONE", "N": "VARCHAR", "R": "DOUBLE"}
CATALOGUE = Catalogue(
    tables={"events": [Column(name=name, type=kind) for name, kind in COLUMNS.items()]},
    settings={"server_version": "16.9"},
)
SESSION = Session(user="tester", process=7, version="PostgreSQL 16.9")
MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

_CATALOGS = """
    aggregate am amop amproc attrdef attribute auth_members authid cast class collation constraint
    conversion database db_role_setting default_acl depend description enum event_trigger extension
    foreign_data_wrapper foreign_server foreign_table index inherits init_privs language largeobject
    largeobject_metadata namespace opclass operator opfamily parameter_acl partitioned_table policy proc
    publication publication_namespace publication_rel range replication_origin rewrite seclabel sequence
    shdepend shdescription shseclabel statistic statistic_ext statistic_ext_data subscription
    subscription_rel tablespace transform trigger ts_config ts_config_map ts_dict ts_parser ts_template
    type user_mapping available_extension_versions available_extensions backend_memory_contexts config
    cursors file_settings group hba_file_rules ident_file_mappings indexes locks matviews policies
    prepared_statements prepared_xacts publication_tables replication_origin_status replication_slots
    roles rules seclabels sequences settings shadow shmem_allocations stats stats_ext stats_ext_exprs
    tables timezone_abbrevs timezone_names user user_mappings views stat_activity stat_archiver
    stat_bgwriter stat_database stat_database_conflicts stat_gssapi stat_io stat_progress_analyze
    stat_progress_basebackup stat_progress_cluster stat_progress_copy stat_progress_create_index
    stat_progress_vacuum stat_replication stat_replication_slots stat_slru stat_ssl stat_subscription
    stat_subscription_stats stat_user_functions stat_wal stat_wal_receiver stat_recovery_prefetch
    stat_xact_user_functions
"""
_DOCUMENTS = st.recursive(
    st.text("a/~1", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text("a/~1'", max_size=3), inner, max_size=2)
    ),
    max_leaves=5,
)


def translated(sql: str, declared: tuple[int, ...] = ()) -> Translation:
    return translate(statements(sql)[0], CATALOGUE, SESSION, declared)


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        connection.execute(f"CREATE TABLE events ({columns})")
        connection.execute("INSERT INTO events VALUES (7, 2, '2026-01-02 03:04:05+00', 'x_y', 2.5)")
        yield connection


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("a / b", "3"),
        ("-a / 2", "-3"),
        ("a / 2.0", "3.5"),
        ("a / r", "2.8"),
        ("(a + b) / 2", "4"),
        ("unknown.v / 2", "3.0"),
        ("aliased.v / 2", "3"),
        ("(date '2026-01-09' - date '2026-01-01') / 3", "2"),
        ("a::float8 / 2", "3.5"),
        (r"n LIKE 'x\_y'", "true"),
        (r"n LIKE 'x\y'", "false"),
        (r"'xay' LIKE 'x\_y'", "false"),
        ("'xay' LIKE 'x_y'", "true"),
        ("n::varchar(2)", "x_"),
        ("'{1,NULL,3}'::int[]", "[1, NULL, 3]"),
        ("n = ANY('{x_y,z}')", "true"),
        (r"'\x00ff'::bytea = from_hex('00ff')", "true"),
        ("to_char(t, 'YYYY-MM-DD\"T\"HH24:MI:SS')", "2026-01-02T03:04:05"),
        ("n ~ '^x' AND n !~* 'Z' AND n OPERATOR(pg_catalog.~) 'y$' COLLATE \"default\"", "true"),
        ("current_schema() || current_database() || current_user", "publicheadracetester"),
        ("current_setting('server_version')", "16.9"),
        ("pg_catalog.format_type(1700, 655366)", "numeric(10,2)"),
        ("'public.events'::regclass::oid = (SELECT oid FROM pg_class WHERE relname = 'events')", "true"),
        ("'events'::regclass::oid::regclass::text", "events"),
        ("(SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute)", "A,B,T,N,R"),
        ("(SELECT count(*) FROM information_schema.columns c WHERE c.table_name = 'events')", "5"),
        ("array_upper(ARRAY[5, 6], 1)", "2"),
        ("E'a\\nb' || $$c'd$$", "a\nbc'd"),
        ("substring(n FROM '[a-z]_')", "x_"),
        ("substring(n FROM '_(.)')", "y"),
        ("substring(n FROM '(?:x)_')", "x_"),
        ("substring(n FROM 'q') IS NULL", "true"),
        ("substring(n FROM 3)", "y"),
        ("'2026-01-02 03:04:05.6+09'::timestamp", "2026-01-02 03:04:05.6"),
        ("timestamp '2026-01-02T03:04:05Z'", "2026-01-02 03:04:05"),
        ("time '01:00+02'", "01:00:00"),
        ("t::time", "03:04:05"),
        ("date '2026-01-02 23:00:00-09' || ('2026-01-02 +00'::date - 1)::text", "2026-01-022026-01-01"),
        ("(timestamptz '2026-01-02 03:04:05+09')::text", "2026-01-01 18:04:05+00"),
        ("""'{"a":[1,{"b":"c"}]}'::json #>> '{a,1,b}'""", "c"),
        ("""'{"a":[1,{"b":"c"}]}'::jsonb #> ARRAY['a','1']""", '{"b":"c"}'),
        ("jsonb_typeof('[1]') || json_typeof('2.5') || json_typeof('null')", "arraynumbernull"),
        ("json_array_length('[1, 2]') + cardinality(ARRAY[7])", "3"),
        ("(SELECT string_agg(k, '+') FROM (SELECT json_object_keys('{\"x\":1,\"y\":2}') AS k))", "x+y"),
    ],
)
def test_values(database: duckdb.DuckDBPyConnection, expression: str, value: str) -> None:
    sources = "events, (SELECT a AS v FROM events) aliased, (SELECT 6 AS other) unknown(v)"
    if "unknown" in expression or "aliased" in expression:
        statement = f"SELECT {expression} FROM {sources}"
        if "unknown" in expression:
            statement = f"SELECT {expression} FROM (SELECT 6 AS other) unknown(v)"
    else:
        statement = f"SELECT {expression} FROM events"
    sql = translated(statement).sql
    row = database.execute(sql).fetchone()
    assert row is not None
    shown = database.execute("SELECT $1::VARCHAR", row).fetchone()
    assert shown == (value,)


def test_nulls_are_sorted_as_postgresql_sorts_them(database: duckdb.DuckDBPyConnection) -> None:
    values = "(VALUES (1), (NULL), (2)) AS given(v)"
    for direction, expected in (("", [1, 2, None]), ("DESC", [None, 2, 1])):
        sql = translated(f"SELECT v FROM {values} ORDER BY v {direction}").sql
        assert [row[0] for row in database.execute(sql).fetchall()] == expected


@pytest.mark.parametrize(
    ("statement", "state"),
    [
        ("SELECT * FROM nope.events", "42P01"),
        ("SELECT * FROM pg_catalog.pg_nope", "42P01"),
        ("SELECT 'nope'::regclass", "42P01"),
        ("SELECT 'x'::nope", "42704"),
        ("SELECT current_setting('nope')", "42704"),
        ("SELECT to_char(t, 'Day') FROM events", "0A000"),
        ("SELECT to_char(t, n) FROM events", "0A000"),
        ("SELECT n SIMILAR TO 'x' FROM events", "0A000"),
        ("SELECT B'101'", "0A000"),
        ("SELECT U&'x'", "0A000"),
        ("SELECT * INTO x FROM events", "25006"),
        ("SELECT $0", "42P02"),
        ("FROM events SELECT EXCLUDE $1 (", "42601"),
    ],
)
def test_refusals(statement: str, state: str) -> None:
    with pytest.raises(PostgresError) as refused:
        translated(statement)
    assert refused.value.state == state


def test_what_means_the_same_goes_on_unchanged() -> None:
    for statement in ("select a,  count(*) from events group by all", "SUMMARIZE events"):
        assert translated(statement).sql == statement
        assert translated(statement).unchanged
    guessed = translated("PIVOT events ON a USING sum(b)")
    assert guessed.guessed


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a = $1", types.INT4),
        ("$1 < b", types.INT8),
        ("t BETWEEN $1 AND now()", types.TIMESTAMPTZ),
        ("n IN ('x', $1)", types.TEXT),
        ("n LIKE $1", types.TEXT),
        ("a = ANY($1)", types.BY_NAME["_int4"]),
        ("b + $1 > 5", types.INT8),
        ("t > now() - $1", types.INTERVAL),
        ("r > $1::int", types.INT4),
        ("substring(n FROM $1) = 'x'", types.TEXT),
        ("substring(n, $1, 2) = 'x'", types.INT4),
    ],
)
def test_types_of_parameters(condition: str, expected: types.Type) -> None:
    assert translated(f"SELECT 1 FROM events WHERE {condition}").types == (expected.oid,)


def test_declared_types_are_kept_and_literals_stay_literals(database: duckdb.DuckDBPyConnection) -> None:
    statement = translated("SELECT n FROM events WHERE n = $2 AND a = $1", (types.INT8.oid,))
    assert statement.types == (types.INT8.oid, types.TEXT.oid)
    for text, rows in (("x_y", [("x_y",)]), ("' OR 1=1 --", [])):
        literals = ["7", "'" + text.replace("'", "''") + "'"]
        assert database.execute(with_parameters(statement.sql, literals)).fetchall() == rows


@given(document=_DOCUMENTS, path=st.lists(st.text("a/~1'\"{,\\\\ ", max_size=3), max_size=3))
@example(document={"a/b": {"~1": "deep"}}, path=["a/b", "~1"])
@example(document={"a": ["x", "y"]}, path=["a", "1"])
@example(document={"1": "key"}, path=["1"])
def test_a_path_in_json_takes_each_step_as_it_is(
    database: duckdb.DuckDBPyConnection, document: object, path: list[str]
) -> None:
    found = document
    for step in path:
        if isinstance(found, dict):
            found = found.get(step)
        else:
            is_place = isinstance(found, list) and step in map(str, range(len(found)))
            found = found[int(step)] if isinstance(found, list) and is_place else None
    statement = translated("SELECT $1::json #>> $2::text[]", (types.JSON.oid, types.BY_NAME["_text"].oid))
    steps = ", ".join(map(quoted, path))
    literals = [f"CAST({quoted(json.dumps(document))} AS JSON)", f"CAST([{steps}] AS VARCHAR[])"]
    row = database.execute(with_parameters(statement.sql, literals)).fetchone()
    assert row is not None
    assert row[0] == found if isinstance(found, str | None) else json.loads(row[0]) == found


@pytest.mark.parametrize("word", ["select", "table", "update", "not", "from", "user", "order"])
def test_every_word_names_a_column_behind_as_and_a_table(
    database: duckdb.DuckDBPyConnection, word: str
) -> None:
    statement = (
        f"WITH p AS (SELECT n AS {word} FROM events) SELECT p.*, p.{word} FROM p WHERE p.{word} = 'x_y'"
    )
    found = database.execute(translated(statement).sql)
    assert [column[0] for column in found.description] == [word, word]
    assert found.fetchall() == [("x_y", "x_y")]


def test_names_of_columns() -> None:
    statement = "SELECT count(*), 1, sum(a) AS s, n, a::text, lower(n), CASE WHEN true THEN 1 END FROM events"
    assert translated(statement).names == ("count", "?column?", None, None, "a", "lower", "case")
    others = (
        "SELECT stddev_pop(a), bool_or(a > 1), lag(a) OVER (ORDER BY b), t AT TIME ZONE 'UTC', concat(n, n)"
    )
    assert translated(f"{others} FROM events").names == ("stddev_pop", "bool_or", "lag", "timezone", "concat")


def test_the_catalogue_has_every_relation_of_postgresql() -> None:
    catalogs = _CATALOGS.split()
    of_tables = [
        f"{kind}_{whose}_{what}"
        for kind, objects in (
            ("stat", ("tables", "indexes")),
            ("stat_xact", ("tables",)),
            ("statio", ("tables", "indexes", "sequences")),
        )
        for what in objects
        for whose in ("all", "sys", "user")
    ]
    assert {("pg_catalog", f"pg_{name}") for name in (*catalogs, *of_tables)} <= RELATIONS.keys()


@pytest.mark.parametrize(("schema", "relation"), sorted(RELATIONS))
def test_every_relation_of_the_catalogue_can_be_read(
    database: duckdb.DuckDBPyConnection, schema: str, relation: str
) -> None:
    database.execute(translated(f"SELECT * FROM {schema}.{relation}").sql).fetchall()


def test_oids_of_tables_stay_when_others_come() -> None:
    more = Catalogue(tables={"another": [], **CATALOGUE.tables}, settings={})
    assert more.oids["events"] == CATALOGUE.oids["events"]
    assert len(set(more.oids.values())) == 2


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("SELECT ';'; SELECT $$;$$ ; ", 2),
        ("SELECT E'\\';' -- ;\n; /* ; /* ; */ */ SELECT \";\"", 2),
        (" ; ;; ", 0),
        ("SELECT $a$ ; $$ ; $a$", 1),
    ],
)
def test_statements_are_separated(text: str, count: int) -> None:
    assert len(statements(text)) == count


@pytest.mark.parametrize("text", ["SELECT 'x", 'SELECT "x', "SELECT $$x", "/* x", "SELECT E'x\\'"])
def test_unfinished_texts_are_syntax_errors(text: str) -> None:
    with pytest.raises(PostgresError) as refused:
        statements(text)
    assert refused.value.state == "42601"


@pytest.mark.parametrize(
    "text",
    ["BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY", "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
     "SET TIME ZONE 'UTC'", "SET a.b = 1, 2", "RESET ALL", "DISCARD ALL", "DEALLOCATE ALL", "CLOSE ALL",
     "ROLLBACK TO SAVEPOINT x", "RELEASE x", "UNLISTEN *", "FETCH FORWARD ALL FROM \"a b\"", "MOVE 3 IN c",
     "DECLARE c INSENSITIVE NO SCROLL CURSOR WITHOUT HOLD FOR SELECT 1",
     "EXPLAIN (ANALYZE, VERBOSE) SELECT 1", "SHOW TRANSACTION ISOLATION LEVEL",
     "COPY events (a, b) TO STDOUT (FORMAT csv, HEADER true, DELIMITER ';')"],
)  # fmt: skip
def test_commands_of_sessions_are_understood(text: str) -> None:
    command_of(statements(text)[0])
