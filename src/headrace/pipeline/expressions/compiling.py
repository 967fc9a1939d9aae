"""Compiles expressions to their two forms, Spark SQL and Python, with ksqlDB's types and treatment of null.

Neither form fails on data: a value that cannot be computed is null. A comparison with null is false, not
null, as in ksqlDB, which matters to NOT and CASE. A WHERE or HAVING condition drops a row in either case, so
`condition` does not convert null to false.
"""

from __future__ import annotations

from functools import singledispatch
from math import isfinite
from typing import Final

from headrace.pipeline.expressions import calls, combining, constructors, literals
from headrace.pipeline.expressions.casts import cast_to
from headrace.pipeline.expressions.coercion import Value, can_widen, coerced, common_of
from headrace.pipeline.expressions.comparisons import comparable, compared
from headrace.pipeline.expressions.computed import Computed, Evaluate, Typed
from headrace.pipeline.expressions.literals import type_name
from headrace.pipeline.expressions.named_types import resolved
from headrace.pipeline.expressions.numbers import calculated, negated, rank, result_type
from headrace.pipeline.expressions.patterns import like
from headrace.pipeline.expressions.scope import Scope, parameter_key, unknown_column
from headrace.pipeline.expressions.types_in_spark import spark_name
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.expression_printing import expression_text
from headrace.pipeline.statements.expressions import (
    Arithmetic,
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
    LambdaVariable,
    Like,
    Logical,
    LogicalOperator,
    MapConstructor,
    Negation,
    Node,
    Not,
    NullLiteral,
    StringLiteral,
    StructConstructor,
    Subscript,
)
from headrace.pipeline.statements.suggestions import did_you_mean
from headrace.pipeline.statements.types import (
    BIGINT,
    BOOLEAN,
    INTEGER,
    VARCHAR,
    ArrayType,
    DataType,
    MapType,
    StructType,
)

# Constants that Spark does not take as the index of an array.
_NO_INDEX: Final = (0, -(2**31))


def compiled(expression: Expression, scope: Scope) -> Computed:
    """Raises StatementError for unknown names, types that do not match, and NULL without a type."""
    value = typed(expression, scope)
    return computed(expression, value, _known(expression, value.type))


def condition(expression: Expression, scope: Scope) -> Computed:
    """A condition for WHERE and HAVING, which keep the rows where it is true."""
    value = _kept(expression, scope)
    if value.type is not BOOLEAN:
        raise StatementError(
            f"The {scope.clause} expression must be BOOLEAN, "
            f"but {expression_text(expression)} is {type_name(value.type)}.",
            expression.at,
        )
    return computed(expression, value, BOOLEAN)


def _kept(expression: Expression, scope: Scope) -> Typed:
    """Like `typed`, for places where null and false mean the same."""
    if expression not in scope.computed:
        if isinstance(expression, Comparison):
            return _comparison(expression, scope)
        if isinstance(expression, Logical):
            sides = [_boolean(side, _kept(side, scope)) for side in (expression.left, expression.right)]
            return _logical(expression.operator, *sides)
    return typed(expression, scope)


def computed(expression: Expression, value: Typed, data_type: DataType) -> Computed:
    return Computed(
        text=expression_text(expression),
        spark=value.spark,
        type=data_type,
        at=expression.at,
        python=value.python,
    )


def _known(expression: Expression, data_type: DataType | None) -> DataType:
    if data_type is None:
        raise StatementError(
            "NULL alone has no type.", expression.at, remedy="Give it one, as in CAST(NULL AS VARCHAR)."
        )
    return data_type


def typed(expression: Expression, scope: Scope) -> Typed:
    found = scope.computed.get(expression)
    if found is not None:
        return found.typed
    return _typed(expression, scope)


@singledispatch
def _typed(node: Node, _scope: Scope) -> Typed:
    raise StatementError(f"{expression_text(node)} cannot stand here.", node.at)


# Constants and names.


@_typed.register
def _(_node: NullLiteral, _scope: Scope) -> Typed:
    return literals.constant("null", None, None)


@_typed.register
def _(node: BooleanLiteral, _scope: Scope) -> Typed:
    return literals.constant("true" if node.value else "false", BOOLEAN, node.value)


@_typed.register
def _(node: IntegerLiteral, _scope: Scope) -> Typed:
    return literals.integer(node.value)


@_typed.register
def _(node: DecimalLiteral, _scope: Scope) -> Typed:
    return literals.decimal(node.value)


@_typed.register
def _(node: DoubleLiteral, _scope: Scope) -> Typed:
    if not isfinite(node.value):
        raise StatementError("The number is too large for a DOUBLE.", node.at)
    return literals.double(node.value)


@_typed.register
def _(node: StringLiteral, _scope: Scope) -> Typed:
    return literals.string(node.value)


@_typed.register
def _(node: ColumnReference, scope: Scope) -> Typed:
    found = scope.found(node)
    if found is None:
        raise unknown_column(node, scope.clause, scope.columns)
    return found.typed


