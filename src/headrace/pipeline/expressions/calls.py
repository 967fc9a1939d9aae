"""Compiles function calls: argument types select a signature, and the signature gives both forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headrace.pipeline.expressions import literals
from headrace.pipeline.expressions.computed import Evaluate, Row, Typed
from headrace.pipeline.expressions.functions.function import (
    UNIT,
    Argument,
    Function,
    FunctionKind,
    LambdaResult,
    LambdaShape,
)
from headrace.pipeline.expressions.functions.table import find, nearest
from headrace.pipeline.expressions.functions.unsupported import UNSUPPORTED
from headrace.pipeline.expressions.scope import Scope, parameter_key
from headrace.pipeline.expressions.types_in_spark import spark_name
from headrace.pipeline.expressions.walking import walk
from headrace.pipeline.statements.errors import StatementError, UnsupportedError
from headrace.pipeline.statements.expression_printing import expression_text
from headrace.pipeline.statements.expressions import (
    Expression,
    FunctionCall,
    IntervalUnit,
    Lambda,
)

Compile = Callable[[Expression, Scope], Typed]


def function_of(call: FunctionCall) -> Function:
    found = find(call.name)
    if found is not None:
        return found
    if call.name in UNSUPPORTED:
        raise UnsupportedError(f"{call.name} is not supported: {UNSUPPORTED[call.name]}", call.at)
    hint = nearest(call.name)
    raise StatementError(
        f"There is no function {call.name}.",
        call.at,
        remedy=f"Did you mean {hint}?" if hint else "SHOW FUNCTIONS lists them.",
    )


def calls_of(kind: FunctionKind, expression: Expression) -> tuple[FunctionCall, ...]:
    """All calls of functions of that kind in an expression, outermost first. Rejects unknown functions."""
    return tuple(
        node for node in walk(expression) if isinstance(node, FunctionCall) and function_of(node).kind is kind
    )


def called(call: FunctionCall, scope: Scope, compile_argument: Compile) -> Typed:
    """Compiles a call of a scalar function. Steps of their own compute aggregates and table functions."""
    function = function_of(call)
    if function.kind is FunctionKind.AGGREGATE:
        raise StatementError(
            f"{call.name} is an aggregate function: it cannot stand in {scope.clause}.",
            call.at,
            remedy="HAVING is for conditions on aggregates." if scope.clause == "WHERE" else "",
        )
    if function.kind is FunctionKind.TABLE:
        raise StatementError(f"{call.name} makes rows: it can stand in SELECT only.", call.at)
    return resolved_call(call, scope, compile_argument)


def resolved_call(call: FunctionCall, scope: Scope, compile_argument: Compile) -> Typed:
    """Compiles a call of a function of any kind."""
    function = function_of(call)
    arguments: list[Argument] = []
    sparks: list[str] = []
    pythons: list[Evaluate] = []
    for expression in call.arguments:
        match expression:
            case Lambda(parameters=parameters):
                arguments.append(LambdaShape(len(parameters)))
                sparks.append("")
                pythons.append(_nothing)
            case IntervalUnit(unit=unit):
                arguments.append(UNIT)
                sparks.append(unit)
                pythons.append(literals.string(unit).python)
            case _:
                spark, data_type, python = compile_argument(expression, scope)
                arguments.append(data_type)
                sparks.append(spark)
                pythons.append(python)
    for index, expression in enumerate(call.arguments):
        if isinstance(expression, Lambda):
            types = function.lambda_parameters(index, tuple(arguments))
            if types is None or len(types) != len(expression.parameters):
                raise _no_such_form(call, function, arguments)
            _check_parameters(expression, scope)
            known = dict(zip(expression.parameters, types, strict=True))
            inner = replace(scope, parameters={**scope.parameters, **known})
            body, result, python = compile_argument(expression.body, inner)
            if result is None:
                raise StatementError("The lambda gives NULL, which has no type.", expression.at)
            arguments[index] = LambdaResult(types, result)
            sparks[index] = f"{_parameters(expression)} -> {body}"
            pythons[index] = _lambda(expression.parameters, python)
    resolution = function.resolve(tuple(arguments))
    if resolution is None:
        raise _no_such_form(call, function, arguments)
    try:
        spark = resolution.spark(tuple(sparks))
    except UnsupportedError as error:
        raise _located(error, call) from error
    compute = resolution.python

    def python_form(row: Row) -> Any:
        arguments = [python(row) for python in pythons]
        try:
            return compute(*arguments)
        except UnsupportedError as error:
            raise _located(error, call) from error

    return Typed(spark, resolution.type, python_form)


def _located(error: UnsupportedError, call: FunctionCall) -> UnsupportedError:
    """The error with the position of the call, which the function does not know."""
    return UnsupportedError(error.message, call.at, remedy=error.remedy)


def _nothing(_row: Row) -> Any:
    """Placeholder for a lambda until its body is compiled."""


def _lambda(parameters: tuple[str, ...], body: Evaluate) -> Evaluate:
    """A Python function that adds the parameters' values to the row and evaluates the body."""
    keys = [parameter_key(each) for each in parameters]

    def python(row: Row) -> Callable[..., Any]:
        return lambda *values: body({**row, **dict(zip(keys, values, strict=True))})

    return python


def _check_parameters(node: Lambda, scope: Scope) -> None:
    for parameter in node.parameters:
        if parameter in scope.parameters:
            raise StatementError(
                f"{parameter} is a parameter of the lambda around this one.", node.at, remedy="Rename one."
            )


def _parameters(node: Lambda) -> str:
    names = ", ".join(spark_name(each) for each in node.parameters)
    return names if len(node.parameters) == 1 else f"({names})"


def _no_such_form(call: FunctionCall, function: Function, arguments: list[Argument]) -> StatementError:
    shown = ", ".join(
        expression_text(expression)
        if isinstance(expression, Lambda | IntervalUnit)
        else str(argument or "NULL")
        for expression, argument in zip(call.arguments, arguments, strict=True)
    )
    forms = "; ".join(str(each) for each in function.signatures)
    return StatementError(
        f"{call.name} does not take ({shown}).", call.at, remedy=f"It takes {forms}." if forms else ""
    )
