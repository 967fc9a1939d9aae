"""Kinds of values, as far as DuckDB and Spark treat them alike, and SQL of Spark with the kind of its value.

Invariants: an operation on kinds that the two engines treat differently is refused (`differs`), never
guessed; texts are quoted here and nowhere else. Pure.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.core.errors import HeadraceError


class Kind(enum.Enum):
    """What a value is. OTHER is selected, counted and compared with NULL, and nothing else."""

    NULL = "NULL"
    BOOLEAN = "a truth value"
    INTEGER = "an integer"
    DECIMAL = "a decimal"
    DOUBLE = "a floating-point number"
    TEXT = "a text"
    DATE = "a date"
    TIMESTAMP = "a time without a zone"
    ZONED = "a time with a zone"
    INTERVAL = "an interval"
    OTHER = "of a type that is not compared here"


NUMBERS: Final = (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE)
TIMES: Final = (Kind.DATE, Kind.TIMESTAMP, Kind.ZONED)
# What both engines sort, group and compare alike.
ORDERED: Final = frozenset({Kind.NULL, Kind.BOOLEAN, *NUMBERS, Kind.TEXT, *TIMES})

_KINDS: Final[dict[str, Kind]] = {
    '"NULL"': Kind.NULL,
    "BIGINT": Kind.INTEGER,
    "BOOLEAN": Kind.BOOLEAN,
    "DATE": Kind.DATE,
    "DOUBLE": Kind.DOUBLE,
    "HUGEINT": Kind.INTEGER,
    "INTEGER": Kind.INTEGER,
    "INTERVAL": Kind.INTERVAL,
    "SMALLINT": Kind.INTEGER,
    "TIMESTAMP": Kind.TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": Kind.ZONED,
    "TINYINT": Kind.INTEGER,
    "VARCHAR": Kind.TEXT,
}
_SPARK_TYPES: Final[dict[Kind, str]] = {
    Kind.BOOLEAN: "BOOLEAN",
    Kind.DATE: "DATE",
    Kind.DOUBLE: "DOUBLE",
    Kind.TEXT: "STRING",
    Kind.TIMESTAMP: "TIMESTAMP_NTZ",
    Kind.ZONED: "TIMESTAMP",
}
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """An expression of Spark's SQL. `text` and `number` are those of a literal."""

    sql: str
    kind: Kind
    text: str | None = None
    number: int | None = None


def differs(what: str, reason: str) -> HeadraceError:
    """The statement is fine for DuckDB, but Spark would answer something else, or not at all."""
    return HeadraceError(
        "query_failed",
        f"This statement cannot be sent to Spark: {what}: {reason}.",
        remedy="Write it differently, or leave `engine` out: then DuckDB answers.",
    )


def kind_of(duckdb_type: str) -> Kind:
    if duckdb_type.startswith("DECIMAL("):
        return Kind.DECIMAL
    return _KINDS.get(duckdb_type, Kind.OTHER)


def text_literal(text: str) -> str:
    """Spark reads backslashes in texts as escapes."""
    if "\0" in text:
        raise differs("a text", "it contains a null character")
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def name(identifier: str) -> str:
    return "`" + identifier.replace("`", "``") + "`"


def cast(value: Value, kind: Kind) -> Value:
    """To a kind that loses nothing. The same value if it is of that kind."""
    if value.kind is kind:
        return value
    return Value(sql=f"CAST({value.sql} AS {_SPARK_TYPES[kind]})", kind=kind)


def unified(values: Sequence[Value], what: str) -> tuple[list[Value], Kind]:
    """Values that are compared with each other, or of which one is the result: all of one kind."""
    kinds = {value.kind for value in values} - {Kind.NULL}
    if not kinds:
        return list(values), Kind.NULL
    if len(kinds) == 1:
        return list(values), next(iter(kinds))
    if kinds <= set(NUMBERS):
        if Kind.DOUBLE in kinds:
            return [_number_as_double(value) for value in values], Kind.DOUBLE
        return list(values), Kind.DECIMAL
    times = kinds - {Kind.TEXT}
    if len(times) == 1 and times <= set(TIMES):
        (kind,) = times
        return [_text_as_time(value, kind, what) for value in values], kind
    if kinds <= set(TIMES):
        kind = Kind.ZONED if Kind.ZONED in kinds else Kind.TIMESTAMP
        return [value if value.kind is Kind.NULL else cast(value, kind) for value in values], kind
    listed = " and ".join(sorted(kind.value for kind in kinds))
    raise differs(what, f"the engines convert {listed} differently; use CAST")


def compared(values: Sequence[Value], what: str) -> list[Value]:
    """As `unified`, for a comparison. Raises HeadraceError if the engines do not compare such values."""
    same, kind = unified(values, what)
    if kind not in ORDERED:
        raise differs(what, f"it compares values of which one is {kind.value}")
    if kind is not Kind.DOUBLE:
        return same
    # Parquet's filters take -0.0 and 0.0 for different numbers; a sum is not filtered there, nor ever -0.0.
    return [
        value if value.kind is Kind.NULL else Value(sql=f"({value.sql} + 0D)", kind=Kind.DOUBLE)
        for value in same
    ]


def _number_as_double(value: Value) -> Value:
    return value if value.kind is Kind.NULL else cast(value, Kind.DOUBLE)


def _text_as_time(value: Value, kind: Kind, what: str) -> Value:
    """A literal in a comparison with a date or time becomes one, if there are no two ways to read it."""
    if value.kind is not Kind.TEXT:
        return value
    if value.text is None:
        raise differs(what, "the engines convert texts to times differently; use CAST")
    return time_literal(value.text, kind)


def time_literal(text: str, kind: Kind) -> Value:
    stripped = text.strip()
    if _DATE.fullmatch(stripped) or (kind is not Kind.DATE and _TIME.fullmatch(stripped)):
        return Value(sql=f"{_SPARK_TYPES[kind]} '{stripped}'", kind=kind)
    form = "2026-01-31" if kind is Kind.DATE else "2026-01-31 12:00:00"
    raise differs(f"'{text[:50]}'", f"the engines read {kind.value} alike in the form {form} only")