@_typed.register
def _(node: LambdaVariable, scope: Scope) -> Typed:
    key = parameter_key(node.name)
    return Typed(spark_name(node.name), scope.parameters[node.name], lambda row: row[key])


# Parts of values.


@_typed.register
def _(node: FieldAccess, scope: Scope) -> Typed:
    base, data_type, of_base = typed(node.base, scope)
    shown = expression_text(node.base)
    if not isinstance(data_type, StructType):
        raise StatementError(
            f"{shown} is {type_name(data_type)}, no STRUCT: it has no field {node.field_name}.", node.at
        )
    field = data_type.field(node.field_name)
    if field is None:
        names = [each.name for each in data_type.fields]
        hint = did_you_mean(node.field_name, names) or f"There are {', '.join(names)}."
        raise StatementError(f"{shown} has no field {node.field_name}.", node.at, remedy=hint.strip())
    name = field.name
    return Typed(f"{base}.{spark_name(name)}", field.type, combining.field_of(of_base, name))


@_typed.register
def _(node: Subscript, scope: Scope) -> Typed:
    base, data_type, of_base = typed(node.base, scope)
    index = typed(node.index, scope)
    shown = expression_text(node.base)
    if isinstance(data_type, ArrayType):
        if index.type not in (INTEGER, BIGINT):
            raise StatementError(
                f"The index of {shown} must be a whole number, but is {type_name(index.type)}.", node.index.at
            )
        spark = f"try_element_at({base}, {_index(node.index, index)})"
        return Typed(spark, data_type.element, combining.element_of(of_base, index.python))
    if isinstance(data_type, MapType):
        if index.type is None or not can_widen(index.type, data_type.key):
            raise StatementError(
                f"The key of {shown} must be {data_type.key}, but is {type_name(index.type)}.", node.index.at
            )
        key = coerced(Value(node.index, index), data_type.key)
        return Typed(
            f"try_element_at({base}, {key.spark})", data_type.value, combining.entry_of(of_base, key.python)
        )
    remedy = "Fields of a STRUCT are had with ->." if isinstance(data_type, StructType) else ""
    raise StatementError(f"{shown} is {type_name(data_type)}, neither ARRAY nor MAP.", node.at, remedy=remedy)


def _index(expression: Expression, index: Typed) -> str:
    """Spark counts like ksqlDB, from 1 and from the end, but fails on an index of 0.

    The smallest INTEGER would end its JVM: Spark compares the length with the absolute value of the index,
    which is negative for that one, and then reads outside the array.
    """
    whole = index.spark if index.type is INTEGER else f"try_cast({index.spark} as INT)"
    if isinstance(expression, IntegerLiteral) and expression.value not in _NO_INDEX and index.type is INTEGER:
        return whole
    return f"nullif(greatest({whole}, -2147483647), 0)"


# Arithmetic and conditions.


@_typed.register
def _(node: Arithmetic, scope: Scope) -> Typed:
    left, right = typed(node.left, scope), typed(node.right, scope)
    result = None
    if left.type is not None and right.type is not None:
        result = result_type(node.operator, left.type, right.type)
    if result is None:
        shown = [type_name(each.type) for each in (left, right)]
        raise StatementError(
            f"{node.operator.value} does not work on {shown[0]} and {shown[1]}: {expression_text(node)}.",
            node.at,
            remedy="CAST changes a type." if "NULL" not in shown else "",
        )
    return calculated(node.operator, left, right, result)


@_typed.register
def _(node: Negation, scope: Scope) -> Typed:
    value = typed(node.operand, scope)
    if rank(value.type) is None:
        raise StatementError(
            f"- needs a number, but {expression_text(node.operand)} is {type_name(value.type)}.", node.at
        )
    return negated(value)


@_typed.register
def _(node: Comparison, scope: Scope) -> Typed:
    value = _comparison(node, scope)
    if node.operator in (ComparisonOperator.DISTINCT, ComparisonOperator.NOT_DISTINCT):
        return value
    return _or_false(value.spark, value.python)


def _or_false(spark: str, python: Evaluate, *, negated: bool = False) -> Typed:
    """The condition with false instead of null; then negated if asked."""
    spark = f"coalesce({spark}, false)"
    return Typed(
        f"(not {spark})" if negated else spark, BOOLEAN, lambda row: (python(row) is True) != negated
    )


def _comparison(node: Comparison, scope: Scope) -> Typed:
    left, right = Value(node.left, typed(node.left, scope)), Value(node.right, typed(node.right, scope))
    return compared(node.operator, left, right, node.at)


@_typed.register
def _(node: Between, scope: Scope) -> Typed:
    value, low, high = (Value(each, typed(each, scope)) for each in (node.operand, node.low, node.high))
    above = compared(ComparisonOperator.GREATER_OR_EQUAL, value, low, node.at)
    below = compared(ComparisonOperator.LESS_OR_EQUAL, value, high, node.at)
    inside = combining.both(above.python, below.python)
    return _or_false(f"{above.spark} and {below.spark}", inside, negated=node.negated)


