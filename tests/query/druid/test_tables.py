"""Which column is `__time`, and what INFORMATION_SCHEMA says, over real Delta tables."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.query.druid.calls import Context
from headrace.query.druid.schema import Catalogue
from headrace.query.druid.tables import DruidTable, druid_tables, time_column
from headrace.query.druid.translating import read, translate
from headrace.query.snapshots import Column, LakeTables
from headrace.query.sql import LakeQuery
from tests.query.delta_tables import write_with_deletion_vector
from tests.query.druid.asking import EVENTS, asked, database

INSTANT = "TIMESTAMP WITH TIME ZONE"


def columns(**kinds: str) -> list[Column]:
    return [Column(name=name, type=kind) for name, kind in kinds.items()]


@pytest.mark.parametrize(
    ("given", "chosen", "expected"),
    [
        (columns(a="VARCHAR", b="TIMESTAMP", c=INSTANT), "", "b"),
        (columns(a="VARCHAR", _POSTED_AT=INSTANT), "", "_POSTED_AT"),
        (columns(_POSTED_AT=INSTANT, c=INSTANT), "", "c"),
        (columns(a="VARCHAR", b=INSTANT), "A", "a"),
        (columns(a="VARCHAR[]", b=INSTANT), "a", "b"),
        (columns(a="VARCHAR", b=INSTANT), "gone", "b"),
        (columns(a=INSTANT, __time="TIMESTAMP"), "", "__time"),
        (columns(a="VARCHAR", b="BIGINT"), "", ""),
        (columns(a="DATE", b="BIGINT"), "a", "a"),
        (columns(a="DATE", b="BIGINT"), "b", "b"),
    ],
)
def test_the_time_column(given: list[Column], chosen: str, expected: str) -> None:
    assert time_column(given, chosen=chosen) == expected


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("VARCHAR", "'2026-01-02T03:04:05Z'", '"2026-01-02T03:04:05.000Z"'),
        ("VARCHAR", "'soon'", "null"),
        ("DATE", "DATE '2026-01-02'", '"2026-01-02T00:00:00.000Z"'),
        ("BIGINT", "1767323045000", '"2026-01-02T03:04:05.000Z"'),
        ("TIMESTAMP", "TIMESTAMP '2026-01-02 03:04:05'", '"2026-01-02T03:04:05.000Z"'),
    ],
)
def test_a_time_column_of_another_type(kind: str, value: str, expected: str) -> None:
    table = DruidTable(name="events", columns=tuple(columns(a=kind)), time_column="a")
    sql = translate(read("SELECT CAST(__time AS VARCHAR), a FROM events"), [table], context=Context()).sql
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"CREATE TABLE events AS SELECT CAST({value} AS {kind}) AS a")
    (row,) = connection.execute(sql).fetchall()
    assert (f'"{row[0].replace(" ", "T")}.000Z"' if row[0] else "null") == expected


def test_the_tables_of_a_lake(tmp_path: Path) -> None:
    times = pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", tz="UTC"))
    data = pa.table({"first": times, "chosen": times, "n": pa.array([1], pa.int32())})
    write_deltalake(tmp_path / "plain", data)
    write_deltalake(tmp_path / "with_property", data)
    properties = {"headrace.time.column": "chosen"}
    DeltaTable(tmp_path / "with_property").alter.set_table_properties(properties, raise_if_not_exists=False)
    write_with_deletion_vector(tmp_path, name="unreadable")
    found = druid_tables(list(LakeTables(tmp_path).current().values()))
    assert {table.name: table.time_column for table in found} == {"plain": "first", "with_property": "chosen"}
    assert [kind.sql for kind in found[0].types.values()] == ["TIMESTAMP", "TIMESTAMP", "TIMESTAMP", "BIGINT"]


def test_a_filter_on_time_leaves_files_out(tmp_path: Path) -> None:
    """What wraps a table must not hide its files' statistics from DuckDB."""
    for day in range(1, 11):
        times = pa.array([datetime(2026, 1, day, hour, tzinfo=UTC) for hour in range(24)] * 500)
        data = pa.table({"at": times.cast(pa.timestamp("us", tz="UTC")), "n": pa.array(range(12_000))})
        write_deltalake(tmp_path / "events", data, mode="append")
    tables = druid_tables(list(LakeTables(tmp_path).current().values()))
    query = LakeQuery(tmp_path)
    try:
        for condition in (
            "__time >= TIMESTAMP '2026-01-05 00:00:00' AND __time < '2026-01-06'",
            "TIME_IN_INTERVAL(__time, '2026-01-05/P1D')",
        ):
            statement = read(f"SELECT SUM(n), COUNT(*) FROM events WHERE {condition}")
            sql = translate(statement, tables, context=Context()).sql
            assert query.run(sql).rows == ((71_994_000, 12_000),)
            plan, *_ = query.run(f"EXPLAIN ANALYZE {sql}").rows
            # The scan gives the rows of one file: the others' statistics rule them out.
            assert "12,000 rows" in str(plan) or "12000 rows" in str(plan), plan
            assert "120,000" not in str(plan), plan
            assert "120000" not in str(plan), plan
    finally:
        query.close()


