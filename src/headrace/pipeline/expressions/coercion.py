"""Finds one type for several values, for `IN (…)`, ARRAY and MAP, by ksqlDB's rules of implicit coercion.

The first value that is not NULL decides. Numbers widen. Constants convert more freely than other expressions:
any constant converts to VARCHAR, and a text that contains a number, a boolean or a time converts to that.
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

from headrace.pipeline.expressions.casts import cast_to
from headrace.pipeline.expressions.computed import Typed
from headrace.pipeline.expressions.literals import constant, number_in
from headrace.pipeline.expressions.numbers import rank, widened
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.expression_printing import expression_text
from headrace.pipeline.statements.expressions import (
    ArrayConstructor,
    BooleanLiteral,
    DecimalLiteral,
    DoubleLiteral,
    Expression,
    IntegerLiteral,
    MapConstructor,
    NullLiteral,
    StringLiteral,
    StructConstructor,
)
from headrace.pipeline.statements.types import (
    BIGINT,
    BOOLEAN,
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
    StructField,
    StructType,
)

_CONSTANTS = (BooleanLiteral, IntegerLiteral, DecimalLiteral, DoubleLiteral, StringLiteral)
_TRUE, _FALSE = (
    tuple(word[:length] for word in words for length in range(1, len(word) + 1))
    for words in (("true", "yes"), ("false", "no"))
)


class Value(NamedTuple):
    expression: Expression
    typed: Typed


def can_widen(source: DataType, wanted: DataType) -> bool:
    """INTEGER → BIGINT → DECIMAL → DOUBLE, a DECIMAL to a larger one, and the same inside collections."""
    if source == wanted:
        return True
    match source, wanted:
        case ArrayType(one), ArrayType(other):
            return can_widen(one, other)
        case MapType(), MapType():
            return can_widen(source.key, wanted.key) and can_widen(source.value, wanted.value)
        case StructType(), StructType():
            names = [field.name for field in source.fields] == [field.name for field in wanted.fields]
            pairs = zip(source.fields, wanted.fields, strict=False)
            return names and all(can_widen(one.type, other.type) for one, other in pairs)
        case DecimalType(), DecimalType():
            return widened(source, wanted) == wanted
    before, after = rank(source), rank(wanted)
    return before is not None and after is not None and before < after


def common_type(one: DataType, other: DataType) -> DataType | None:
    """A type that can hold the values of both, or None."""
    if one == other:
        return one
    match one, other:
        case ArrayType(), ArrayType():
            element = common_type(one.element, other.element)
            return None if element is None else ArrayType(element)
        case MapType(), MapType():
            key, value = common_type(one.key, other.key), common_type(one.value, other.value)
            return None if key is None or value is None else MapType(key, value)
        case StructType(), StructType():
            return _common_struct(one, other)
    return _common_number(one, other)


def _common_number(one: DataType, other: DataType) -> DataType | None:
    if rank(one) is None or rank(other) is None:
        return None
    if DOUBLE in (one, other):
        return DOUBLE
    if isinstance(one, DecimalType) or isinstance(other, DecimalType):
        return widened(one, other)
    return BIGINT if BIGINT in (one, other) else INTEGER


def _common_struct(one: StructType, other: StructType) -> StructType | None:
    fields = []
    for field in (*one.fields, *(field for field in other.fields if one.field(field.name) is None)):
        left, right = one.field(field.name), other.field(field.name)
        data_type = common_type(left.type, right.type) if left and right else field.type
        if data_type is None:
            return None
        fields.append(StructField(field.name, data_type))
    return StructType(tuple(fields))


def common_of(values: list[Value]) -> DataType | None:
    """The type of all values; None if all are NULL. Raises StatementError if there is no such type."""
    return reduce(_joined, values, None)


def _joined(leading: DataType | None, value: Value) -> DataType | None:
    expression, (_, data_type, _) = value
    if leading is None or data_type is None:
        return data_type if leading is None else leading
    match expression, leading:
        case StringLiteral(), _ if rank(leading) is not None or leading is BOOLEAN:
            return _constant_text(expression, leading)
        case ArrayConstructor(), ArrayType():
            return _array(leading, expression, data_type)
        case MapConstructor(), MapType():
            return _map(leading, expression, data_type)
        case StructConstructor(), StructType():
            return _struct(leading, expression, data_type)
    found = common_type(leading, data_type)
    if found is None and isinstance(expression, _CONSTANTS):
        is_time = data_type is VARCHAR and leading in (DATE, TIME, TIMESTAMP)
        found = leading if is_time or leading is VARCHAR else None
    if found is None:
        raise StatementError(
            f"{expression_text(expression)} is {data_type} where {leading} is expected.",
            expression.at,
            remedy="CAST makes one type of both.",
        )
    return found


def _constant_text(expression: StringLiteral, leading: DataType) -> DataType:
    if leading is BOOLEAN:
        if expression.value.lower() in _TRUE + _FALSE:
            return BOOLEAN
    elif (held := number_in(expression.value)) is not None:
        found = common_type(leading, held)
        assert found is not None
        return found
    raise StatementError(
        f"{expression_text(expression)} is no {leading}.",
        expression.at,
        remedy="CAST makes one type of both.",
    )


def _array(leading: ArrayType, expression: ArrayConstructor, data_type: DataType) -> DataType:
    assert isinstance(data_type, ArrayType)
    inner = data_type.element
    return ArrayType(_inside(leading.element, expression.values, inner))


def _map(leading: MapType, expression: MapConstructor, data_type: DataType) -> DataType:
    assert isinstance(data_type, MapType)
    keys = tuple(key for key, _ in expression.entries)
    entries = tuple(value for _, value in expression.entries)
    return MapType(
        _inside(leading.key, keys, data_type.key), _inside(leading.value, entries, data_type.value)
    )


def _struct(leading: StructType, expression: StructConstructor, data_type: DataType) -> DataType:
    assert isinstance(data_type, StructType)
    given = dict(expression.fields)
    fields = []
    for field in leading.fields:
        own = data_type.field(field.name)
        kept = field.type if own is None else _inside(field.type, (given[field.name],), own.type)
        fields.append(StructField(field.name, kept))
    fields += [field for field in data_type.fields if leading.field(field.name) is None]
    return StructType(tuple(fields))


def _inside(leading: DataType, expressions: tuple[Expression, ...], own: DataType) -> DataType:
    """Constants inside a constructor convert as freely as others."""
    found: DataType | None = leading
    for expression in expressions:
        if isinstance(expression, NullLiteral):
            continue
        found = _joined(found, Value(expression, constant("", own, None)))
    assert found is not None
    return found


def coerced(value: Value, wanted: DataType) -> Typed:
    """Converts the value to a type that `common_of` or `can_widen` allowed."""
    if wanted is BOOLEAN and isinstance(value.expression, StringLiteral):
        is_true = value.expression.value.lower() in _TRUE
        return constant("true" if is_true else "false", BOOLEAN, is_true)
    made = cast_to(value.typed, wanted)
    if made is None:
        raise StatementError(
            f"{expression_text(value.expression)} ({value.typed.type}) cannot become {wanted}.",
            value.expression.at,
        )
    return made
