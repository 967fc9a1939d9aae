"""Compiles ARRAY[…], MAP(…) and STRUCT(…). `coercion.py` finds the type of elements, keys and values."""

from __future__ import annotations

from headrace.pipeline.expressions.calls import Compile
from headrace.pipeline.expressions.casts import map_of
from headrace.pipeline.expressions.coercion import Value, coerced, common_of
from headrace.pipeline.expressions.computed import Typed
from headrace.pipeline.expressions.literals import text
from headrace.pipeline.expressions.scope import Scope
from headrace.pipeline.expressions.value_casts import map_of as map_value
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.expression_printing import name as written
from headrace.pipeline.statements.expressions import (
    ArrayConstructor,
    IntegerLiteral,
    MapConstructor,
    StringLiteral,
    StructConstructor,
)
from headrace.pipeline.statements.types import ArrayType, MapType, StructField, StructType

_TYPED_NULL = "CAST one of them to a type."


def array(node: ArrayConstructor, scope: Scope, compile_value: Compile) -> Typed:
    if not node.values:
        raise StatementError("ARRAY[] has no type.", node.at, remedy="Name at least one element.")
    values = [Value(each, compile_value(each, scope)) for each in node.values]
    element = common_of(values)
    if element is None:
        raise StatementError("All elements of the ARRAY are NULL.", node.at, remedy=_TYPED_NULL)
    elements = [coerced(value, element) for value in values]
    spark = ", ".join(each.spark for each in elements)
    parts = [each.python for each in elements]
    return Typed(f"array({spark})", ArrayType(element), lambda row: [part(row) for part in parts])


def map_(node: MapConstructor, scope: Scope, compile_value: Compile) -> Typed:
    if not node.entries:
        raise StatementError("MAP() has no type.", node.at, remedy="Name at least one entry.")
    keys = [Value(key, compile_value(key, scope)) for key, _ in node.entries]
    entries = [Value(value, compile_value(value, scope)) for _, value in node.entries]
    key_type, value_type = common_of(keys), common_of(entries)
    if key_type is None or value_type is None:
        which = "keys" if key_type is None else "values"
        raise StatementError(f"All {which} of the MAP are NULL.", node.at, remedy=_TYPED_NULL)
    pairs = [
        (coerced(key, key_type), coerced(value, value_type)) for key, value in zip(keys, entries, strict=True)
    ]
    are_constants = all(isinstance(key.expression, StringLiteral | IntegerLiteral) for key in keys)
    if are_constants and len({key.spark for key, _ in pairs}) == len(pairs):
        spark = f"map({', '.join(part.spark for pair in pairs for part in pair)})"
    else:
        structs = (f"named_struct('k', {key.spark}, 'v', {value.spark})" for key, value in pairs)
        spark = map_of(f"array({', '.join(structs)})")
    parts = [(key.python, value.python) for key, value in pairs]
    return Typed(
        spark,
        MapType(key_type, value_type),
        lambda row: map_value((key(row), value(row)) for key, value in parts),
    )


def struct(node: StructConstructor, scope: Scope, compile_value: Compile) -> Typed:
    parts, fields, values = [], [], []
    for name, expression in node.fields:
        spark, data_type, python = compile_value(expression, scope)
        if data_type is None:
            raise StatementError(
                f"The field {written(name)} is NULL, which has no type.",
                expression.at,
                remedy="Give it one, as in CAST(NULL AS VARCHAR).",
            )
        parts.append(f"{text(name)}, {spark}")
        fields.append(StructField(name, data_type))
        values.append((name, python))
    return Typed(
        f"named_struct({', '.join(parts)})",
        StructType(tuple(fields)),
        lambda row: {name: value(row) for name, value in values},
    )
