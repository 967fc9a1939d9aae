"""Expressions to Spark SQL, with ksqlDB's types and ksqlDB's way with nulls.

Spark SQL that is made here never fails on data: a value that cannot be computed is null. A comparison with a
null is false, not null, as in ksqlDB, so that NOT and CASE see what they would see there; where a condition
decides about rows alone (`condition`) that makes no difference and is left out.
"""

from __future__ import annotations

from functools import singledispatch
from math import isfinite

from headrace.pipeline.expressions import calls, constructors, literals
from headrace.pipeline.expressions.casts import cast
from headrace.pipeline.expressions.coercion import Value, can_widen, coerced, common_of
from headrace.pipeline.expressions.comparisons import comparable, compared
from headrace.pipeline.expressions.computed import Computed
from headrace.pipeline.expressions.literals import Typed, type_name
from headrace.pipeline.expressions.named_types import resolved
from headrace.pipeline.expressions.numbers import calculated, negated, rank, result_type
from headrace.pipeline.expressions.patterns import like
from headrace.pipeline.expressions.scope import Scope, unknown_column
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


def compiled(expression: Expression, scope: Scope) -> Computed:
    """Raises StatementError: unknown names, types that do not go together, NULL without a type."""
    spark, data_type = typed(expression, scope)
    return _computed(expression, spark, _known(expression, data_type))


def condition(expression: Expression, scope: Scope) -> Computed:
    """For WHERE and HAVING: rows stay where it is true."""
    spark, data_type = _kept(expression, scope)
    if data_type is not BOOLEAN:
        raise StatementError(
            f"The {scope.clause} expression must be BOOLEAN, "
            f"but {expression_text(expression)} is {type_name(data_type)}.",
            expression.at,
        )
    return _computed(expression, spark, BOOLEAN)


def _kept(expression: Expression, scope: Scope) -> Typed:
    """As `typed`, but null and false may stand for each other."""
    if expression not in scope.computed:
        if isinstance(expression, Comparison):
            return Typed(_comparison(expression, scope), BOOLEAN)
        if isinstance(expression, Logical):
            sides = [_boolean(side, _kept(side, scope)) for side in (expression.left, expression.right)]
            return Typed(f"({sides[0]} {expression.operator.value} {sides[1]})", BOOLEAN)
    return typed(expression, scope)


def _computed(expression: Expression, spark: str, data_type: DataType) -> Computed:
    return Computed(text=expression_text(expression), spark=spark, type=data_type, at=expression.at)


def _known(expression: Expression, data_type: DataType | None) -> DataType:
    if data_type is None:
        raise StatementError(
            "NULL alone has no type.", expression.at, remedy="Give it one, as in CAST(NULL AS VARCHAR)."
        )
    return data_type


def typed(expression: Expression, scope: Scope) -> Typed:
    found = scope.computed.get(expression)
    if found is not None:
        return Typed(found.spark, found.type)
    return _typed(expression, scope)


@singledispatch
def _typed(node: Node, _scope: Scope) -> Typed:
    raise StatementError(f"{expression_text(node)} cannot stand here.", node.at)


# Constants and names.


@_typed.register
def _(_node: NullLiteral, _scope: Scope) -> Typed:
    return Typed("null", None)


@_typed.register
def _(node: BooleanLiteral, _scope: Scope) -> Typed:
    return Typed("true" if node.value else "false", BOOLEAN)


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
    return Typed(literals.text(node.value), VARCHAR)


@_typed.register
def _(node: ColumnReference, scope: Scope) -> Typed:
    found = scope.found(node)
    if found is None:
        raise unknown_column(node, scope.clause, scope.columns)
    return Typed(found.spark, found.type)


@_typed.register
def _(node: LambdaVariable, scope: Scope) -> Typed:
    return Typed(spark_name(node.name), scope.parameters[node.name])


# Parts of values.


@_typed.register
def _(node: FieldAccess, scope: Scope) -> Typed:
    base, data_type = typed(node.base, scope)
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
    return Typed(f"{base}.{spark_name(field.name)}", field.type)


@_typed.register
def _(node: Subscript, scope: Scope) -> Typed:
    base, data_type = typed(node.base, scope)
    index = typed(node.index, scope)
    shown = expression_text(node.base)
    if isinstance(data_type, ArrayType):
        if index.type not in (INTEGER, BIGINT):
            raise StatementError(
                f"The index of {shown} must be a whole number, but is {type_name(index.type)}.", node.index.at
            )
        return Typed(f"try_element_at({base}, {_index(node.index, index)})", data_type.element)
    if isinstance(data_type, MapType):
        if index.type is None or not can_widen(index.type, data_type.key):
            raise StatementError(
                f"The key of {shown} must be {data_type.key}, but is {type_name(index.type)}.", node.index.at
            )
        key = coerced(Value(node.index, index), data_type.key)
        return Typed(f"try_element_at({base}, {key})", data_type.value)
    remedy = "Fields of a STRUCT are had with ->." if isinstance(data_type, StructType) else ""
    raise StatementError(f"{shown} is {type_name(data_type)}, neither ARRAY nor MAP.", node.at, remedy=remedy)


