"""Expressions evaluated in Python, on one row: for INSERT … VALUES and pull queries.

Gives null where ksqlDB gives null (an operand that is null, a division by zero, an index outside). What it
does not know it refuses by name, with the position. Never used for persistent or push queries: those are
Spark's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from headrace.pipeline.expressions.casting import cast, text_of
from headrace.pipeline.expressions.evaluation_functions import FUNCTIONS
from headrace.pipeline.expressions.values import (
    BIGINT_RANGE,
    ValueProblemError,
    parsed_date,
    parsed_time,
    parsed_timestamp,
)
from headrace.pipeline.statements.errors import StatementError, UnsupportedError
from headrace.pipeline.statements.expressions import (
    Arithmetic,
    ArithmeticOperator,
    ArrayConstructor,
    Between,
    BooleanLiteral,
    Case,
    Cast,
    ColumnReference,
    Comparison,
    ComparisonOperator,
    DecimalLiteral,
    DoubleLiteral,
    Expression,
    FieldAccess,
    FunctionCall,
    InList,
    IntegerLiteral,
    IsNull,
    Like,
    Logical,
    LogicalOperator,
    MapConstructor,
    Negation,
    Not,
    NullLiteral,
    StringLiteral,
    StructConstructor,
    Subscript,
)
from headrace.pipeline.statements.suggestions import did_you_mean

Row = Mapping[str, Any]


def evaluated(expression: Expression, row: Row) -> Any:
    """The value of the expression on a row. Raises StatementError for what it does not know."""
    found = _EVALUATORS.get(type(expression))
    if found is None:
        raise UnsupportedError(
            f"{type(expression).__name__} is not supported in INSERT VALUES and pull queries.", expression.at
        )
    return found(expression, row)


def is_true(expression: Expression, row: Row) -> bool:
    """Whether a condition holds; null does not."""
    return evaluated(expression, row) is True


def _column(node: ColumnReference, row: Row) -> Any:
    if node.name in row:
        return row[node.name]
    raise StatementError(
        f"Column {node.name} cannot be resolved. {did_you_mean(node.name, row)}".strip(), node.at
    )


def _field(node: FieldAccess, row: Row) -> Any:
    base = evaluated(node.base, row)
    return None if base is None else base.get(node.field_name)


def _subscript(node: Subscript, row: Row) -> Any:
    base, index = evaluated(node.base, row), evaluated(node.index, row)
    if base is None or index is None:
        return None
    if isinstance(base, dict):
        return base.get(index)
    place = index - 1 if index > 0 else len(base) + index
    return base[place] if index != 0 and 0 <= place < len(base) else None


def _arithmetic(node: Arithmetic, row: Row) -> Any:
    left, right = evaluated(node.left, row), evaluated(node.right, row)
    if left is None or right is None:
        return None
    if node.operator is ArithmeticOperator.ADD and isinstance(left, str) and isinstance(right, str):
        return left + right
    if not _is_number(left) or not _is_number(right):
        raise StatementError(
            f"{node.operator.value} does not work on {text_of(left)} and {text_of(right)}.", node.at
        )
    return calculated(node.operator, left, right)


def calculated(operator: ArithmeticOperator, left: Any, right: Any) -> Any:
    """Of two numbers; null on a division by zero and outside of BIGINT. Integers divide as Java's do."""
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
    if operator in {ArithmeticOperator.DIVIDE, ArithmeticOperator.MODULO} and right == 0:
        return None
    if operator is ArithmeticOperator.ADD:
        result = left + right
    elif operator is ArithmeticOperator.SUBTRACT:
        result = left - right
    elif operator is ArithmeticOperator.MULTIPLY:
        result = left * right
    else:
        both_integers = isinstance(left, int) and isinstance(right, int)
        quotient = _truncated(left, right) if both_integers else left / right
        if operator is ArithmeticOperator.DIVIDE:
            result = quotient
        elif both_integers:
            result = left - right * quotient
        else:
            result = left - right * int(quotient)
    return None if isinstance(result, int) and result not in BIGINT_RANGE else result


