"""Functions that read a small language (formats, JSON, paths, patterns): both forms on such texts.

Values at random would hardly ever mean anything to them. The seed is in the message: a failing one goes into
`SEEDS`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    TIME,
    TIMESTAMP,
    VARCHAR,
    DataType,
)

from . import generated_formats as formats
from . import generated_json as jsons
from . import generated_patterns as patterns
from .both_forms import Case, differences

# The others run with the long tests.
SEEDS = (1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3, 4)))
ROWS = 300
CONSTANTS = 8

Make = Callable[[random.Random], tuple[Any, ...]]


def _time(chance: random.Random) -> Any:
    value = formats.a_moment(chance).time()
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


def _array_or_any(chance: random.Random) -> str:
    made = jsons.an_array(chance) if chance.random() < 0.8 else jsons.a_json(chance)
    return jsons.damaged(chance, made)


def _object_or_any(chance: random.Random) -> str:
    made = jsons.an_object(chance) if chance.random() < 0.8 else jsons.a_json(chance)
    return jsons.damaged(chance, made)


def _pattern_and_text(chance: random.Random) -> tuple[str, str]:
    return patterns.a_pattern(chance), patterns.a_text(chance)


def _text_and_pattern(chance: random.Random) -> tuple[str, str]:
    return patterns.a_text(chance), patterns.a_pattern(chance)


# A name, the types of the arguments, how to make them, and which of them may be a constant.
CALLS: tuple[tuple[str, tuple[DataType, ...], Make, int | None], ...] = (
    (
        "FORMAT_TIMESTAMP",
        (TIMESTAMP, VARCHAR),
        lambda chance: (formats.a_moment(chance), formats.a_format(chance, formats.ALL)),
        1,
    ),
    (
        "FORMAT_TIMESTAMP",
        (TIMESTAMP, VARCHAR, VARCHAR),
        lambda chance: (
            formats.a_moment(chance),
            formats.a_format(chance, formats.ALL),
            chance.choice(formats.ZONES),
        ),
        1,
    ),
    (
        "TIMESTAMPTOSTRING",
        (BIGINT, VARCHAR, VARCHAR),
        lambda chance: (
            chance.choice((chance.randrange(2**41), chance.randrange(-(2**63), 2**63))),
            formats.a_format(chance, formats.ALL),
            chance.choice(formats.ZONES),
        ),
        2,
    ),
    (
        "FORMAT_DATE",
        (DATE, VARCHAR),
        lambda chance: (formats.a_moment(chance).date(), formats.a_format(chance, formats.DATE_LETTERS)),
        1,
    ),
    (
        "FORMAT_TIME",
        (TIME, VARCHAR),
        lambda chance: (_time(chance), formats.a_format(chance, formats.TIME_LETTERS)),
        1,
    ),
    (
        "CONVERT_TZ",
        (TIMESTAMP, VARCHAR, VARCHAR),
        lambda chance: (formats.a_moment(chance), *chance.choices(formats.ZONES, k=2)),
        1,
    ),
    ("PARSE_TIMESTAMP", (VARCHAR, VARCHAR), formats.a_text_and_format, 1),
    (
        "STRINGTOTIMESTAMP",
        (VARCHAR, VARCHAR, VARCHAR),
        lambda chance: (*formats.a_text_and_format(chance), chance.choice(formats.ZONES)),
        1,
    ),
    ("PARSE_DATE", (VARCHAR, VARCHAR), formats.a_text_and_format, 1),
    ("STRINGTODATE", (VARCHAR, VARCHAR), formats.a_text_and_format, 1),
    (
        "PARSE_TIME",
        (VARCHAR, VARCHAR),
        lambda chance: formats.a_text_and_format(chance, formats.TIME_LETTERS),
        1,
    ),
    ("IS_JSON_STRING", (VARCHAR,), lambda chance: (_object_or_any(chance),), None),
    ("JSON_ARRAY_LENGTH", (VARCHAR,), lambda chance: (_array_or_any(chance),), None),
    ("JSON_ITEMS", (VARCHAR,), lambda chance: (_array_or_any(chance),), None),
    ("JSON_KEYS", (VARCHAR,), lambda chance: (_object_or_any(chance),), None),
    ("JSON_RECORDS", (VARCHAR,), lambda chance: (_object_or_any(chance),), None),
    *(
        (
            "JSON_CONCAT",
            (VARCHAR,) * count,
            lambda chance, count=count: tuple(_object_or_any(chance) for _ in range(count)),
            None,
        )
        for count in (1, 2, 3)
    ),
    *(
        (
            "JSON_ARRAY_CONTAINS",
            (VARCHAR, kind),
            lambda chance, values=values: (_array_or_any(chance), chance.choice((*values, None))),
            None,
        )
        for kind, values in (
            (INTEGER, (0, 1, 42, -7)),
            (BIGINT, (0, 1, 2**63 - 1)),
            (DOUBLE, (1.5, -0.0, 1e5, 0.1, 1e20)),
            (VARCHAR, ("", "a", "null", "x\ny", "é")),
            (BOOLEAN, (True, False)),
        )
    ),
    (
        "EXTRACTJSONFIELD",
        (VARCHAR, VARCHAR),
        lambda chance: (_object_or_any(chance), jsons.a_path(chance)),
        1,
    ),
    ("REGEXP_EXTRACT", (VARCHAR, VARCHAR), _pattern_and_text, 0),
    (
        "REGEXP_EXTRACT",
        (VARCHAR, VARCHAR, INTEGER),
        lambda chance: (*_pattern_and_text(chance), chance.randint(-1, 3)),
        0,
    ),
    (
        "REGEXP_EXTRACT_ALL",
        (VARCHAR, VARCHAR, INTEGER),
        lambda chance: (*_pattern_and_text(chance), chance.randint(-1, 3)),
        0,
    ),
    ("REGEXP_SPLIT_TO_ARRAY", (VARCHAR, VARCHAR), _text_and_pattern, 1),
    (
        "REGEXP_REPLACE",
        (VARCHAR, VARCHAR, VARCHAR),
        lambda chance: (*_text_and_pattern(chance), patterns.a_replacement(chance)),
        1,
    ),
)


@pytest.mark.parametrize("seed", SEEDS)
def test_with_columns(spark: SparkSession, seed: int) -> None:
    cases = []
    for name, types, make, _ in CALLS:
        chance = random.Random(f"{seed} {name} {types}")
        columns = ", ".join(f"C{place}" for place, _ in enumerate(types))
        rows = [row for row in (make(chance) for _ in range(ROWS)) if _is_supported(name, types, row)]
        cases.append(Case(f"{name}({columns})", types, rows))
    wrong = differences(spark, cases)
    assert not wrong, f"{len(wrong)} with seed {seed}:\n" + "\n".join(wrong[:40])


@pytest.mark.parametrize("seed", SEEDS)
def test_with_constants(spark: SparkSession, seed: int) -> None:
    wrong = differences(spark, list(_cases_of_constants(seed)))
    assert not wrong, f"{len(wrong)} with seed {seed}:\n" + "\n".join(wrong[:40])


def _cases_of_constants(seed: int) -> Iterator[Case]:
    """What is refused before the query runs is left out."""
    for name, types, make, constant in CALLS:
        chance = random.Random(f"{seed} {name} {types} constant")
        for _ in range(CONSTANTS if constant is not None else 0):
            row = make(chance)
            texts = [f"C{place}" for place in range(len(types) - 1)]
            assert constant is not None
            texts.insert(constant, "'" + row[constant].replace("'", "''") + "'")
            case = Case(
                f"{name}({', '.join(texts)})",
                types[:constant] + types[constant + 1 :],
                [row[:constant] + row[constant + 1 :]],
            )
            try:
                case.compiled()
                case.python(case.rows[0])
            except StatementError:
                continue
            yield case


def _is_supported(name: str, types: tuple[DataType, ...], row: tuple[Any, ...]) -> bool:
    """Python's regular expressions cannot do everything that Java's can; then the call is refused."""
    columns = ", ".join(f"C{place}" for place, _ in enumerate(types))
    try:
        Case(f"{name}({columns})", types, []).python(row)
    except StatementError:
        return False
    return True
