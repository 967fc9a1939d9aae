"""Expressions and types back to text, in one normal form.

Parsing the text gives the same tree: it has parentheses wherever precedence would change the tree. Names are
in back-quotes unless they are plain words.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import singledispatch
from typing import Final

from headrace.pipeline.statements.expression_parser import ARGUMENT_UNITS
from headrace.pipeline.statements.expressions import (
    Arithmetic,
    ArrayConstructor,
    Between,
    BooleanLiteral,
    Case,
    Cast,
    ColumnReference,
    Comparison,
    DecimalLiteral,
    DoubleLiteral,
    Expression,
    FieldAccess,
    FunctionCall,
    InList,
    IntegerLiteral,
    IntervalUnit,
    IsNull,
    Lambda,
    LambdaVariable,
    Like,
    Logical,
    MapConstructor,
    Negation,
    Node,
    Not,
    NullLiteral,
    StringLiteral,
    StructConstructor,
    Subscript,
)
from headrace.pipeline.statements.tokens import RESERVED
from headrace.pipeline.statements.types import ArrayType, DataType, MapType, StructType

_PLAIN_NAME: Final = re.compile(r"[A-Z_][A-Z0-9_@]*")
# Words with another meaning in some places: units of time as arguments, constructors of collections.
_QUOTED: Final = RESERVED | ARGUMENT_UNITS.keys() | {"ARRAY", "MAP", "STRUCT"}
# Nodes that never need parentheses.
_ALONE: Final = (
    NullLiteral,
    BooleanLiteral,
    StringLiteral,
    ColumnReference,
    FieldAccess,
    Subscript,
    FunctionCall,
    Case,
    Cast,
    LambdaVariable,
    ArrayConstructor,
    MapConstructor,
    StructConstructor,
    IntervalUnit,
)


def name(text: str) -> str:
    """A name as a statement writes it."""
    if _PLAIN_NAME.fullmatch(text) and text not in _QUOTED:
        return text
    return f"`{text.replace('`', '``')}`"


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def type_text(data_type: DataType) -> str:
    if isinstance(data_type, ArrayType):
        return f"ARRAY<{type_text(data_type.element)}>"
    if isinstance(data_type, MapType):
        return f"MAP<{type_text(data_type.key)}, {type_text(data_type.value)}>"
    if isinstance(data_type, StructType):
        fields = ", ".join(f"{name(field.name)} {type_text(field.type)}" for field in data_type.fields)
        return f"STRUCT<{fields}>"
    return str(data_type)


@singledispatch
def expression_text(node: Node) -> str:
    raise TypeError(f"{type(node).__name__} is not an expression")


def _inner(node: Expression) -> str:
    """In parentheses, unless the node never needs them."""
    text = expression_text(node)
    is_number = isinstance(node, IntegerLiteral | DecimalLiteral | DoubleLiteral)
    if isinstance(node, _ALONE) or (is_number and not text.startswith("-")):
        return text
    return f"({text})"


def _listed(nodes: tuple[Expression, ...]) -> str:
    return ", ".join(expression_text(node) for node in nodes)


def _not(negated: bool) -> str:
    return "NOT " if negated else ""


@expression_text.register
def _(_node: NullLiteral) -> str:
    return "NULL"


@expression_text.register
def _(node: BooleanLiteral) -> str:
    return "TRUE" if node.value else "FALSE"


@expression_text.register
def _(node: IntegerLiteral) -> str:
    return str(node.value)


@expression_text.register
def _(node: DecimalLiteral) -> str:
    text = format(Decimal(node.value), "f")
    return text if "." in text else f"{text}."


@expression_text.register
def _(node: DoubleLiteral) -> str:
    text = repr(node.value).upper()
    return text if "E" in text else f"{text}E0"


@expression_text.register
def _(node: StringLiteral) -> str:
    return quoted(node.value)


@expression_text.register
def _(node: ColumnReference) -> str:
    return name(node.name) if node.source is None else f"{name(node.source)}.{name(node.name)}"


@expression_text.register
def _(node: FieldAccess) -> str:
    return f"{_inner(node.base)}->{name(node.field_name)}"


@expression_text.register
def _(node: Subscript) -> str:
    return f"{_inner(node.base)}[{expression_text(node.index)}]"


@expression_text.register
def _(node: Arithmetic | Comparison | Logical) -> str:
    return f"{_inner(node.left)} {node.operator.value} {_inner(node.right)}"


@expression_text.register
def _(node: Negation) -> str:
    text = _inner(node.operand)
    # Parentheses around a number: otherwise the sign would belong to it, and `--` would begin a comment.
    return f"-({expression_text(node.operand)})" if text[0].isdigit() else f"-{text}"


@expression_text.register
def _(node: Not) -> str:
    return f"NOT {_inner(node.operand)}"


@expression_text.register
def _(node: IsNull) -> str:
    return f"{_inner(node.operand)} IS {_not(node.negated)}NULL"


@expression_text.register
def _(node: Between) -> str:
    return f"{_inner(node.operand)} {_not(node.negated)}BETWEEN {_inner(node.low)} AND {_inner(node.high)}"


@expression_text.register
def _(node: InList) -> str:
    return f"{_inner(node.operand)} {_not(node.negated)}IN ({_listed(node.values)})"


@expression_text.register
def _(node: Like) -> str:
    escape = "" if node.escape is None else f" ESCAPE {quoted(node.escape)}"
    return f"{_inner(node.operand)} {_not(node.negated)}LIKE {_inner(node.pattern)}{escape}"


@expression_text.register
def _(node: Case) -> str:
    parts = ["CASE"]
    if node.operand is not None:
        parts.append(_inner(node.operand))
    for when in node.whens:
        parts.append(f"WHEN {expression_text(when.condition)} THEN {expression_text(when.result)}")
    if node.otherwise is not None:
        parts.append(f"ELSE {expression_text(node.otherwise)}")
    return " ".join([*parts, "END"])


@expression_text.register
def _(node: Cast) -> str:
    return f"CAST({expression_text(node.operand)} AS {type_text(node.type)})"


@expression_text.register
def _(node: FunctionCall) -> str:
    return f"{name(node.name)}({'*' if node.star else _listed(node.arguments)})"


@expression_text.register
def _(node: Lambda) -> str:
    names = ", ".join(name(parameter) for parameter in node.parameters)
    return f"{names if len(node.parameters) == 1 else f'({names})'} => {expression_text(node.body)}"


@expression_text.register
def _(node: LambdaVariable) -> str:
    return name(node.name)


@expression_text.register
def _(node: ArrayConstructor) -> str:
    return f"ARRAY[{_listed(node.values)}]"


@expression_text.register
def _(node: MapConstructor) -> str:
    entries = (f"{expression_text(key)} := {expression_text(value)}" for key, value in node.entries)
    return f"MAP({', '.join(entries)})"


@expression_text.register
def _(node: StructConstructor) -> str:
    fields = (f"{name(field)} := {expression_text(value)}" for field, value in node.fields)
    return f"STRUCT({', '.join(fields)})"


@expression_text.register
def _(node: IntervalUnit) -> str:
    return node.unit
