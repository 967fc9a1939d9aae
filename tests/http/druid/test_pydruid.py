"""pydruid, Druid's client for Python, against our door: its DB-API, and its dialect of SQLAlchemy."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from pydruid.db import connect, exceptions
from sqlalchemy import MetaData, Table, create_engine, func, inspect, select, text, types
from sqlalchemy.engine import Engine
from sqlalchemy.exc import SAWarning

# pydruid 0.6.9 works with SQLAlchemy 2.1, which warns about two of its old habits.
pytestmark = pytest.mark.filterwarnings(
    "ignore::sqlalchemy.exc.SAWarning", "ignore::sqlalchemy.exc.SADeprecationWarning"
)


@pytest.fixture
def cursor(address: str) -> Iterator[object]:
    url = urlsplit(address)
    with connect(host=url.hostname, port=url.port, path="/druid/v2/sql/", scheme="http") as opened:
        yield opened


@pytest.fixture
def engine(address: str) -> Iterator[Engine]:
    url = urlsplit(address)
    made = create_engine(f"druid://{url.hostname}:{url.port}/druid/v2/sql/")
    yield made
    made.dispose()


def test_rows_by_name(cursor) -> None:  # type: ignore[no-untyped-def]
    cursor.execute("SELECT event_type, COUNT(*) AS n FROM clicks GROUP BY event_type ORDER BY n DESC")
    rows = list(cursor)
    assert [(row.event_type, row.n) for row in rows] == [("ListingView", 2), ("Search", 1)]
    assert [column[0] for column in cursor.description] == ["event_type", "n"]


def test_parameters(cursor) -> None:  # type: ignore[no-untyped-def]
    cursor.execute("SELECT USER_ID FROM clicks WHERE EVENT_TYPE = %(type)s", {"type": "Search"})
    assert cursor.fetchone().USER_ID == "ü2"
    cursor.execute("SELECT COUNT(*) AS n FROM clicks WHERE USER_ID = %(user)s", {"user": "' OR 1=1 --"})
    assert cursor.fetchall()[0].n == 0


def test_times_by_day(cursor) -> None:  # type: ignore[no-untyped-def]
    cursor.execute("SELECT TIME_FLOOR(__time, 'P1D') AS d, SUM(VIEWS) AS s FROM clicks GROUP BY 1 ORDER BY 1")
    assert [tuple(row) for row in cursor] == [
        ("2026-01-01T00:00:00.000Z", 3),
        ("2026-01-02T00:00:00.000Z", None),
    ]


def test_an_error_names_the_place(cursor) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(
        exceptions.ProgrammingError, match=r"druidException \(INVALID_INPUT\): .*line 1, column 8"
    ):
        cursor.execute("SELECT FOO(1)")


def test_sqlalchemy_finds_tables_and_columns(engine: Engine) -> None:
    inspected = inspect(engine)
    assert inspected.get_schema_names() == ["druid", "sys"]
    assert inspected.get_table_names(schema="druid") == ["clicks"]
    assert {"clicks", "COLUMNS"} <= set(inspected.get_table_names())
    with engine.connect() as connection:
        # Not by the inspector, which passes an argument that pydruid's dialect does not take.
        assert engine.dialect.has_table(connection, "clicks")
        assert not engine.dialect.has_table(connection, "nothing")
    with pytest.warns(SAWarning, match="Failed to map column 'TAGS'"):
        columns = {column["name"]: column for column in inspected.get_columns("clicks")}
    assert [*columns] == ["__time", "EVENT_TYPE", "USER_ID", "VIEWS", "PRICE", "SERVER_TIME", "TAGS"]
    assert isinstance(columns["__time"]["type"], types.TIMESTAMP)
    assert isinstance(columns["VIEWS"]["type"], types.BigInteger)
    assert isinstance(columns["EVENT_TYPE"]["type"], types.String)
    assert isinstance(columns["PRICE"]["type"], types.Float)
    assert (columns["__time"]["nullable"], columns["VIEWS"]["nullable"]) == (False, True)


def test_a_select_through_sqlalchemy(engine: Engine) -> None:
    table = Table("clicks", MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        statement = (
            select(table.c.EVENT_TYPE, func.count().label("n"), func.sum(table.c.VIEWS).label("s"))
            .where(table.c.PRICE > 1.0)
            .group_by(table.c.EVENT_TYPE)
            .order_by(table.c.EVENT_TYPE)
            .limit(10)
        )
        assert [tuple(row) for row in connection.execute(statement)] == [
            ("ListingView", 2, 1),
            ("Search", 1, 2),
        ]
        assert connection.execute(text("SELECT 1")).scalar() == 1
