"""Values on which functions stumble, by type, and a form for every signature to try them with."""

from __future__ import annotations

import random
from collections.abc import Iterator

from headrace.pipeline.expressions.functions.function import UNIT, Function, LambdaResult, Signature
from headrace.pipeline.expressions.functions.spark_text import string_literal
from headrace.pipeline.expressions.functions.type_patterns import (
    ArrayOf,
    LambdaOf,
    MapOf,
    Open,
    Pattern,
    Special,
)
from headrace.pipeline.expressions.types_in_spark import spark_type
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
    ScalarType,
)

from .evaluating import Form
from .values import Value

TEXTS = (
    *(
        "",
        " ",
        "a",
        "ab c",
        "(",
        "[",
        "*",
        "\\",
        "$",
        "$1",
        "$9",
        "${x}",
        "'",
        '"',
        "{",
        "}",
        "%",
        "%zz",
        "é\U0001f600",
    ),
    *(
        "\x00",
        "\t\n",
        '{"a":',
        '{"a":{"b":[1,null]}}',
        '[1, "x", {"a": 1}]',
        "[1,2",
        "null",
        "true",
        "NaN",
        "-1",
    ),
    *(
        "http://[",
        "http://u@h:99999/p?a=b#c",
        "mailto:x",
        "::",
        "a=b&c",
        "yyyy-MM-dd",
        "yyyy'",
        "QQQQQ",
        "YYYY",
    ),
    *(
        "VV",
        "XXXXX",
        "EEEEE",
        "[yyyy",
        "p",
        "HH:mm:ss",
        "UTC",
        "Mars/Base",
        "+99:00",
        "hex",
        "base64",
        "ascii",
        "utf8",
    ),
    *(
        "DESC",
        "BIG_ENDIAN",
        "little_endian",
        "0x",
        "0xZZ",
        "X'",
        "X'00'",
        "====",
        "A",
        "9" * 40,
        "$.a[0]",
        "$.a.b",
        "$",
    ),
    *(
        "$['x']",
        '$["a"]',
        "$..",
        "(?<a>b)",
        "(a)(b)",
        "a{99999999999}",
        "\\Q",
        "[(",
        "x*",
        "(?#",
        "(?x) #",
        "2021-02-30",
    ),
    *("\x01", "a\x01b", "%\x01_"),
    *("12:99", "\\u004b", "\\ud800", "km", "miles", "23:59:60", "\ud7ff", "a" * 300),
)
_POOLS: dict[DataType, tuple[str, ...]] = {
    VARCHAR: tuple(map(string_literal, TEXTS)),
    INTEGER: ("-2147483648", "-2147483647", "-19", "-1", "0", "1", "2", "3", "17", "18", "100", "2147483647"),
    BIGINT: (
        *("-9223372036854775808L", "-9223372036854775807L", "-1L", "0L", "1L", "9223372036854775807L"),
        *("9223372036854775L", "9223372036854776L", "-62135596800001L", "253402300800000L"),
    ),
    DOUBLE: (
        *(
            "double('NaN')",
            "double('Infinity')",
            "double('-Infinity')",
            "0D",
            "-0.0D",
            "4.9E-324D",
            "-1.7E308D",
        ),
        *("0.5D", "-2.5D", "91D", "1E18D", "-1E19D", "1E37D"),
    ),
    BOOLEAN: ("true", "false"),
    BYTES: (
        "X''",
        "X'00'",
        "X'FF'",
        "X'FFFFFFFF'",
        "X'7FF8000000000000'",
        "X'FFFFFFFFFFFFFFFF'",
        f"X'{'C3' * 16}'",
    ),
    DATE: (
        "DATE'0001-01-01'",
        "DATE'9999-12-31'",
        "DATE'1970-01-01'",
        "date_from_unix_date(2147483647)",
        "date_from_unix_date(-2147483648)",
    ),
    TIME: ("0", "86399999", "-1", "86400000", "2147483647", "-2147483648"),
    TIMESTAMP: (
        "TIMESTAMP'1970-01-01 00:00:00'",
        "timestamp_micros(9223372036854775807L)",
        "timestamp_micros(-9223372036854775808L)",
        "TIMESTAMP'2021-03-28 01:30:00.123456'",
    ),
}
DECIMAL = DecimalType(5, 2)
LARGE_DECIMAL = DecimalType(38, 4)


def _pool(kind: DataType) -> tuple[str, ...]:
    nothing = f"CAST(NULL AS {spark_type(kind)})"
    match kind:
        case DecimalType(precision, scale):
            nines = f"{'9' * (precision - scale)}.{'9' * scale}"
            numbers = (nines, f"-{nines}", "0", "0.05", "-1.5")
            return (*(f"CAST('{each}' AS {spark_type(kind)})" for each in numbers), nothing)
        case ArrayType(element):
            inner = _pool(element)
            lists = [
                "",
                nothing_of(element),
                inner[0],
                ", ".join(inner[:7]),
                ", ".join(inner[-4:]),
                ", ".join(inner[:2] * 2),
            ]
            return (*(f"CAST(array({each}) AS {spark_type(kind)})" for each in lists), nothing)
        case MapType(_, value):
            inner = _pool(value)
            maps = ["", f"'a', {inner[0]}", f"'a', {nothing_of(value)}", f"'', {inner[-2]}, 'b', {inner[1]}"]
            return (*(f"CAST(map({each}) AS {spark_type(kind)})" for each in maps), nothing)
        case _:
            return (*_POOLS[kind], nothing)