def test_the_catalogue_as_clients_ask_it() -> None:
    connection = database()
    assert asked(connection, "SELECT SCHEMA_NAME FROM INFORMATION_SCHEMA.SCHEMATA") == [
        '["INFORMATION_SCHEMA"]', '["druid"]', '["sys"]',
    ]  # fmt: skip
    assert asked(
        connection,
        "SELECT TABLE_CATALOG, TABLE_TYPE, IS_JOINABLE FROM information_schema.TABLES t "
        "WHERE t.TABLE_NAME = 'events'",
    ) == ['["druid","TABLE","NO"]']
    described = asked(
        connection,
        "SELECT COLUMN_NAME, ORDINAL_POSITION, DATA_TYPE, JDBC_TYPE, IS_NULLABLE, COLUMN_DEFAULT "
        "FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = 'events' ORDER BY ORDINAL_POSITION",
    )
    assert described == [
        '["__time",1,"TIMESTAMP",93,"NO",""]', '["TYPE",2,"VARCHAR",12,"YES",""]',
        '["VIEWS",3,"BIGINT",-5,"YES",""]', '["PRICE",4,"DOUBLE",8,"YES",""]',
        '["AT",5,"TIMESTAMP",93,"YES",""]', '["TAGS",6,"ARRAY",2003,"YES",""]',
        '["DAY",7,"DATE",91,"YES",""]', '["PLACE",8,"COMPLEX<json>",1111,"YES",""]',
        '["odd \\"name\\" {x}",9,"VARCHAR",12,"YES",""]',
    ]  # fmt: skip
    assert asked(connection, "SELECT COUNT(*) FROM sys.segments s JOIN sys.servers ON true") == ["[0]"]
    assert asked(
        connection, "SELECT IS_AGGREGATOR FROM INFORMATION_SCHEMA.ROUTINES WHERE ROUTINE_NAME = 'LATEST'"
    ) == ['["YES"]']


def test_every_system_table_can_be_read_and_is_listed() -> None:
    connection, catalogue = database(), Catalogue([EVENTS])
    listed = asked(
        connection,
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_TYPE LIKE 'SYS%'",
    )
    names = [(schema, name) for schema in ("INFORMATION_SCHEMA", "sys") for name in catalogue.names(schema)]
    assert listed == [f'["{schema}","{name}"]' for schema, name in names]
    for schema, name in names:
        asked(connection, f"SELECT * FROM {schema}.{name}")


def test_no_tables_at_all() -> None:
    sql = translate(read("SELECT COUNT(*) FROM INFORMATION_SCHEMA.TABLES"), [], context=Context()).sql
    assert duckdb.connect().execute(sql).fetchall() == [(9,)]
