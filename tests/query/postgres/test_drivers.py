"""Drivers and SQLAlchemy through the door, as their users use them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import asyncpg
import pg8000.dbapi
import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy import create_engine, inspect, text

from tests.query.postgres.conftest import Door

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 600_000, tzinfo=UTC)
KINDS = {
    "id": 1,
    "small": 7,
    "whole": 7,
    "single": 1.5,
    "real": 0.1,
    "price": Decimal("12.50"),
    "flag": True,
    "name": "it's",
    "raw": b"\x00\xff",
    "day": MOMENT.date(),
    "at": MOMENT,
    "tags": ["a", "b c", None],
    "numbers": [1, 2],
    "nested": {"x": 1, "y": "z"},
}


@pytest.fixture
def connection(door: Door) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(door.conninfo, autocommit=True) as opened:
        yield opened


@pytest.mark.parametrize("binary", [False, True])
def test_every_type_comes_as_python_has_it(door: Door, binary: bool) -> None:
    with psycopg.connect(door.conninfo, row_factory=dict_row) as connection:
        cursor = connection.cursor(binary=binary)
        rows = cursor.execute("SELECT * FROM kinds ORDER BY id").fetchall()
    assert rows[0] == KINDS
    assert [rows[1][name] for name in ("small", "price", "name", "raw", "at", "numbers")] == [None] * 6
    assert rows[1]["tags"] == []
    assert rows[1]["whole"] == -8


@pytest.mark.parametrize("form", ["%s", "%b", "%t"])
@pytest.mark.parametrize(
    ("value", "name"),
    [
        (7, "whole"),
        (7, "small"),
        (12.5, "price"),
        (Decimal("12.50"), "price"),
        (0.1, "real"),
        (True, "flag"),
        ("it's", "name"),
        (b"\x00\xff", "raw"),
        (date(2026, 1, 2), "day"),
        (MOMENT, "at"),
        ([1, 2], "numbers"),
        (["a", "b c", None], "tags"),
    ],
)
def test_parameters_of_every_type(
    connection: psycopg.Connection[Any], form: str, value: object, name: str
) -> None:
    rows = connection.execute(f"SELECT id FROM kinds WHERE {name} = {form}", [value]).fetchall()
    assert rows == [(1,)]


def test_values_survive_the_way_there_and_back(connection: psycopg.Connection[Any]) -> None:
    values = [
        "a'b\\c",
        "\u00fc\U0001f600",
        -(2**62),
        Decimal("-123456.000789"),
        timedelta(days=3, hours=-4, microseconds=5),
        UUID(int=5),
        datetime(1999, 12, 31, 23, 59, 59, 999_999),
        None,
    ]
    for form in ("%s", "%b", "%t"):
        for value in values:
            for binary in (False, True):
                cast = "::uuid" if isinstance(value, UUID) else ""
                cursor = connection.cursor(binary=binary)
                assert cursor.execute(f"SELECT {form}{cast}", [value]).fetchone() == (value,)


def test_a_failed_transaction_is_refused_until_it_ends(door: Door) -> None:
    with psycopg.connect(door.conninfo) as connection:
        connection.execute("SELECT 1")
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        with pytest.raises(psycopg.errors.UndefinedColumn) as refused:
            connection.execute("SELECT 1,\n nope FROM events")
        assert refused.value.diag.statement_position == "12"
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")
        connection.rollback()
        assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO events VALUES (1)",
        "DELETE FROM events",
        "CREATE TABLE x (a int)",
        "COPY events FROM STDIN",
        "SELECT * INTO x FROM events",
        "SELECT * FROM events FOR UPDATE",
        "WITH gone AS (DELETE FROM events RETURNING *) SELECT * FROM gone",
        "ATTACH 'x.db'",
    ],
)
def test_writes_are_refused(connection: psycopg.Connection[Any], statement: str) -> None:
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        connection.execute(statement)


@pytest.mark.parametrize(
    "statement", ["SELECT * FROM '/etc/passwd'", "SELECT * FROM read_text('/etc/passwd')"]
)
def test_files_are_out_of_reach(connection: psycopg.Connection[Any], statement: str) -> None:
    with pytest.raises(psycopg.Error):
        connection.execute(statement)


def test_named_cursors_give_rows_in_parts(door: Door) -> None:
    with psycopg.connect(door.conninfo) as connection, connection.cursor(name="rows of events") as cursor:
        cursor.itersize = 3
        cursor.execute("SELECT user_id FROM events WHERE event_type <> %s ORDER BY 1", ["Click"])
        assert cursor.fetchone() == ("u0",)
        assert len(cursor.fetchmany(4)) == 4
        assert len(list(cursor)) == 5


def test_prepared_statements(connection: psycopg.Connection[Any]) -> None:
    for user in range(8):
        row = connection.execute(
            "SELECT count(*) FROM events WHERE user_id = %s", [f"u{user}"], prepare=True
        ).fetchone()
        assert row == ({0: 2, 1: 3}.get(user, 2 if user < 5 else 0),)


def test_a_text_is_never_taken_for_a_parameter(connection: psycopg.Connection[Any]) -> None:
    texts = ["$1", '"headrace parameter 1"', "' || $1 || '"]
    for text_ in texts:
        quoted = text_.replace("'", "''")
        row = connection.execute(f"SELECT '{quoted}', %s, '$2' -- $3", [text_]).fetchone()
        assert row == (text_, text_, "$2")


def test_pipelines(connection: psycopg.Connection[Any]) -> None:
    with connection.pipeline():
        cursors = [connection.execute("SELECT %s::int + 1", [number]) for number in range(20)]
        assert [cursor.fetchone() for cursor in cursors] == [(number + 1,) for number in range(20)]


def test_copy_to_the_client(connection: psycopg.Connection[Any]) -> None:
    with connection.cursor().copy("COPY (SELECT id, name FROM kinds ORDER BY id) TO STDOUT") as copy:
        assert [tuple(row) for row in copy.rows()] == [("1", "it's"), ("2", None)]


def test_integers_are_divided_as_postgresql_does(connection: psycopg.Connection[Any]) -> None:
    row = connection.execute(
        "SELECT 7 / 2, -7 / 2, 7 / 2.0, whole / 2, count(*) / 2, sum(real) / 2, (SELECT 9) / 2, %s::int / 2"
        " FROM kinds WHERE id = 1 GROUP BY whole",
        [9],
    ).fetchone()
    assert row == (3, -3, 3.5, 3, 0, 0.05, 4, 4)


def test_settings_and_what_they_show(connection: psycopg.Connection[Any]) -> None:
    assert connection.info.server_version == 160009
    assert connection.info.parameter_status("TimeZone") == "UTC"
    connection.execute("SET application_name = 'a test'")
    assert connection.info.parameter_status("application_name") == "a test"
    assert connection.execute("SHOW application_name").fetchone() == ("a test",)
    assert connection.execute("SELECT current_setting('application_name')").fetchone() == ("a test",)
    connection.execute("RESET ALL")
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        connection.execute("SET client_encoding = 'LATIN1'")
    connection.execute("SET statement_timeout = '50ms'")
    with pytest.raises(psycopg.errors.QueryCanceled):
        connection.execute("SELECT count(*) FROM range(100000000000) t(i) WHERE hash(i) = 3")


def test_version_3_2_has_a_long_key(door: Door) -> None:
    with psycopg.connect(f"{door.conninfo} max_protocol_version=3.2") as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_asyncpg(door: Door) -> None:
    async def ask() -> None:
        connection = await asyncpg.connect(
            host=door.host, port=door.port, user="tester", database="headrace", ssl=False
        )
        try:
            row = await connection.fetchrow("SELECT * FROM kinds WHERE id = $1", 1)
            assert dict(row) == KINDS | {"nested": '{"x": 1, "y": "z"}'}
            count = "SELECT count(*) FROM events WHERE user_id = ANY($1) AND event_type <> $2"
            assert await connection.fetchval(count, ["u1", "u2"], "Click") == 4
            recent = "SELECT count(*) FROM kinds WHERE at > $1 AND price < $2 AND whole / 2 = $3 LIMIT $4"
            values = (MOMENT - timedelta(days=1), Decimal(13), 3, 10)
            assert await connection.fetchval(recent, *values) == 1
            statement = await connection.prepare("SELECT user_id, count(*) FROM events GROUP BY 1")
            assert [each.type.name for each in statement.get_attributes()] == ["text", "int8"]
            async with connection.transaction():
                cursor = await connection.cursor("SELECT user_id FROM events ORDER BY 1")
                assert len(await cursor.fetch(4)) == 4
                assert len(await cursor.fetch(100)) == 7
            with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
                await connection.execute("DELETE FROM events")
        finally:
            await connection.close()

    asyncio.run(ask())


def test_pg8000(door: Door) -> None:
    connection = pg8000.dbapi.connect("tester", host=door.host, port=door.port, database="headrace")
    try:
        cursor = connection.cursor()
        cursor.execute("SELECT id, price, at, tags FROM kinds WHERE whole = %s AND name = %s", (7, "it's"))
        assert cursor.fetchall() == ([1, Decimal("12.50"), MOMENT, ["a", "b c", None]],)
    finally:
        connection.close()


@pytest.mark.parametrize("driver", ["psycopg", "pg8000"])
def test_sqlalchemy_finds_tables_and_columns(door: Door, driver: str) -> None:
    engine = create_engine(f"postgresql+{driver}://tester@{door.host}:{door.port}/headrace")
    try:
        inspector = inspect(engine)
        assert inspector.default_schema_name == "public"
        assert inspector.get_schema_names() == ["information_schema", "public"]
        assert sorted(inspector.get_table_names()) == ["events", "kinds"]
        assert inspector.get_view_names() == []
        assert inspector.has_table("events")
        assert not inspector.has_table("nope")
        columns = {column["name"]: str(column["type"]) for column in inspector.get_columns("kinds")}
        assert columns["price"] == "NUMERIC(10, 2)"
        assert columns["at"] == "TIMESTAMP"
        assert columns["tags"] == "ARRAY"
        assert list(columns) == list(KINDS)
        assert inspector.get_pk_constraint("kinds")["constrained_columns"] == []
        assert inspector.get_foreign_keys("kinds") == []
        assert inspector.get_indexes("kinds") == []
        assert inspector.get_unique_constraints("kinds") == []
        assert inspector.get_check_constraints("kinds") == []
        assert inspector.get_table_comment("kinds") == {"text": None}
        metadata = sqlalchemy.MetaData()
        metadata.reflect(engine)
        events = metadata.tables["events"]
        with engine.connect() as connection:
            chosen = (
                sqlalchemy.select(events.c.EVENT_TYPE, sqlalchemy.func.count())
                .where(events.c.SERVER_DATE >= "2026-01-02")
                .group_by(events.c.EVENT_TYPE)
                .order_by(events.c.EVENT_TYPE)
                .limit(10)
            )
            assert connection.execute(chosen).all() == [("Click", 1), ("ListingView", 5)]
            assert connection.execute(text("SELECT 1")).scalar() == 1
    finally:
        engine.dispose()
