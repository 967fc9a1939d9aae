"""CAST for Spark. What the engines read or print differently is refused, or checked on the data. Pure."""

from __future__ import annotations

from typing import Any, Final

from sqlglot import exp

from headrace.query.spark.functions import guarded_cast
from headrace.query.spark.kinds import (
    Kind,
    Value,
    cast,
    differs,
    time_literal,
)

WITH_TIME: Final = (Kind.DATE, Kind.TIMESTAMP, Kind.ZONED)
_INTEGERS: Final[dict[str, str]] = {
    "BIGINT": "BIGINT",
    "INT": "INT",
    "SMALLINT": "SMALLINT",
    "TINYINT": "TINYINT",
}
_TIMES: Final[dict[str, Kind]] = {
    "DATE": Kind.DATE, "TIMESTAMP": Kind.TIMESTAMP, "TIMESTAMPNTZ": Kind.TIMESTAMP, "TIMESTAMPTZ": Kind.ZONED,
}  # fmt: skip
_WHOLE_NUMBER: Final = r"^ *[+-]?[0-9]+ *$"
_NUMBER: Final = r"^ *[+-]?[0-9]+([.][0-9]+)?([eE][+-]?[0-9]+)? *$"
_DATE: Final = r"^ *[0-9]{4}-[0-9]{1,2}-[0-9]{1,2} *$"
_TIME: Final = r"^ *[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?)? *$"
_READ: Final = "the engines read some texts differently, such as this one"


def converted(value: Value, target: Any, text: str) -> Value:
    """`text` is the expression, for messages. Raises HeadraceError."""
    if not isinstance(target, exp.DataType) or target.args.get("nested"):
        raise differs(f"`{text}`", "the type is not translated")
    named = target.this.value if hasattr(target.this, "value") else str(target.this)
    if named in _INTEGERS:
        return _to_integer(value, _INTEGERS[named], text)
    if named in _TIMES:
        return _to_time(value, _TIMES[named], text)
    match named:
        case "DOUBLE":
            return _to_double(value, text)
        case "TEXT" | "VARCHAR":
            return _to_text(value, text)
        case "DECIMAL":
            return _to_decimal(value, target, text)
        case "BOOLEAN" if value.kind in (Kind.BOOLEAN, Kind.NULL):
            return cast(value, Kind.BOOLEAN)
    raise differs(f"`{text}`", "the conversion is not translated")


def _to_integer(value: Value, spark_type: str, text: str) -> Value:
    match value.kind:
        case Kind.INTEGER | Kind.BOOLEAN | Kind.NULL:
            return Value(sql=f"CAST({value.sql} AS {spark_type})", kind=Kind.INTEGER)
        case Kind.DECIMAL:
            return Value(sql=f"CAST(round({value.sql}, 0) AS {spark_type})", kind=Kind.INTEGER)
        case Kind.DOUBLE:
            # Half to even, as DuckDB does it; Spark would cut off.
            return Value(sql=f"CAST(rint({value.sql}) AS {spark_type})", kind=Kind.INTEGER)
        case Kind.TEXT:
            return guarded_cast(value, _WHOLE_NUMBER, spark_type, Kind.INTEGER, _READ)
    raise differs(f"`{text}`", f"{value.kind.value} is not converted to an integer")


def _to_double(value: Value, text: str) -> Value:
    match value.kind:
        case Kind.INTEGER | Kind.DECIMAL | Kind.NULL | Kind.DOUBLE:
            return cast(value, Kind.DOUBLE)
        case Kind.TEXT:
            return guarded_cast(value, _NUMBER, "DOUBLE", Kind.DOUBLE, _READ)
    raise differs(f"`{text}`", f"{value.kind.value} is not converted to a floating-point number")


def _to_decimal(value: Value, target: exp.DataType, text: str) -> Value:
    sizes = [str(each.this) for each in target.expressions]
    if not all(size.isdigit() for size in sizes) or len(sizes) > 2:
        raise differs(f"`{text}`", "the type is not translated")
    precision, scale = (*sizes, "0")[:2] if sizes else ("18", "3")
    if value.kind not in (Kind.INTEGER, Kind.DECIMAL, Kind.NULL):
        raise differs(f"`{text}`", f"{value.kind.value} is rounded differently")
    return Value(sql=f"CAST({value.sql} AS DECIMAL({precision}, {scale}))", kind=Kind.DECIMAL)


def _to_text(value: Value, text: str) -> Value:
    if value.kind in (
        Kind.TEXT,
        Kind.INTEGER,
        Kind.DECIMAL,
        Kind.BOOLEAN,
        Kind.DATE,
        Kind.TIMESTAMP,
        Kind.NULL,
    ):
        return cast(value, Kind.TEXT)
    raise differs(f"`{text}`", f"the engines print {value.kind.value} differently")


def _to_time(value: Value, kind: Kind, text: str) -> Value:
    if value.kind in WITH_TIME or value.kind is Kind.NULL:
        return cast(value, kind)
    if value.kind is not Kind.TEXT:
        raise differs(f"`{text}`", f"{value.kind.value} is not converted to {kind.value}")
    if value.text is not None:
        return time_literal(value.text, kind)
    spark_type = {Kind.DATE: "DATE", Kind.TIMESTAMP: "TIMESTAMP_NTZ", Kind.ZONED: "TIMESTAMP"}[kind]
    return guarded_cast(value, _DATE if kind is Kind.DATE else _TIME, spark_type, kind, _READ)
