"""The Python form of expressions: a table of what each gives (`tests/pipeline/functions` compares both)."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from headrace.pipeline.expressions.compiling import compiled
from headrace.pipeline.expressions.scope import Scope, Visible
from headrace.pipeline.expressions.types_in_spark import spark_name
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.parser import parse_expression
from headrace.pipeline.statements.types import (
    BOOLEAN,
    DATE,
    INTEGER,
    TIME,
    TIMESTAMP,
    VARCHAR,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)

ROW: dict[str, Any] = {
    "A": 7,
    "S": "abc",
    "N": None,
    "L": [1, 2, 3],
    "M": {"k": "v"},
    "R": {"F": 5},
    "D": date(2024, 5, 1),
    "T": datetime(2024, 5, 1, 12, tzinfo=UTC),
    "H": time(12, 30),
    "B": True,
}
TYPES: dict[str, DataType] = {
    "A": INTEGER,
    "S": VARCHAR,
    "N": INTEGER,
    "L": ArrayType(INTEGER),
    "M": MapType(VARCHAR, VARCHAR),
    "R": StructType((StructField("F", INTEGER),)),
    "D": DATE,
    "T": TIMESTAMP,
    "H": TIME,
    "B": BOOLEAN,
}
SCOPE = Scope(
    columns=tuple(
        Visible(name=name, source=None, spark=spark_name(name), type=kind) for name, kind in TYPES.items()
    )
)


def evaluated(text: str) -> Any:
    python = compiled(parse_expression(text), SCOPE).python
    assert python is not None
    return python(ROW)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("A / 0", None),
        ("A + N", None),
        ("7.5 / 2", Decimal("3.7500000000000")),
        ("1E0 / 4", 0.25),
        ("9223372036854775807 + 1", None),
        ("S + 'd'", "abcd"),
        ("A > 6 AND B", True),
        ("N = 1 OR B", True),
        ("N = 1 AND B", False),
        ("NOT N = 1", True),
        ("N NOT IN (1)", True),
        ("N NOT BETWEEN 1 AND 2", True),
        ("N IS NULL", True),
        ("S IS NOT NULL", True),
        ("N IS DISTINCT FROM 1", True),
        ("N IS NOT DISTINCT FROM CAST(NULL AS INT)", True),
        ("A BETWEEN 1 AND 7", True),
        ("A NOT BETWEEN 1 AND 7", False),
        ("S IN ('x', 'abc')", True),
        ("S NOT IN ('x')", True),
        ("S LIKE 'a%'", True),
        ("S LIKE '_b_'", True),
        ("'a%b' LIKE 'a!%b' ESCAPE '!'", True),
        ("S NOT LIKE 'A%'", True),
        ("L[1]", 1),
        ("L[-1]", 3),
        ("L[4]", None),
        ("L[0]", None),
        ("M['k']", "v"),
        ("R->F", 5),
        ("D > '2024-04-30'", True),
        ("T < '2024-05-01T13:00:00'", True),
        ("H = '12:30:00'", True),
        ("CASE WHEN A > 6 THEN 'big' ELSE 'small' END", "big"),
        ("CASE S WHEN 'x' THEN 1 END", None),
        ("CAST(A AS VARCHAR)", "7"),
        ("CAST('12' AS INT)", 12),
        ("CAST('x' AS INT)", None),
        ("CAST('3000000000' AS INT)", None),
        ("CAST('1.255' AS DECIMAL(5, 2))", Decimal("1.26")),
        ("CAST(T AS DATE)", date(2024, 5, 1)),
        ("CAST('2024-05-01T12:00:00' AS TIMESTAMP)", datetime(2024, 5, 1, 12, tzinfo=UTC)),
        ("CAST(B AS VARCHAR)", "true"),
        ("ARRAY[1, A]", [1, 7]),
        ("MAP('a' := A)", {"a": 7}),
        ("STRUCT(x := 1)", {"X": 1}),
        ("SUBSTRING(S, 0, 2)", "ab"),
        ("SUBSTRING(S, 2)", "bc"),
        ("SUBSTRING(S, -2, 1)", "b"),
        ("CONCAT(S, CAST(N AS VARCHAR), 'd')", "abcd"),
        ("COALESCE(N, A)", 7),
        ("IFNULL(N, 5)", 5),
        ("UCASE(S)", "ABC"),
        ("LEN(CAST(N AS VARCHAR))", None),
        ("ROUND(2.55, 1)", Decimal("2.60")),
        ("ROUND(-1.5E0)", -1),
        ("ABS(-3)", 3),
        ("INSTR(S, 'c')", 3),
    ],
)
def test_expressions(text: str, expected: Any) -> None:
    found = evaluated(text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("NO_SUCH", "column NO_SUCH cannot be resolved"),
        ("COUNT(A)", "COUNT is an aggregate function"),
        ("NO_SUCH(A)", "There is no function NO_SUCH"),
        ("S > 1", "cannot be compared"),
        ("S * 2", "does not work on"),
        ("UCASE(S, S)", "does not take (VARCHAR, VARCHAR)"),
    ],
)
def test_what_cannot_be_evaluated_says_so_with_its_place(text: str, reason: str) -> None:
    with pytest.raises(StatementError) as caught:
        evaluated(text)
    assert reason in str(caught.value)
    assert caught.value.at.line == 1
