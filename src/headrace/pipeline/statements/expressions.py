"""The tree of expressions.

Unquoted names are in upper case, quoted ones as written. Every node knows its position (`at`); positions are
ignored in comparisons, so two trees are equal if they mean the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum

from headrace.pipeline.statements.position import NOWHERE, Position
from headrace.pipeline.statements.types import DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NullLiteral(Node):
    pass


@dataclass(frozen=True, slots=True)
class BooleanLiteral(Node):
    value: bool


@dataclass(frozen=True, slots=True)
class IntegerLiteral(Node):
    """INTEGER where it fits, BIGINT otherwise. A sign before it is a `Negation`."""

    value: int


@dataclass(frozen=True, slots=True)
class DecimalLiteral(Node):
    """Digits with a point: `1.20` is DECIMAL(3, 2)."""

    value: Decimal


@dataclass(frozen=True, slots=True)
class DoubleLiteral(Node):
    """With an exponent: `1E3`."""

    value: float


@dataclass(frozen=True, slots=True)
class StringLiteral(Node):
    value: str


Literal = NullLiteral | BooleanLiteral | IntegerLiteral | DecimalLiteral | DoubleLiteral | StringLiteral


@dataclass(frozen=True, slots=True)
class ColumnReference(Node):
    """`column` or `source.column`."""

    name: str
    source: str | None = None


@dataclass(frozen=True, slots=True)
class FieldAccess(Node):
    """`base->field`."""

    base: Expression
    field_name: str


@dataclass(frozen=True, slots=True)
class Subscript(Node):
    """`base[index]`: an array's element, from 1, or from the end if negative; a map's value by key."""

    base: Expression
    index: Expression


class ArithmeticOperator(Enum):
    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    MODULO = "%"


@dataclass(frozen=True, slots=True)
class Arithmetic(Node):
    """`+` concatenates texts."""

    operator: ArithmeticOperator
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Negation(Node):
    """`-operand`."""

    operand: Expression


class ComparisonOperator(Enum):
    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    DISTINCT = "IS DISTINCT FROM"
    NOT_DISTINCT = "IS NOT DISTINCT FROM"


@dataclass(frozen=True, slots=True)
class Comparison(Node):
    operator: ComparisonOperator
    left: Expression
    right: Expression


class LogicalOperator(Enum):
    AND = "AND"
    OR = "OR"


@dataclass(frozen=True, slots=True)
class Logical(Node):
    operator: LogicalOperator
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Not(Node):
    operand: Expression


@dataclass(frozen=True, slots=True)
class IsNull(Node):
    operand: Expression
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Between(Node):
    operand: Expression
    low: Expression
    high: Expression
    negated: bool = False


@dataclass(frozen=True, slots=True)
class InList(Node):
    operand: Expression
    values: tuple[Expression, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Like(Node):
    operand: Expression
    pattern: Expression
    escape: str | None = None
    negated: bool = False


@dataclass(frozen=True, slots=True)
class When(Node):
    condition: Expression
    result: Expression


@dataclass(frozen=True, slots=True)
class Case(Node):
    """With an operand, the conditions are values that it is compared with."""

    operand: Expression | None
    whens: tuple[When, ...]
    otherwise: Expression | None


@dataclass(frozen=True, slots=True)
class Cast(Node):
    operand: Expression
    type: DataType


@dataclass(frozen=True, slots=True)
class FunctionCall(Node):
    """`COUNT(*)` has no arguments; `star` is set."""

    name: str
    arguments: tuple[Expression, ...]
    star: bool = False


@dataclass(frozen=True, slots=True)
class Lambda(Node):
    """`x => x + 1`, `(k, v) => …`: an argument of a function."""

    parameters: tuple[str, ...]
    body: Expression


@dataclass(frozen=True, slots=True)
class LambdaVariable(Node):
    """A parameter of a lambda, used in its body."""

    name: str


@dataclass(frozen=True, slots=True)
class ArrayConstructor(Node):
    """`ARRAY[1, 2]`."""

    values: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class MapConstructor(Node):
    """`MAP('a' := 1)`."""

    entries: tuple[tuple[Expression, Expression], ...]


@dataclass(frozen=True, slots=True)
class StructConstructor(Node):
    """`STRUCT(a := 1)`."""

    fields: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class IntervalUnit(Node):
    """A bare unit of time as an argument: `TIMESTAMPADD(DAYS, 1, t)`. In upper case."""

    unit: str


Expression = (
    Literal
    | ColumnReference
    | FieldAccess
    | Subscript
    | Arithmetic
    | Negation
    | Comparison
    | Logical
    | Not
    | IsNull
    | Between
    | InList
    | Like
    | Case
    | Cast
    | FunctionCall
    | Lambda
    | LambdaVariable
    | ArrayConstructor
    | MapConstructor
    | StructConstructor
    | IntervalUnit
)