def _index(expression: Expression, index: Typed) -> str:
    """From 1 and from the end as Spark has it, too; but an index of 0 would fail there."""
    whole = index.spark if index.type is INTEGER else f"try_cast({index.spark} as INT)"
    if isinstance(expression, IntegerLiteral) and expression.value != 0 and index.type is INTEGER:
        return whole
    return f"nullif({whole}, 0)"


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
    return Typed(calculated(node.operator, left, right, result), result)


@_typed.register
def _(node: Negation, scope: Scope) -> Typed:
    value = typed(node.operand, scope)
    if rank(value.type) is None:
        raise StatementError(
            f"- needs a number, but {expression_text(node.operand)} is {type_name(value.type)}.", node.at
        )
    return Typed(negated(value), value.type)


@_typed.register
def _(node: Comparison, scope: Scope) -> Typed:
    spark = _comparison(node, scope)
    if node.operator in (ComparisonOperator.DISTINCT, ComparisonOperator.NOT_DISTINCT):
        return Typed(spark, BOOLEAN)
    return Typed(f"coalesce({spark}, false)", BOOLEAN)


def _comparison(node: Comparison, scope: Scope) -> str:
    left, right = Value(node.left, typed(node.left, scope)), Value(node.right, typed(node.right, scope))
    return compared(node.operator, left, right, node.at)


@_typed.register
def _(node: Between, scope: Scope) -> Typed:
    value, low, high = (Value(each, typed(each, scope)) for each in (node.operand, node.low, node.high))
    above = compared(ComparisonOperator.GREATER_OR_EQUAL, value, low, node.at)
    below = compared(ComparisonOperator.LESS_OR_EQUAL, value, high, node.at)
    inside = f"coalesce({above} and {below}, false)"
    return Typed(f"(not {inside})" if node.negated else inside, BOOLEAN)


@_typed.register
def _(node: Logical, scope: Scope) -> Typed:
    sides = [_boolean(side, typed(side, scope)) for side in (node.left, node.right)]
    return Typed(f"({sides[0]} {node.operator.value} {sides[1]})", BOOLEAN)


@_typed.register
def _(node: Not, scope: Scope) -> Typed:
    return Typed(f"(not {_boolean(node.operand, typed(node.operand, scope))})", BOOLEAN)


def _boolean(expression: Expression, value: Typed) -> str:
    if value.type not in (BOOLEAN, None):
        raise StatementError(
            f"{expression_text(expression)} is {type_name(value.type)} where BOOLEAN is expected.",
            expression.at,
        )
    return value.spark


@_typed.register
def _(node: IsNull, scope: Scope) -> Typed:
    return Typed(f"({typed(node.operand, scope).spark} is {'not ' if node.negated else ''}null)", BOOLEAN)


@_typed.register
def _(node: InList, scope: Scope) -> Typed:
    values = [Value(each, typed(each, scope)) for each in (node.operand, *node.values)]
    common = common_of(values)
    if common is None:
        return Typed("false", BOOLEAN)
    operand, *others = (comparable(coerced(value, common), common) for value in values)
    inside = f"coalesce({operand} in ({', '.join(others)}), false)"
    return Typed(f"(not {inside})" if node.negated else inside, BOOLEAN)


@_typed.register
def _(node: Like, scope: Scope) -> Typed:
    operand, pattern = typed(node.operand, scope), typed(node.pattern, scope)
    for expression, value in ((node.operand, operand), (node.pattern, pattern)):
        if value.type not in (VARCHAR, None):
            raise StatementError(
                f"LIKE needs VARCHAR, but {expression_text(expression)} is {type_name(value.type)}.",
                expression.at,
            )
    return Typed(like(node, operand.spark, pattern.spark), BOOLEAN)


@_typed.register
def _(node: Case, scope: Scope) -> Typed:
    parts = []
    result: DataType | None = None
    for when in node.whens:
        parts.append(f"when {_when(node, when.condition, scope)}")
        value = typed(when.result, scope)
        result = _branch(result, when.result, value)
        parts.append(f"then {value.spark}")
    if node.otherwise is not None:
        value = typed(node.otherwise, scope)
        result = _branch(result, node.otherwise, value)
        parts.append(f"else {value.spark}")
    if result is None:
        raise StatementError("All branches of CASE are NULL.", node.at, remedy="CAST one of them to a type.")
    return Typed(f"case {' '.join(parts)} end", result)


def _when(node: Case, tested: Expression, scope: Scope) -> str:
    if node.operand is not None:
        return _comparison(Comparison(ComparisonOperator.EQUAL, node.operand, tested, at=tested.at), scope)
    value = _kept(tested, scope)
    if value.type is not BOOLEAN:
        raise StatementError(
            f"WHEN needs BOOLEAN, but {expression_text(tested)} is {type_name(value.type)}.", tested.at
        )
    return value.spark


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
    spark = cast(value.spark, value.type, wanted)
    if spark is None:
        raise StatementError(
            f"CAST of {type_name(value.type)} to {wanted} is not supported: {expression_text(node)}.", node.at
        )
    return Typed(spark, wanted)


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
