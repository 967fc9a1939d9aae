"""Druid's types, and how DuckDB's types appear as such.

A kind is what the translation knows about an expression: enough to choose between integer and floating-point
arithmetic, or between the casts of a timestamp and of a text. Druid has two names for each type: the SQL
type, in INFORMATION_SCHEMA and `sqlTypesHeader`, and the runtime type, in `typesHeader`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final


class Kind(Enum):
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    BOOLEAN = "BOOLEAN"
    TIMESTAMP = "TIMESTAMP"  # without a zone: the wall clock of UTC
    INSTANT = "INSTANT"  # DuckDB's TIMESTAMP WITH TIME ZONE
    DATE = "DATE"
    ARRAY = "ARRAY"
    COMPLEX = "COMPLEX"
    INTERVAL = "INTERVAL"
    NULL = "NULL"
    UNKNOWN = "UNKNOWN"


TIMES: Final = frozenset({Kind.TIMESTAMP, Kind.INSTANT, Kind.DATE})


@dataclass(frozen=True, slots=True, kw_only=True)
class DruidType:
    """`jdbc` is the number in java.sql.Types; `precision` and `scale` are null for what is not a number."""

    sql: str
    runtime: str
    jdbc: int
    kind: Kind
    precision: int | None = None
    scale: int | None = None


VARCHAR: Final = DruidType(sql="VARCHAR", runtime="STRING", jdbc=12, kind=Kind.STRING)
BIGINT: Final = DruidType(sql="BIGINT", runtime="LONG", jdbc=-5, kind=Kind.LONG, precision=19, scale=0)
INTEGER: Final = DruidType(sql="INTEGER", runtime="LONG", jdbc=4, kind=Kind.LONG, precision=10, scale=0)
DOUBLE: Final = DruidType(sql="DOUBLE", runtime="DOUBLE", jdbc=8, kind=Kind.DOUBLE, precision=15)
FLOAT: Final = DruidType(sql="FLOAT", runtime="FLOAT", jdbc=6, kind=Kind.DOUBLE, precision=15)
BOOLEAN: Final = DruidType(sql="BOOLEAN", runtime="LONG", jdbc=16, kind=Kind.BOOLEAN)
TIMESTAMP: Final = DruidType(sql="TIMESTAMP", runtime="LONG", jdbc=93, kind=Kind.TIMESTAMP, precision=3)
INSTANT: Final = DruidType(sql="TIMESTAMP", runtime="LONG", jdbc=93, kind=Kind.INSTANT, precision=3)
DATE: Final = DruidType(sql="DATE", runtime="LONG", jdbc=91, kind=Kind.DATE, precision=0)
JSON: Final = DruidType(sql="COMPLEX<json>", runtime="COMPLEX<json>", jdbc=1111, kind=Kind.COMPLEX)
OTHER: Final = DruidType(sql="OTHER", runtime="COMPLEX", jdbc=1111, kind=Kind.COMPLEX)

_PLAIN: Final[dict[str, DruidType]] = {
    **dict.fromkeys(("VARCHAR", "UUID", "BLOB", "TIME", "BIT"), VARCHAR),
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT"), INTEGER),
    **dict.fromkeys(("BIGINT", "HUGEINT", "UINTEGER", "UBIGINT", "UHUGEINT"), BIGINT),
    "DOUBLE": DOUBLE,
    "FLOAT": FLOAT,
    "BOOLEAN": BOOLEAN,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP_S": TIMESTAMP,
    "TIMESTAMP_MS": TIMESTAMP,
    "TIMESTAMP_NS": TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": INSTANT,
    "DATE": DATE,
    "JSON": JSON,
    "NULL": VARCHAR,
    '"NULL"': VARCHAR,
    "INTERVAL": VARCHAR,
}
_DECIMAL: Final = re.compile(r"DECIMAL\(\d+,\s*\d+\)")
_FIXED_ARRAY: Final = re.compile(r"\[\d*\]$")


def druid_type(duckdb_type: str) -> DruidType:
    """How an answer's column of this DuckDB type appears. Decimals are floating point, as in Druid."""
    found = _PLAIN.get(duckdb_type)
    if found is not None:
        return found
    if _DECIMAL.fullmatch(duckdb_type):
        return DOUBLE
    if _FIXED_ARRAY.search(duckdb_type):
        element = druid_type(_FIXED_ARRAY.sub("", duckdb_type))
        return DruidType(sql="ARRAY", runtime=f"ARRAY<{element.runtime}>", jdbc=2003, kind=Kind.ARRAY)
    if duckdb_type.startswith(("STRUCT", "MAP", "UNION")):
        return JSON
    return OTHER


def column_type(duckdb_type: str) -> DruidType:
    """How a table's column appears: Druid stores integers of one size only."""
    found = druid_type(duckdb_type)
    return BIGINT if found is INTEGER else found