def nothing_of(kind: DataType) -> str:
    return f"CAST(NULL AS {spark_type(kind)})"


def odd_forms(function: Function, rows: int) -> Iterator[Form]:
    """A form for each signature and for two choices of its open types, with rows of odd values."""
    for number, form in enumerate(function.signatures):
        for choice in (INTEGER, VARCHAR):
            for decimal in (DECIMAL, LARGE_DECIMAL):
                found = _form(function, form, choice, decimal)
                # The same for every run, and different for every form.
                chance = random.Random(f"{function.name} {number} {choice}")
                pools = [(each.spark,) if each.is_fixed else _pool(each.argument) for each in found]  # type: ignore[arg-type]
                longest = max((len(pool) for pool in pools), default=1)
                shuffled = [chance.sample(pool, len(pool)) for pool in pools]
                # Each value of the longest pool at least once, and any with any otherwise.
                made = [tuple(pool[row % len(pool)] for pool in shuffled) for row in range(longest)]
                made += [tuple(chance.choice(pool) for pool in pools) for _ in range(rows)]
                yield Form(function.name, found, made)
                if "DECIMAL" not in str(form):
                    break
            if not any(_is_open(each.type) for each in form.parameters):
                break


def _is_open(pattern: Pattern) -> bool:
    match pattern:
        case Open():
            return True
        case ArrayOf(element):
            return _is_open(element)
        case MapOf(key, value):
            return _is_open(key) or _is_open(value)
        case _:
            return pattern is Special.ANY


def _form(function: Function, form: Signature, choice: DataType, decimal: DecimalType) -> tuple[Value, ...]:
    parameters = form.expanded(len(form.parameters) + 1 if form.is_variadic else len(form.parameters))
    assert parameters is not None, function.name
    return tuple(_value(each.type, choice, decimal) for each in parameters)


def _value(pattern: Pattern, choice: DataType, decimal: DecimalType) -> Value:
    if pattern is Special.UNIT:
        return Value(UNIT, "DAYS", is_fixed=True)
    if isinstance(pattern, LambdaOf):
        types = tuple(_type(each, choice, decimal) for each in pattern.parameters)
        result = _type(pattern.result, choice, decimal)
        names = [f"`P{number}`" for number, _ in enumerate(types)]
        bodies: dict[DataType, str] = {
            INTEGER: f"try_add(CAST(length(CAST({names[-1]} AS STRING)) AS INT), 1)",
            VARCHAR: f"CAST({names[-1]} AS STRING)",
            BOOLEAN: f"({names[-1]} IS NOT NULL)",
        }
        body = bodies[result]
        head = names[0] if len(names) == 1 else f"({', '.join(names)})"
        return Value(LambdaResult(types, result), f"{head} -> {body}", is_fixed=True)
    return Value(_type(pattern, choice, decimal), "")


def _type(pattern: Pattern, choice: DataType, decimal: DecimalType) -> DataType:
    match pattern:
        case ScalarType():
            return pattern
        case Special.DECIMAL:
            return decimal
        case Open("K"):
            return VARCHAR
        case ArrayOf(element):
            return ArrayType(_type(element, choice, decimal))
        case MapOf(key, value):
            return MapType(_type(key, choice, decimal), _type(value, choice, decimal))
        case _:
            return choice


def odd_constants(function: Function, rows: int) -> Iterator[list[Value]]:
    """Arguments of which one is an odd constant, and the others are columns named `c_TYPE`."""
    for number, form in enumerate(function.signatures):
        if form.is_variadic or any(isinstance(each.type, LambdaOf) for each in form.parameters):
            continue
        values = _form(function, form, INTEGER, DECIMAL)
        for place, odd in enumerate(values):
            if odd.is_fixed:
                continue
            pool = _pool(odd.argument)  # type: ignore[arg-type]
            for chosen in random.Random(f"{function.name} {number} {place}").sample(
                pool, min(rows, len(pool))
            ):
                yield [
                    Value(each.argument, chosen)
                    if index == place
                    else each
                    if each.is_fixed
                    else Value(each.argument, column_of(each))
                    for index, each in enumerate(values)
                ]


def column_of(value: Value) -> str:
    return f"`c_{value.argument}`"


def ordinary_columns() -> list[str]:
    """A column of each type, with the last of its odd values that is not null."""
    kinds = (
        *_POOLS,
        DECIMAL,
        *map(ArrayType, (INTEGER, *_POOLS, DECIMAL)),
        *(MapType(VARCHAR, kind) for kind in _POOLS),
    )
    return [f"{_pool(kind)[-2]} AS {column_of(Value(kind, ''))}" for kind in dict.fromkeys(kinds)]
