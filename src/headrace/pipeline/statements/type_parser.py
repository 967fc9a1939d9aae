"""Parses types."""

from __future__ import annotations

from typing import Final

from headrace.pipeline.statements.cursor import Cursor
from headrace.pipeline.statements.errors import StatementError, SyntaxProblemError
from headrace.pipeline.statements.position import Position
from headrace.pipeline.statements.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    TIME,
    TIMESTAMP,
    VARCHAR,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    NamedType,
    StructField,
    StructType,
)

SCALARS: Final[dict[str, DataType]] = {
    "BOOLEAN": BOOLEAN,
    "INT": INTEGER,
    "INTEGER": INTEGER,
    "BIGINT": BIGINT,
    "DOUBLE": DOUBLE,
    "VARCHAR": VARCHAR,
    "STRING": VARCHAR,
    "BYTES": BYTES,
    "DATE": DATE,
    "TIME": TIME,
    "TIMESTAMP": TIMESTAMP,
}
_LARGEST_PRECISION: Final = 38


def parse_type(cursor: Cursor) -> DataType:
    result = _plain(cursor)
    # ksqlDB also accepts the element's type first: INT ARRAY.
    while cursor.at_words("ARRAY") and not cursor.at_symbol("<", ahead=1):
        cursor.move()
        result = ArrayType(result)
    return result


def _plain(cursor: Cursor) -> DataType:
    at = cursor.at
    if (collection := _collection(cursor)) is not None:
        return collection
    if cursor.at_words("DECIMAL"):
        cursor.move()
        return _decimal(cursor, at)
    cursor.note(*SCALARS, "DECIMAL", "ARRAY", "MAP", "STRUCT")
    name = cursor.accept_name("a type")
    if name is None:
        cursor.fail()
    if name in SCALARS:
        # VARCHAR(20) is accepted, but its length is ignored, as in ksqlDB.
        if cursor.at_symbol("(") and cursor.accept_symbol("("):
            cursor.accept_word("STRING") or cursor.expect_integer("a length")
            cursor.expect_symbol(")")
        return SCALARS[name]
    return NamedType(name)


def _collection(cursor: Cursor) -> DataType | None:
    if cursor.at_symbol("<", ahead=1):
        if cursor.accept_word("ARRAY"):
            cursor.expect_symbol("<")
            element = parse_type(cursor)
            cursor.expect_symbol(">")
            return ArrayType(element)
        if cursor.accept_word("MAP"):
            cursor.expect_symbol("<")
            key = parse_type(cursor)
            cursor.expect_symbol(",")
            value = parse_type(cursor)
            cursor.expect_symbol(">")
            return MapType(key, value)
        if cursor.accept_word("STRUCT"):
            return _struct(cursor)
    if cursor.at_words("STRUCT") and cursor.at_symbol("<>", ahead=1):
        cursor.move()
        cursor.move()
        return StructType(())
    for collection in ("ARRAY", "MAP", "STRUCT"):
        if cursor.at_words(collection):
            cursor.move()
            cursor.expect_symbol("<")
    return None


def _struct(cursor: Cursor) -> StructType:
    cursor.expect_symbol("<")
    fields: list[StructField] = []
    while True:
        field_at = cursor.at
        name = cursor.expect_name("the name of a field")
        if any(field.name == name for field in fields):
            raise StatementError(f"The struct has two fields named {name}.", field_at, remedy="Rename one.")
        fields.append(StructField(name, parse_type(cursor)))
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(">")
    return StructType(tuple(fields))


def _decimal(cursor: Cursor, at: Position) -> DecimalType:
    cursor.expect_symbol("(")
    precision = cursor.expect_integer("a precision")
    cursor.expect_symbol(",")
    scale = cursor.expect_integer("a scale")
    cursor.expect_symbol(")")
    if not 1 <= precision <= _LARGEST_PRECISION or scale > precision:
        raise SyntaxProblemError(
            f"DECIMAL({precision}, {scale}) does not exist.",
            at,
            remedy=f"The precision must be 1 to {_LARGEST_PRECISION}, the scale 0 to the precision.",
        )
    return DecimalType(precision, scale)
