"""Druid's INFORMATION_SCHEMA and sys, as queries over literal rows, so that any SQL can be asked of them.

Clients find tables and columns here. Invariants: columns and their types are those of Druid's documentation,
in its order; what Druid leaves null is null. In sys, the tables about segments and ingestion are empty,
because the lake has neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.query.druid.functions import FUNCTIONS
from headrace.query.druid.kinds import DATE, TIMESTAMP, DruidType, Kind
from headrace.query.druid.tables import TIME, DruidTable

CATALOGUE: Final = "druid"
INFORMATION_SCHEMA: Final = "INFORMATION_SCHEMA"
SYSTEM_SCHEMAS: Final = frozenset({"information_schema", "sys"})

Row = Sequence[str | int | None]

_TEXT: Final = "VARCHAR"
_NUMBER: Final = "BIGINT"


def _shape(texts: str, numbers: str = "") -> dict[str, str]:
    """Names of columns, in one string each; `|` takes the next name from the numbers."""
    following = iter(numbers.split())
    return {
        (next(following) if name == "|" else name): (_NUMBER if name == "|" else _TEXT)
        for name in texts.split()
    }


_SHAPES: Final[dict[str, dict[str, dict[str, str]]]] = {
    INFORMATION_SCHEMA: {
        "COLUMNS": _shape(
            "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME COLUMN_NAME | COLUMN_DEFAULT IS_NULLABLE DATA_TYPE "
            "CHARACTER_MAXIMUM_LENGTH CHARACTER_OCTET_LENGTH | | | | CHARACTER_SET_NAME COLLATION_NAME |",
            "ORDINAL_POSITION NUMERIC_PRECISION NUMERIC_PRECISION_RADIX NUMERIC_SCALE DATETIME_PRECISION "
            "JDBC_TYPE",
        ),
        "ROUTINES": _shape(
            "ROUTINE_CATALOG ROUTINE_SCHEMA ROUTINE_NAME ROUTINE_TYPE IS_AGGREGATOR SIGNATURES"
        ),
        "SCHEMATA": _shape(
            "CATALOG_NAME SCHEMA_NAME SCHEMA_OWNER DEFAULT_CHARACTER_SET_CATALOG "
            "DEFAULT_CHARACTER_SET_SCHEMA DEFAULT_CHARACTER_SET_NAME SQL_PATH"
        ),
        "TABLES": _shape("TABLE_CATALOG TABLE_SCHEMA TABLE_NAME TABLE_TYPE IS_JOINABLE IS_BROADCAST"),
    },
    "sys": {
        "segments": _shape(
            "segment_id datasource start end | version | | | | | | | | shard_spec dimensions metrics "
            "last_compaction_state |",
            "size partition_num num_replicas num_rows is_active is_published is_available is_realtime "
            "is_overshadowed replication_factor",
        ),
        "server_segments": _shape("server segment_id"),
        "servers": _shape(
            "server host | | server_type tier | | | start_time version labels",
            "plaintext_port tls_port current_size max_size is_leader",
        ),
        "supervisors": _shape(
            "supervisor_id datasource state detailed_state | type source | spec", "healthy suspended"
        ),
        "tasks": _shape(
            "task_id group_id type datasource created_time queue_insertion_time status runner_status | "
            "location host | | error_msg",
            "duration plaintext_port tls_port",
        ),
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTable:
    columns: Mapping[str, str]
    rows: Sequence[Row]

    def kinds(self) -> dict[str, Kind]:
        return {
            name.casefold(): Kind.LONG if kind == _NUMBER else Kind.STRING
            for name, kind in self.columns.items()
        }

    def sql(self) -> str:
        """A query whose rows these are."""
        names = [f"c{number}" for number in range(len(self.columns))]
        selected = ", ".join(
            f'CAST({name} AS {kind}) AS "{column}"'
            for name, (column, kind) in zip(names, self.columns.items(), strict=True)
        )
        rows = self.rows or [(None,) * len(names)]
        values = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
        nothing = "" if self.rows else " WHERE false"
        return f"SELECT {selected} FROM (VALUES {values}) AS v({', '.join(names)}){nothing}"


class Catalogue:
    """What INFORMATION_SCHEMA and sys contain, given the lake's tables. `server` is `host:port`."""

    def __init__(self, tables: Sequence[DruidTable], *, server: str = "localhost:8888") -> None:
        self._tables = tables
        self._server = server

    def names(self, schema: str) -> list[str]:
        return sorted(_shapes_of(schema))

    def table(self, schema: str, name: str) -> SystemTable | None:
        shapes = _shapes_of(schema)
        found = {each.casefold(): each for each in shapes}.get(name.casefold())
        if found is None:
            return None
        rows = {
            "COLUMNS": self._columns,
            "ROUTINES": _routines,
            "SCHEMATA": _schemata,
            "TABLES": self._list,
            "servers": self._servers,
        }.get(found)
        return SystemTable(columns=shapes[found], rows=rows() if rows is not None else ())

    def _list(self) -> list[Row]:
        own: list[Row] = [
            (CATALOGUE, "druid", table.name, "TABLE", "NO", "NO")
            for table in sorted(self._tables, key=lambda table: table.name)
        ]
        system: list[Row] = [
            (CATALOGUE, schema, name, "SYSTEM_TABLE", "NO", "NO")
            for schema, shapes in _SHAPES.items()
            for name in sorted(shapes)
        ]
        return [
            *system[: len(_SHAPES[INFORMATION_SCHEMA])],
            *own,
            *system[len(_SHAPES[INFORMATION_SCHEMA]) :],
        ]

    def _columns(self) -> list[Row]:
        rows: list[Row] = []
        for table in sorted(self._tables, key=lambda table: table.name):
            for position, (name, kind) in enumerate(table.types.items(), start=1):
                rows.append(_column("druid", table.name, position, name, kind))
        for schema, shapes in _SHAPES.items():
            for table_name, columns in sorted(shapes.items()):
                for position, (name, sql_type) in enumerate(columns.items(), start=1):
                    rows.append(_column(schema, table_name, position, name, _SYSTEM_TYPES[sql_type]))
        return rows

    def _servers(self) -> list[Row]:
        host, _, port = self._server.rpartition(":")
        return [
            (
                self._server, host.strip("[]"), int(port), -1, "broker", None, 0, 0, None, None, None, None,
            )
        ]  # fmt: skip


