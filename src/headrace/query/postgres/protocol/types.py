"""PostgreSQL's types as far as answers and parameters have them, and which of them a DuckDB type becomes.

A type that has no counterpart becomes text; a struct, a map or a union becomes json. Unsigned 32-bit
integers are oids: no table of the lake has unsigned columns, so only the catalogue's columns are of that
type.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

UNKNOWN_OIDS: Final = frozenset({0, 705})
# `numeric` without a precision. DuckDB's decimals have a fixed scale: this one is shown without last zeros.
NUMERIC: Final = "DECIMAL(38,18)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    """`duckdb` is what a parameter is cast to; `display` the name in SQL; `category` as in pg_type."""

    oid: int
    name: str
    display: str
    size: int
    array_oid: int
    duckdb: str
    category: str
    element: int = 0


def _type(  # noqa: PLR0917 - a row of the table below
    oid: int, name: str, display: str, size: int, array_oid: int, duckdb: str, category: str
) -> Type:
    return Type(
        oid=oid,
        name=name,
        display=display,
        size=size,
        array_oid=array_oid,
        duckdb=duckdb,
        category=category,
    )


BOOL: Final = _type(16, "bool", "boolean", 1, 1000, "BOOLEAN", "B")
BYTEA: Final = _type(17, "bytea", "bytea", -1, 1001, "BLOB", "U")
INT8: Final = _type(20, "int8", "bigint", 8, 1016, "BIGINT", "N")
INT2: Final = _type(21, "int2", "smallint", 2, 1005, "SMALLINT", "N")
INT4: Final = _type(23, "int4", "integer", 4, 1007, "INTEGER", "N")
TEXT: Final = _type(25, "text", "text", -1, 1009, "VARCHAR", "S")
OID: Final = _type(26, "oid", "oid", 4, 1028, "UINTEGER", "N")
JSON: Final = _type(114, "json", "json", -1, 199, "JSON", "U")
FLOAT4: Final = _type(700, "float4", "real", 4, 1021, "FLOAT", "N")
FLOAT8: Final = _type(701, "float8", "double precision", 8, 1022, "DOUBLE", "N")
DATE: Final = _type(1082, "date", "date", 4, 1182, "DATE", "D")
TIME: Final = _type(1083, "time", "time without time zone", 8, 1183, "TIME", "D")
TIMESTAMP: Final = _type(1114, "timestamp", "timestamp without time zone", 8, 1115, "TIMESTAMP", "D")
TIMESTAMPTZ: Final = _type(1184, "timestamptz", "timestamp with time zone", 8, 1185, "TIMESTAMPTZ", "D")
INTERVAL: Final = _type(1186, "interval", "interval", 16, 1187, "INTERVAL", "T")
NUMERIC_TYPE: Final = _type(1700, "numeric", "numeric", -1, 1231, NUMERIC, "N")
UUID: Final = _type(2950, "uuid", "uuid", 16, 2951, "UUID", "U")

_SCALARS: Final = (
    BOOL, BYTEA, INT8, INT2, INT4, TEXT, OID, JSON, FLOAT4, FLOAT8, DATE, TIME, TIMESTAMP, TIMESTAMPTZ,
    INTERVAL, NUMERIC_TYPE, UUID,
    _type(18, "char", '"char"', 1, 1002, "VARCHAR", "Z"),
    _type(19, "name", "name", 64, 1003, "VARCHAR", "S"),
    _type(24, "regproc", "regproc", 4, 1008, "VARCHAR", "N"),
    _type(1042, "bpchar", "character", -1, 1014, "VARCHAR", "S"),
    _type(1043, "varchar", "character varying", -1, 1015, "VARCHAR", "S"),
    _type(1266, "timetz", "time with time zone", 12, 1270, "TIMETZ", "D"),
    _type(2205, "regclass", "regclass", 4, 2210, "UINTEGER", "N"),
    _type(2206, "regtype", "regtype", 4, 2211, "UINTEGER", "N"),
    _type(3802, "jsonb", "jsonb", -1, 3807, "JSON", "U"),
)  # fmt: skip


def _array_of(element: Type) -> Type:
    return Type(
        oid=element.array_oid,
        name=f"_{element.name}",
        display=f"{element.display}[]",
        size=-1,
        array_oid=0,
        duckdb=f"{element.duckdb}[]",
        category="A",
        element=element.oid,
    )


ALL: Final = (*_SCALARS, *map(_array_of, _SCALARS))
BY_OID: Final = {each.oid: each for each in ALL}
BY_NAME: Final = {each.name: each for each in ALL}

_BY_DUCKDB: Final = {
    "BOOLEAN": BOOL,
    "BLOB": BYTEA,
    "TINYINT": INT2,
    "SMALLINT": INT2,
    "UTINYINT": INT2,
    "INTEGER": INT4,
    "USMALLINT": INT4,
    "BIGINT": INT8,
    "UINTEGER": OID,
    "HUGEINT": NUMERIC_TYPE,
    "UHUGEINT": NUMERIC_TYPE,
    "UBIGINT": NUMERIC_TYPE,
    "FLOAT": FLOAT4,
    "DOUBLE": FLOAT8,
    "DATE": DATE,
    "TIME": TIME,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP_S": TIMESTAMP,
    "TIMESTAMP_MS": TIMESTAMP,
    "TIMESTAMP_NS": TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": TIMESTAMPTZ,
    "TIMESTAMPTZ": TIMESTAMPTZ,
    "INTERVAL": INTERVAL,
    "UUID": UUID,
    "JSON": JSON,
    "VARCHAR": TEXT,
}
_DECIMAL: Final = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_NESTED: Final = ("STRUCT(", "MAP(", "UNION(", "ROW(")
_FIXED_ARRAY: Final = re.compile(r"\[\d+\]$")


def type_of(duckdb_type: str) -> Type:
    """PostgreSQL's type for a DuckDB type, as an answer or DESCRIBE names it."""
    known = _BY_DUCKDB.get(duckdb_type)
    if known is not None:
        return known
    if duckdb_type.endswith("]"):
        # PostgreSQL's arrays have any number of dimensions, but one type.
        element = type_of(_FIXED_ARRAY.sub("[]", duckdb_type)[:-2])
        return element if element.element else BY_OID[element.array_oid]
    if _DECIMAL.fullmatch(duckdb_type):
        return NUMERIC_TYPE
    return JSON if duckdb_type.startswith(_NESTED) else TEXT


def modifier_of(duckdb_type: str) -> int:
    """The type modifier: precision and scale of a decimal, -1 for everything else."""
    match = _DECIMAL.fullmatch(duckdb_type)
    if match is None or duckdb_type.replace(" ", "") == NUMERIC:
        return -1
    return (int(match[1]) << 16 | int(match[2])) + 4