@_typed.register
def _(node: Logical, scope: Scope) -> Typed:
    left, right = (_boolean(side, typed(side, scope)) for side in (node.left, node.right))
    return _logical(node.operator, left, right)


def _logical(operator: LogicalOperator, left: Typed, right: Typed) -> Typed:
    combined = combining.both if operator is LogicalOperator.AND else combining.either
    python = combined(left.python, right.python)
    return Typed(f"({left.spark} {operator.value} {right.spark})", BOOLEAN, python)


@_typed.register
def _(node: Not, scope: Scope) -> Typed:
    operand = _boolean(node.operand, typed(node.operand, scope))
    return Typed(f"(not {operand.spark})", BOOLEAN, combining.opposite(operand.python))


def _boolean(expression: Expression, value: Typed) -> Typed:
    if value.type not in (BOOLEAN, None):
        raise StatementError(
            f"{expression_text(expression)} is {type_name(value.type)} where BOOLEAN is expected.",
            expression.at,
        )
    return value


@_typed.register
def _(node: IsNull, scope: Scope) -> Typed:
    spark, _, of_operand = typed(node.operand, scope)
    negated = node.negated
    return Typed(
        f"({spark} is {'not ' if negated else ''}null)",
        BOOLEAN,
        lambda row: (of_operand(row) is None) != negated,
    )


@_typed.register
def _(node: InList, scope: Scope) -> Typed:
    values = [Value(each, typed(each, scope)) for each in (node.operand, *node.values)]
    common = common_of(values)
    if common is None:
        return literals.constant("false", BOOLEAN, False)
    operand, *others = (coerced(value, common) for value in values)
    sparks = ", ".join(comparable(each.spark, common) for each in others)
    inside = combining.one_of(operand.python, [each.python for each in others])
    return _or_false(f"{comparable(operand.spark, common)} in ({sparks})", inside, negated=node.negated)


@_typed.register
def _(node: Like, scope: Scope) -> Typed:
    operand, pattern = typed(node.operand, scope), typed(node.pattern, scope)
    for expression, value in ((node.operand, operand), (node.pattern, pattern)):
        if value.type not in (VARCHAR, None):
            raise StatementError(
                f"LIKE needs VARCHAR, but {expression_text(expression)} is {type_name(value.type)}.",
                expression.at,
            )
    return like(node, operand, pattern)


@_typed.register
def _(node: Case, scope: Scope) -> Typed:
    parts = []
    branches: list[tuple[Evaluate, Evaluate]] = []
    otherwise = literals.constant("null", None, None)
    result: DataType | None = None
    for when in node.whens:
        tested = _when(node, when.condition, scope)
        value = typed(when.result, scope)
        result = _branch(result, when.result, value)
        parts.append(f"when {tested.spark} then {value.spark}")
        branches.append((tested.python, value.python))
    if node.otherwise is not None:
        otherwise = typed(node.otherwise, scope)
        result = _branch(result, node.otherwise, otherwise)
        parts.append(f"else {otherwise.spark}")
    if result is None:
        raise StatementError("All branches of CASE are NULL.", node.at, remedy="CAST one of them to a type.")

    python = combining.first_true(branches, otherwise.python)
    return Typed(f"case {' '.join(parts)} end", result, python)


def _when(node: Case, tested: Expression, scope: Scope) -> Typed:
    if node.operand is not None:
        return _comparison(Comparison(ComparisonOperator.EQUAL, node.operand, tested, at=tested.at), scope)
    value = _kept(tested, scope)
    if value.type is not BOOLEAN:
        raise StatementError(
            f"WHEN needs BOOLEAN, but {expression_text(tested)} is {type_name(value.type)}.", tested.at
        )
    return value


def _branch(result: DataType | None, expression: Expression, value: Typed) -> DataType | None:
    if result is not None and value.type not in (None, result):
        raise StatementError(
            f"The branches of CASE must be of one type: {expression_text(expression)} is "
            f"{type_name(value.type)}, those before it are {result}.",
            expression.at,
            remedy="CAST makes one type of both.",
        )
    return value.type if result is None else result


@_typed.register
def _(node: Cast, scope: Scope) -> Typed:
    value = typed(node.operand, scope)
    wanted = resolved(node.type, scope.types, node.at)
    made = cast_to(value, wanted)
    if made is None:
        raise StatementError(
            f"CAST of {type_name(value.type)} to {wanted} is not supported: {expression_text(node)}.", node.at
        )
    return made


# Calls and constructors.


@_typed.register
def _(node: FunctionCall, scope: Scope) -> Typed:
    return calls.called(node, scope, typed)


@_typed.register
def _(node: ArrayConstructor, scope: Scope) -> Typed:
    return constructors.array(node, scope, typed)


@_typed.register
def _(node: MapConstructor, scope: Scope) -> Typed:
    return constructors.map_(node, scope, typed)


@_typed.register
def _(node: StructConstructor, scope: Scope) -> Typed:
    return constructors.struct(node, scope, typed)
