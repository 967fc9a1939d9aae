"""Calls of every scalar function with generated values, as columns and as constants."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from headrace.pipeline.expressions.functions.function import Function, FunctionKind, Parameter
from headrace.pipeline.expressions.functions.table import ALL
from headrace.pipeline.expressions.functions.type_patterns import (
    ArrayOf,
    LambdaOf,
    MapOf,
    Open,
    Pattern,
    Special,
    StructOf,
    open_places,
)
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    TIMESTAMP,
    VARCHAR,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    ScalarType,
    StructField,
    StructType,
)

from .both_forms import Case
from .generated_values import TEXTS_OF, generated

# What they give cannot be foretold.
MADE_ANEW = {"RANDOM", "UUID", "UNIX_DATE", "UNIX_TIMESTAMP"}
_STRUCT = StructType((StructField("F", INTEGER), StructField("G", ArrayType(VARCHAR))))
_CHOICES: tuple[DataType, ...] = (
    *(INTEGER, VARCHAR, BIGINT, DOUBLE, BOOLEAN, DATE, TIMESTAMP, DecimalType(5, 2)),
    *(ArrayType(INTEGER), _STRUCT),
)
_DECIMALS = (DecimalType(5, 2), DecimalType(38, 4), DecimalType(10, 0), DecimalType(38, 38))
_UNITS = ("DAYS", "HOURS", "MINUTES", "SECONDS", "MILLISECONDS", "MONTHS", "YEARS", "WEEKS")
_ATTEMPTS = 30


def function_cases(seed: int, rows: int, constant_calls: int) -> Iterator[Case]:
    """`constant_calls` is the number of calls with constants, for each signature that takes some."""
    for function in ALL.values():
        if function.kind is FunctionKind.SCALAR and function.name not in MADE_ANEW:
            yield from _cases(function, seed, rows, constant_calls)


def _cases(function: Function, seed: int, rows: int, constant_calls: int) -> Iterator[Case]:
    for number, form in enumerate(function.signatures):
        chance = random.Random(f"{seed} {function.name} {number}")
        count = len(form.parameters) + (chance.choice((-1, 0, 1, 2)) if form.is_variadic else 0)
        parameters = form.expanded(count)
        assert parameters is not None
        # With columns, then with constants among them; not all types fit, and not all constants.
        has_case = False
        is_open = any(any(open_places(each.type)) or "DECIMAL" in each.type_text for each in parameters)
        has_constants = any(each.type in (VARCHAR, INTEGER) for each in parameters[1:])
        for constants in (
            0.0,
            *([0.0] if is_open else []),
            *([0.5] * constant_calls if has_constants else []),
        ):
            for _ in range(_ATTEMPTS):
                case = _case(function, parameters, chance, rows, constants)
                if case is not None:
                    has_case = True
                    yield case
                    break
        assert has_case, f"{function.name}{form} was not tried"


def _case(
    function: Function, parameters: tuple[Parameter, ...], chance: random.Random, rows: int, constants: float
) -> Case | None:
    opens = {name: chance.choice(_CHOICES) for name in "TRSVL"} | {"K": VARCHAR}
    decimal = chance.choice(_DECIMALS)
    arguments: list[str] = []
    columns: list[tuple[str, DataType]] = []
    for parameter in parameters:
        if parameter.type is Special.UNIT:
            arguments.append(chance.choice(_UNITS))
        elif isinstance(parameter.type, LambdaOf):
            arguments.append(_lambda(parameter.type, opens, decimal, chance))
        else:
            kind = _type(parameter.type, opens, decimal)
            if kind in (VARCHAR, INTEGER) and arguments and chance.random() < constants:
                arguments.append(_literal(_value(parameter.name, kind, chance, nulls=0)))
            else:
                arguments.append(f"C{len(columns)}")
                columns.append((parameter.name, kind))
    case = Case(
        f"{function.name}({', '.join(arguments)})",
        tuple(kind for _, kind in columns),
        [tuple(_value(name, kind, chance) for name, kind in columns) for _ in range(rows if columns else 1)],
    )
    try:
        case.compiled()
    except StatementError:
        return None
    return case


def _value(name: str, kind: DataType, chance: random.Random, *, nulls: float = 0.1) -> Any:
    """Texts that mean something to a parameter of that name, and others."""
    texts = TEXTS_OF.get(name.split("_", maxsplit=1)[0])
    if kind is VARCHAR and texts is not None and chance.random() < 0.7:
        return chance.choice(texts)
    return generated(kind, chance, nulls=nulls)


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)


def _lambda(
    pattern: LambdaOf, opens: Mapping[str, DataType], decimal: DecimalType, chance: random.Random
) -> str:
    types = [_type(each, opens, decimal) for each in pattern.parameters]
    wanted = _type(pattern.result, opens, decimal)
    names = [f"P{number}" for number, _ in enumerate(types)]
    bodies = [name for name, kind in zip(names, types, strict=True) if kind == wanted]
    if wanted is BOOLEAN:
        bodies += [f"{names[-1]} IS NOT NULL", f"{names[-1]} = {names[-1]}"]
    if wanted in (INTEGER, BIGINT, DOUBLE):
        bodies += [f"{name} + 1" for name in bodies] or [f"CAST(1 AS {wanted})"]
    if wanted is VARCHAR:
        bodies += [f"COALESCE({name}, 'x') + 'y'" for name in bodies]
    body = chance.choice(bodies or [f"CAST(NULL AS {wanted})"])
    head = names[0] if len(names) == 1 else f"({', '.join(names)})"
    return f"{head} => {body}"


def _type(pattern: Pattern, opens: Mapping[str, DataType], decimal: DecimalType) -> DataType:  # noqa: PLR0911
    match pattern:
        case ScalarType():
            return pattern
        case Special.DECIMAL:
            return decimal
        case Open(name):
            return opens[name]
        case ArrayOf(element):
            return ArrayType(_type(element, opens, decimal))
        case MapOf(key, value):
            return MapType(_type(key, opens, decimal), _type(value, opens, decimal))
        case StructOf(fields):
            return StructType(tuple(StructField(name, _type(each, opens, decimal)) for name, each in fields))
        case _:
            return opens["T"]
