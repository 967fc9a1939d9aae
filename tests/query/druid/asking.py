"""Statements of Druid SQL on a real DuckDB, through the same checks as any statement of the lake."""

from __future__ import annotations

import duckdb

from headrace.query.druid.calls import Context
from headrace.query.druid.parameters import Parameter
from headrace.query.druid.results import Wanted, written
from headrace.query.druid.tables import DruidTable
from headrace.query.druid.translating import read, translate
from headrace.query.druid.zones import zone_of
from headrace.query.permitted import check_permitted
from headrace.query.snapshots import Column

EVENTS = DruidTable(
    name="events",
    columns=tuple(
        Column(name=name, type=kind)
        for name, kind in (
            ("TYPE", "VARCHAR"), ("VIEWS", "BIGINT"), ("PRICE", "DOUBLE"), ("AT", "TIMESTAMP WITH TIME ZONE"),
            ("TAGS", "VARCHAR[]"), ("DAY", "DATE"), ("PLACE", "STRUCT(city VARCHAR, zip BIGINT)"),
            ("odd \"name\" {x}", "VARCHAR"),
        )
    ),
    time_column="AT",
)  # fmt: skip
_ROWS = """
    ('A', 1,    1.5e0, TIMESTAMPTZ '2013-08-01 08:14:37.123+00', ['x', 'y'], DATE '2013-08-01',
        {'city': 'Bonn', 'zip': 53111}, 'o'),
    ('B', 7,    2.5e0, TIMESTAMPTZ '2013-08-01 09:13:00+00',     ['z'],      DATE '2013-08-01', NULL, 'p'),
    (NULL, NULL, NULL, TIMESTAMPTZ '2014-08-01 09:13:00+00',     NULL,       NULL, NULL, NULL)
"""


def database() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(
        config={"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    )
    connection.execute("SET TimeZone = 'UTC'")
    names = ", ".join('"' + column.name.replace('"', '""') + '"' for column in EVENTS.columns)
    connection.execute(f"CREATE TABLE events AS SELECT * FROM (VALUES {_ROWS}) AS v({names})")
    return connection


def translated(statement: str, *, exact: bool = True, parameters: tuple[Parameter, ...] = ()) -> str:
    found = read(statement)
    zone = zone_of(found.settings.get("sqlTimeZone", "UTC"))
    context = Context(zone=zone, exact_distinct=exact)
    return translate(found, [EVENTS], context=context, parameters=parameters).sql


def asked(connection: duckdb.DuckDBPyConnection, statement: str, *parameters: Parameter) -> list[str]:
    """The rows as lines of JSON, as a client gets them."""
    sql = translated(statement, parameters=parameters)
    check_permitted(connection.cursor(), sql, {EVENTS.name})
    zone = zone_of(read(statement).settings.get("sqlTimeZone", "UTC"))
    connection = connection.cursor()
    described = connection.execute(f"DESCRIBE {sql}").fetchall()
    columns, kinds = [str(row[0]) for row in described], [str(row[1]) for row in described]
    # DuckDB's client needs a package that we lack for times with a zone.
    names = [f"c{number}" for number in range(len(kinds))]
    plain = ", ".join(
        f"CAST({name} AS TIMESTAMP)" if kind == "TIMESTAMP WITH TIME ZONE" else name
        for name, kind in zip(names, kinds, strict=True)
    )
    rows = connection.execute(f"SELECT {plain} FROM ({sql}) AS answer({', '.join(names)})").fetchall()
    parts = written(columns, kinds, rows, Wanted(format="arrayLines", zone=zone))
    return b"".join(parts).decode().split("\n")[:-2]