def _truncated(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def _negation(node: Negation, row: Row) -> Any:
    operand = evaluated(node.operand, row)
    return None if operand is None else -operand


def _comparison(node: Comparison, row: Row) -> Any:
    left, right = evaluated(node.left, row), evaluated(node.right, row)
    if node.operator is ComparisonOperator.DISTINCT:
        return not _same(left, right)
    if node.operator is ComparisonOperator.NOT_DISTINCT:
        return _same(left, right)
    if left is None or right is None:
        return None
    return _compared(node.operator, left, right, node)


_ORDERED: Final[dict[ComparisonOperator, Callable[[Any, Any], bool]]] = {
    ComparisonOperator.EQUAL: lambda left, right: left == right,
    ComparisonOperator.NOT_EQUAL: lambda left, right: left != right,
    ComparisonOperator.LESS: lambda left, right: left < right,
    ComparisonOperator.LESS_OR_EQUAL: lambda left, right: left <= right,
    ComparisonOperator.GREATER: lambda left, right: left > right,
    ComparisonOperator.GREATER_OR_EQUAL: lambda left, right: left >= right,
}


def _compared(operator: ComparisonOperator, left: Any, right: Any, node: Expression) -> bool:
    try:
        left, right = alike(left, right)
        return _ORDERED[operator](left, right)
    except (TypeError, ValueProblemError) as error:
        raise StatementError(f"{text_of(left)} and {text_of(right)} cannot be compared.", node.at) from error


def alike(left: Any, right: Any) -> tuple[Any, Any]:
    """Texts beside dates and times are read as such. Raises ValueProblemError."""
    if isinstance(left, str) and not isinstance(right, str):
        return _read_like(left, right), right
    if isinstance(right, str) and not isinstance(left, str):
        return left, _read_like(right, left)
    return left, right


def _read_like(text: str, other: Any) -> Any:
    if isinstance(other, datetime):
        return parsed_timestamp(text)
    if isinstance(other, date):
        return parsed_date(text)
    if isinstance(other, time):
        return parsed_time(text)
    if isinstance(other, int) and not isinstance(other, bool):
        # WINDOWSTART and ROWTIME may be compared with a text of a time.
        return (parsed_timestamp(text).timestamp()) * 1000
    raise ValueProblemError(f"'{text}' is a text")


def _same(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return left is right
    first, second = alike(left, right)
    return bool(first == second)


def _logical(node: Logical, row: Row) -> Any:
    decisive = node.operator is LogicalOperator.OR
    left = evaluated(node.left, row)
    if left is decisive:
        return decisive
    right = evaluated(node.right, row)
    if right is decisive:
        return decisive
    return None if left is None or right is None else not decisive


def _not(node: Not, row: Row) -> Any:
    operand = evaluated(node.operand, row)
    return None if operand is None else not operand


def _is_null(node: IsNull, row: Row) -> bool:
    return (evaluated(node.operand, row) is None) != node.negated


def _negated(result: bool | None, negated: bool) -> bool | None:
    return None if result is None else result != negated


def _between(node: Between, row: Row) -> Any:
    operand, low, high = (evaluated(part, row) for part in (node.operand, node.low, node.high))
    if operand is None or low is None or high is None:
        return None
    inside = _compared(ComparisonOperator.GREATER_OR_EQUAL, operand, low, node) and _compared(
        ComparisonOperator.LESS_OR_EQUAL, operand, high, node
    )
    return _negated(inside, node.negated)


def _in_list(node: InList, row: Row) -> Any:
    operand = evaluated(node.operand, row)
    if operand is None:
        return None
    values = [evaluated(value, row) for value in node.values]
    found = any(
        value is not None and _compared(ComparisonOperator.EQUAL, operand, value, node) for value in values
    )
    return _negated(found, node.negated)


def _like(node: Like, row: Row) -> Any:
    operand, pattern = evaluated(node.operand, row), evaluated(node.pattern, row)
    if operand is None or pattern is None:
        return None
    return _negated(like_pattern(pattern, node.escape).fullmatch(operand) is not None, node.negated)


@lru_cache(maxsize=256)
def like_pattern(pattern: str, escape: str | None) -> re.Pattern[str]:
    parts, characters = [], iter(pattern)
    for character in characters:
        if character == escape:
            parts.append(re.escape(next(characters, character)))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return re.compile("".join(parts), re.DOTALL)


def _case(node: Case, row: Row) -> Any:
    operand = evaluated(node.operand, row) if node.operand is not None else None
    for when in node.whens:
        condition = evaluated(when.condition, row)
        holds = condition is True if node.operand is None else operand is not None and operand == condition
        if holds:
            return evaluated(when.result, row)
    return evaluated(node.otherwise, row) if node.otherwise is not None else None


def _call(node: FunctionCall, row: Row) -> Any:
    function = FUNCTIONS.get(node.name.upper())
    if function is None:
        raise UnsupportedError(
            f"The function {node.name} is not supported in INSERT VALUES and pull queries. "
            f"{did_you_mean(node.name.upper(), FUNCTIONS)}".strip(),
            node.at,
        )
    try:
        return function(*(evaluated(argument, row) for argument in node.arguments))
    except TypeError as error:
        raise StatementError(f"{node.name} does not take these arguments.", node.at) from error


_EVALUATORS: Final[dict[type, Callable[[Any, Row], Any]]] = {
    NullLiteral: lambda _node, _row: None,
    BooleanLiteral: lambda node, _row: node.value,
    IntegerLiteral: lambda node, _row: node.value,
    DecimalLiteral: lambda node, _row: node.value,
    DoubleLiteral: lambda node, _row: node.value,
    StringLiteral: lambda node, _row: node.value,
    ColumnReference: _column,
    FieldAccess: _field,
    Subscript: _subscript,
    Arithmetic: _arithmetic,
    Negation: _negation,
    Comparison: _comparison,
    Logical: _logical,
    Not: _not,
    IsNull: _is_null,
    Between: _between,
    InList: _in_list,
    Like: _like,
    Case: _case,
    Cast: lambda node, row: cast(evaluated(node.operand, row), node.type),
    FunctionCall: _call,
    ArrayConstructor: lambda node, row: [evaluated(value, row) for value in node.values],
    MapConstructor: lambda node, row: {
        evaluated(key, row): evaluated(value, row) for key, value in node.entries
    },
    StructConstructor: lambda node, row: {name: evaluated(value, row) for name, value in node.fields},
}