_SYSTEM_TYPES: Final[dict[str, DruidType]] = {
    _TEXT: DruidType(sql="VARCHAR", runtime="STRING", jdbc=12, kind=Kind.STRING),
    _NUMBER: DruidType(sql="BIGINT", runtime="LONG", jdbc=-5, kind=Kind.LONG, precision=19, scale=0),
}


def _column(schema: str, table: str, position: int, name: str, kind: DruidType) -> Row:
    number = kind.kind in (Kind.LONG, Kind.DOUBLE)
    time = kind.sql in (TIMESTAMP.sql, DATE.sql)
    text = kind.kind is Kind.STRING
    return (
        CATALOGUE, schema, table, name, position, "", "NO" if name == TIME else "YES", kind.sql, None, None,
        kind.precision if number else None, 10 if number else None, kind.scale if number else None,
        kind.precision if time else None, "UTF-16LE" if text else None,
        "UTF-16LE$en_US$primary" if text else None, kind.jdbc,
    )  # fmt: skip


def _schemata() -> list[Row]:
    schemas = sorted([*_SHAPES, "druid"])
    return [(CATALOGUE, schema, None, None, None, None, None) for schema in schemas]


def _routines() -> list[Row]:
    return [
        (
            CATALOGUE, INFORMATION_SCHEMA, function.name, "FUNCTION", "YES" if function.aggregate else "NO",
            function.syntax,
        )
        for function in sorted(FUNCTIONS.values(), key=lambda function: function.name)
    ]  # fmt: skip


def _shapes_of(schema: str) -> dict[str, dict[str, str]]:
    return {name.casefold(): shapes for name, shapes in _SHAPES.items()}.get(schema.casefold(), {})


def _literal(value: str | int | None) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"
