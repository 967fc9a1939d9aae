"""PostgreSQL's JDBC driver through the door, and what DBeaver and Metabase send with it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from headrace.java.runtime import JavaRuntime
from tests.query.postgres import dbeaver_statements, metabase_statements
from tests.query.postgres.conftest import Door
from tests.query.postgres.jdbc import Jdbc, ask, read, sql_state

_SECONDS = 60
_SLOW = "SELECT count(*) FROM range(100000000000) t(i) WHERE hash(i) = 3"
SECOND = int(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp())
# Of `kinds`: the driver's name of the type, its number in `java.sql.Types`, and the value of the first row.
KINDS = {
    "id": ("int8", -5, 1),
    "small": ("int2", 5, 7),
    "whole": ("int4", 4, 7),
    "single": ("float4", 7, 1.5),
    "real": ("float8", 8, 0.1),
    "price": ("numeric", 2, Decimal("12.50")),
    "flag": ("bool", -7, True),
    "name": ("text", 12, "it's"),
    "raw": ("bytea", -2, b"\x00\xff"),
    "day": ("date", 91, "2026-01-02"),
    "at": ("timestamptz", 93, "2026-01-02T03:04:05.600Z"),
    "tags": ("_text", 2003, ["a", "b c", None]),
    "numbers": ("_int4", 2003, [1, 2]),
    "nested": ("json", 1111, '{"x": 1, "y": "z"}'),
}


@pytest.fixture(scope="module")
def jdbc(java: JavaRuntime) -> Iterator[Jdbc]:
    running = Jdbc(java)
    try:
        yield running
    finally:
        running.close()


@pytest.fixture
def connection(door: Door, jdbc: Jdbc) -> Iterator[Any]:
    with jdbc.connection(door.host, door.port) as opened:
        yield opened


def test_metadata_of_tables_and_columns(connection: Any, jdbc: Jdbc) -> None:
    metadata = connection.getMetaData()
    assert metadata.getDatabaseProductName() == "PostgreSQL"
    assert metadata.getDatabaseMajorVersion() == 16
    assert [row[0] for row in read(metadata.getCatalogs()).rows] == ["headrace"]
    schemas = read(metadata.getSchemas()).of("TABLE_SCHEM")
    assert schemas == [("information_schema",), ("pg_catalog",), ("public",)]
    kinds = jdbc.strings("TABLE", "PARTITIONED TABLE", "VIEW", "FOREIGN TABLE", "MATERIALIZED VIEW")
    tables = read(metadata.getTables(None, None, "%", kinds))
    assert tables.of("TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE") == [
        ("public", "events", "TABLE"),
        ("public", "kinds", "TABLE"),
    ]
    columns = read(metadata.getColumns(None, "public", "kinds", None))
    described = columns.of("COLUMN_NAME", "TYPE_NAME", "DATA_TYPE", "NULLABLE", "ORDINAL_POSITION")
    assert described == [
        (name, kind, number, 1, place)
        for place, (name, (kind, number, _)) in enumerate(KINDS.items(), start=1)
    ]
    assert columns.of("COLUMN_SIZE", "DECIMAL_DIGITS")[list(KINDS).index("price")] == (10, 2)
    assert len(read(metadata.getColumns("headrace", None, None, None)).rows) == len(KINDS) + 3


def test_metadata_that_the_lake_has_none_of(connection: Any) -> None:
    metadata = connection.getMetaData()
    table = (None, "public", "kinds")
    for empty in (
        metadata.getPrimaryKeys(*table),
        metadata.getImportedKeys(*table),
        metadata.getExportedKeys(*table),
        metadata.getCrossReference(*table, None, "public", "events"),
        metadata.getIndexInfo(*table, False, False),
        metadata.getBestRowIdentifier(*table, 0, True),
        metadata.getFunctions(None, None, "%"),
        metadata.getFunctionColumns(None, None, "%", "%"),
        metadata.getProcedures(None, None, "%"),
        metadata.getProcedureColumns(None, None, "%", "%"),
        metadata.getUDTs(None, None, "%", None),
    ):
        assert read(empty).rows == []
    names = {row[0] for row in read(metadata.getTypeInfo()).of("TYPE_NAME")}
    assert {kind for kind, _, _ in KINDS.values()} <= names | {"_text", "_int4"}
    assert "select" not in metadata.getSQLKeywords()
    assert metadata.getMaxColumnNameLength() == 63
    privileges = read(metadata.getTablePrivileges(None, "public", "%"))
    assert privileges.of("TABLE_NAME", "GRANTEE", "PRIVILEGE") == [
        ("events", "PUBLIC", "SELECT"),
        ("kinds", "PUBLIC", "SELECT"),
    ]


@pytest.mark.parametrize("threshold", ["0", "-1"], ids=["text", "binary"])
def test_values_of_every_type(door: Door, jdbc: Jdbc, threshold: str) -> None:
    with jdbc.connection(door.host, door.port, prepareThreshold=threshold) as connection:
        found = ask(connection, "SELECT * FROM kinds ORDER BY id")
        assert dict(zip(found.columns, zip(found.types, found.rows[0], strict=True), strict=True)) == {
            name: (kind, value) for name, (kind, _, value) in KINDS.items()
        }
        assert found.rows[1][1] is None
        java = jdbc.jvm.java
        moment = java.time.OffsetDateTime.parse("2026-01-02T12:04:05.6+09:00")
        for name, value in {
            **{name: value for name, (_, _, value) in KINDS.items() if not isinstance(value, list)},
            "day": java.time.LocalDate.parse("2026-01-02"),
            "at": moment,
            "tags": connection.createArrayOf("text", jdbc.strings("a", "b c", None)),
        }.items():
            if name != "nested":
                assert ask(connection, f"SELECT id FROM kinds WHERE {name} = ?", value).rows == [(1,)], name
        # Java's older classes of time go without a type, which the server then finds.
        before, after = java.sql.Timestamp(moment.toEpochSecond() * 1000), java.sql.Date(2**41)
        found = ask(connection, "SELECT id FROM kinds WHERE at >= ? AND day <= ?", before, after)
        assert found.rows == [(1,)]
        noon = java.sql.Time.valueOf("12:00:00")
        assert ask(connection, "SELECT id FROM kinds WHERE at::time < ?::time", noon).rows == [(1,)]


def test_a_moment_is_the_same_in_every_time_zone(door: Door, jdbc: Jdbc) -> None:
    """The driver tells the server the zone of its own machine, and reads what comes as the server says."""
    zones = jdbc.jvm.java.util.TimeZone
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone("Asia/Tokyo"))
    try:
        for threshold in ("0", "-1"):
            with jdbc.connection(door.host, door.port, prepareThreshold=threshold) as connection:
                found = ask(connection, "SELECT at, at::timestamp, day FROM kinds WHERE id = 1")
                assert found.rows == [("2026-01-02T03:04:05.600Z", "2026-01-02 03:04:05.6", "2026-01-02")]
                # Sent with Tokyo's offset, which a timestamp without a time zone ignores.
                local = jdbc.jvm.java.sql.Timestamp.valueOf("2026-01-02 03:04:05.6")
                assert ask(
                    connection, "SELECT id FROM kinds WHERE at::timestamp = ?::timestamp", local
                ).rows == [(1,)]
                for milliseconds, rows in ((500, []), (700, [(1,)])):
                    given = jdbc.jvm.java.sql.Timestamp(SECOND * 1000 + milliseconds)
                    assert ask(connection, "SELECT id FROM kinds WHERE at < ?", given).rows == rows
    finally:
        zones.setDefault(before)


def test_a_statement_that_is_executed_often(connection: Any) -> None:
    """From the fifth time on the driver uses a prepared statement of the server."""
    statement = connection.prepareStatement("SELECT count(*) FROM events WHERE user_id = ?")
    counts = []
    for number in range(8):
        statement.setString(1, f"u{number}")
        counts.append(read(statement.executeQuery()).rows[0][0])
    assert counts == [2, 3, 2, 2, 2, 0, 0, 0]
    kinds = connection.prepareStatement(
        "SELECT 1 FROM kinds WHERE id = ? AND at > ? AND price < ? AND name = ?"
    )
    shape = kinds.getParameterMetaData()
    assert [shape.getParameterTypeName(place) for place in (1, 2, 3, 4)] == [
        "int8", "timestamptz", "numeric", "text",
    ]  # fmt: skip


def test_rows_come_in_parts_inside_a_transaction(connection: Any) -> None:
    connection.setReadOnly(True)
    connection.setAutoCommit(False)
    statement = connection.createStatement()
    statement.setFetchSize(3)
    rows = read(statement.executeQuery("SELECT user_id FROM events ORDER BY 1")).rows
    assert [row[0] for row in rows] == sorted([*[f"u{number}" for number in range(5)] * 2, "u1"])
    with pytest.raises(Py4JJavaError) as refused:
        statement.executeQuery("SELECT nope FROM events")
    assert sql_state(refused.value) == "42703"
    with pytest.raises(Py4JJavaError) as refused:
        statement.executeQuery("SELECT 1")
    assert sql_state(refused.value) == "25P02"
    connection.rollback()
    assert read(statement.executeQuery("SELECT 1")).rows == [(1,)]
    connection.commit()


def test_a_limit_of_time_and_a_cancel(door: Door, connection: Any) -> None:
    statement = connection.createStatement()
    statement.setQueryTimeout(1)
    with pytest.raises(Py4JJavaError) as refused:
        statement.executeQuery(_SLOW)
    assert sql_state(refused.value) == "57014"
    statement.setQueryTimeout(0)
    states: list[str] = []

    def run() -> None:
        try:
            statement.executeQuery(_SLOW)
        except Py4JJavaError as error:
            states.append(sql_state(error))

    asking = threading.Thread(target=run)
    asking.start()
    _wait_until(lambda: door.engine.running > 0)
    statement.cancel()
    asking.join(_SECONDS)
    assert states == ["57014"]
    _wait_until(lambda: door.engine.running == 0)
    assert read(statement.executeQuery("SELECT 1")).rows == [(1,)]


@pytest.mark.parametrize(
    ("sql", "state"),
    [
        ("SELECT * FROM nope", "42P01"),
        ("SELECT nope FROM events", "42703"),
        ("SELECT FROM WHERE", "42601"),
        ("SELECT 'x'::integer", "22P02"),
        ("DELETE FROM events", "25006"),
        ("CREATE TABLE x (a int)", "25006"),
    ],
)
def test_errors_have_their_states(connection: Any, sql: str, state: str) -> None:
    with pytest.raises(Py4JJavaError) as refused:
        connection.createStatement().execute(sql)
    assert sql_state(refused.value) == state


def test_a_batch_that_writes_is_refused(connection: Any) -> None:
    statement = connection.prepareStatement("INSERT INTO events VALUES (?)")
    for value in ("a", "b"):
        statement.setString(1, value)
        statement.addBatch()
    with pytest.raises(Py4JJavaError) as refused:
        statement.executeBatch()
    assert sql_state(refused.value) == "25006"
    assert ask(connection, "SELECT count(*) FROM events").rows == [(11,)]


def test_a_connection_pool_keeps_its_connections(connection: Any) -> None:
    assert connection.isValid(5)
    assert (connection.getSchema(), connection.getCatalog()) == ("public", "headrace")
    for level in (1, 4, 2):
        connection.setTransactionIsolation(level)
    connection.setSchema("public")
    connection.setClientInfo("ApplicationName", "a pool")
    assert ask(connection, "SELECT current_setting('application_name')").rows == [("a pool",)]


# Metabase.


def test_metabase_finds_all_tables_and_columns(connection: Any) -> None:
    for statement in metabase_statements.CONNECTING:
        connection.createStatement().execute(statement)
    privileges = ask(connection, metabase_statements.PRIVILEGES)
    assert privileges.of("schema", "table", "select", "update", "delete") == [
        ("public", "events", True, False, False),
        ("public", "kinds", True, False, False),
    ]
    tables = ask(connection, metabase_statements.TABLES, "public")
    assert tables.of("name", "type", "description") == [("events", "TABLE", None), ("kinds", "TABLE", None)]
    fields = ask(connection, metabase_statements.FIELDS, "public", "kinds")
    assert fields.of("name", "database-type", "database-position", "pk?", "database-required") == [
        (name, kind, place, False, False) for place, (name, (kind, _, _)) in enumerate(KINDS.items())
    ]
    for statement in metabase_statements.EMPTY:
        assert ask(connection, statement).rows == []
    assert ask(connection, metabase_statements.SAMPLE).rows == [
        (1, "it's", "2026-01-02T03:04:05.600Z", '{"x": 1, "y": "z"}'),
        (2, None, None, None),
    ]


@pytest.mark.parametrize("number", range(len(metabase_statements.QUESTIONS)))
def test_first_questions_in_metabase(connection: Any, jdbc: Jdbc, number: int) -> None:
    question, given, expected = metabase_statements.QUESTIONS[number]
    moment = jdbc.jvm.java.time.OffsetDateTime.parse
    values = [moment(value) if value.startswith("2026-") else value for value in given]
    assert ask(connection, question, *values).rows[0] == expected


# DBeaver.


def test_dbeaver_opens_the_tree_of_the_database(connection: Any) -> None:
    for statement in dbeaver_statements.CONNECTING:
        connection.createStatement().execute(statement)
    assert ask(connection, dbeaver_statements.DATABASES, "headrace").of("datname") == [("headrace",)]
    schemas = dict(ask(connection, dbeaver_statements.SCHEMAS).of("nspname", "oid"))
    assert set(schemas) == {"information_schema", "pg_catalog", "public"}
    types = dict(ask(connection, dbeaver_statements.TYPES).of("oid", "typname"))
    tables = dict(ask(connection, dbeaver_statements.TABLES, schemas["public"]).of("relname", "oid"))
    assert set(tables) == {"events", "kinds"}
    columns = ask(connection, dbeaver_statements.COLUMNS, tables["kinds"])
    assert [(name, types[oid]) for name, oid in columns.of("attname", "atttypid")] == [
        (name, kind) for name, (kind, _, _) in KINDS.items()
    ]
    for statement in dbeaver_statements.EMPTY_OF_A_TABLE:
        assert ask(connection, statement, tables["kinds"]).rows == []
    found = ask(connection, dbeaver_statements.SEARCH, "%KIN%", schemas["public"])
    assert found.of("relname") == [("kinds",)]


@pytest.mark.parametrize(("statement", "count"), dbeaver_statements.OTHERS)
def test_dbeaver_reads_what_else_there_is(connection: Any, statement: str, count: int) -> None:
    assert len(ask(connection, statement).rows) == count


def test_dbeaver_shows_a_table(connection: Any) -> None:
    """With the position of each column in its table, which the editor of rows looks for."""
    connection.setAutoCommit(False)
    statement = connection.createStatement()
    statement.setFetchSize(200)
    statement.setMaxRows(1)
    results = statement.executeQuery("SELECT x.* FROM public.kinds x ORDER BY id")
    shape = results.getMetaData()
    assert [shape.getColumnClassName(place) for place in (1, 6, 11)] == [
        "java.lang.Long", "java.math.BigDecimal", "java.sql.Timestamp",
    ]  # fmt: skip
    # An answer does not say from which table a column is, so nothing offers to edit it.
    assert shape.getTableName(1) == ""
    assert len(read(results).rows) == 1


def _wait_until(condition: Any) -> None:
    deadline = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
