"""Expressions of every kind from a seed, on columns of generated values: all that is no function call."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

from headrace.pipeline.statements.errors import StatementError
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
    StructField,
    StructType,
)

from .both_forms import Case
from .generated_values import generated

_ARRAY, _MAP = ArrayType(INTEGER), MapType(VARCHAR, DOUBLE)
_STRUCT = StructType((StructField("F", INTEGER), StructField("G", VARCHAR)))
_COLUMNS: tuple[DataType, ...] = (
    *(INTEGER, INTEGER, BIGINT, DOUBLE, DOUBLE, DecimalType(5, 2), DecimalType(38, 4), VARCHAR, VARCHAR),
    *(BYTES, DATE, TIME, TIMESTAMP, BOOLEAN, BOOLEAN, _ARRAY, _MAP, _STRUCT),
)
# A column of texts that casts read; the last one.
_TEXTS = (
    *("1", " 12 ", "-7", "+5", "1.5", "-0.005", "1e3", "1E-2", ".5", "5.", "0x10", "1_000", "", " ", "NaN"),
    *(
        "Infinity",
        "-inf",
        "2147483648",
        "-9223372036854775808",
        "9223372036854775808",
        "1d",
        "1.0f",
        "99.999",
    ),
    *("true", "T", "yes", "no", "false", "tru", " y ", "1", "\t7\n", "\uff11\uff12", "é", "null"),
    *("2020-02-29", "2021-02-29", " 2020-01-01 ", "2020-1-1", "2020", "20200101", "2020-01-01T10:11:12.123"),
    *("2020-01-01 10:11", "2020-01-01T10:11:12Z", "2020-01-01T10:11:12+02:00", "2020-01-01T25:00:00"),
    *("10:11", "10:11:12", "10:11:12.123456", "24:00", "9:05", "10:61", "23:59:59.999", "0000-01-01"),
    *("AAAA", "AA==", "YWJj", "YWI", "a", "====", "9999-12-31", "10000-01-01", "-0001-01-01", "1.0E+2"),
)
_NUMBERS: tuple[DataType, ...] = (
    INTEGER,
    BIGINT,
    DOUBLE,
    DecimalType(5, 2),
    DecimalType(38, 4),
    DecimalType(20, 10),
)
_CASTS: tuple[DataType, ...] = (
    *(*_NUMBERS, VARCHAR, BOOLEAN, DATE, TIME, TIMESTAMP, BYTES, ArrayType(VARCHAR), ArrayType(BIGINT)),
    *(MapType(VARCHAR, INTEGER), StructType((StructField("G", VARCHAR), StructField("H", INTEGER)))),
)
_LITERALS: dict[DataType, tuple[str, ...]] = {
    INTEGER: ("0", "1", "-1", "2", "7", "2147483647"),
    BIGINT: ("2147483648", "9223372036854775807", "-2147483649"),
    DOUBLE: ("0E0", "1.5E0", "-2.5E0", "1E300", "1E-7"),
    VARCHAR: ("''", "'a'", "'ab c'", "'%'", "'1'", "'é'", "'2020-01-01'", "'10:11'", "'2020-01-01T10:11:12'"),
    BOOLEAN: ("TRUE", "FALSE"),
}
_ATTEMPTS = 800
_COLUMN = re.compile(r"\bC(\d+)\b")


def expression_cases(seed: int, rows: int, count: int = 80) -> Iterator[Case]:
    chance = random.Random(f"expressions {seed}")
    made = 0
    for _ in range(_ATTEMPTS):
        if made == count:
            return
        case = _case(_Writer(chance).any(chance.choice((1, 2, 2, 3))), chance, rows)
        try:
            case.compiled()
        except StatementError:
            continue
        made += 1
        yield case
    raise AssertionError(f"of {_ATTEMPTS} expressions {made} can be compiled")


def _case(text: str, chance: random.Random, rows: int) -> Case:
    """With the columns that the text names, numbered anew."""
    used = sorted({int(each) for each in _COLUMN.findall(text)})
    kinds = [_COLUMNS[each] if each < len(_COLUMNS) else None for each in used]
    return Case(
        _COLUMN.sub(lambda found: f"C{used.index(int(found[1]))}", text),
        tuple(kind or VARCHAR for kind in kinds),
        [
            tuple(generated(kind, chance) if kind else chance.choice((None, *_TEXTS)) for kind in kinds)
            for _ in range(rows if used else 1)
        ],
    )


class _Writer:
    """Writes expressions; not all of them have types that go together."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def any(self, depth: int) -> str:
        return self.of(self._chance.choice((*_COLUMNS, BOOLEAN, BOOLEAN, VARCHAR)), depth)

    def of(self, kind: DataType, depth: int) -> str:
        """An expression of that type, or nearly."""
        if depth == 0 or self._chance.random() < 0.1:
            return self._leaf(kind)
        ways: list[Callable[[DataType, int], str]] = [self._case, self._cast, self._leaf_at]
        if kind is BOOLEAN:
            ways = [self._condition, self._condition, self._condition, self._logic, self._logic, *ways]
        elif kind in _NUMBERS:
            ways = [self._arithmetic, self._arithmetic, self._arithmetic, self._part, *ways]
        elif kind is VARCHAR:
            ways = [self._concatenation, self._part, self._cast, *ways]
        elif isinstance(kind, ArrayType | MapType | StructType):
            ways = [self._constructor, self._constructor, *ways]
        return self._chance.choice(ways)(kind, depth - 1)

    def _leaf_at(self, kind: DataType, _depth: int) -> str:
        return self._leaf(kind)

    def _leaf(self, kind: DataType) -> str:
        known = [f"C{place}" for place, each in enumerate(_COLUMNS) if each == kind]
        if kind is VARCHAR:
            known.append(f"C{len(_COLUMNS)}")
        literals = _LITERALS.get(kind, ()) if self._chance.random() < 0.3 else ()
        return self._chance.choice(literals or known or [f"CAST(NULL AS {kind})"])

    def _case(self, kind: DataType, depth: int) -> str:
        values = [self.of(kind, depth) for _ in range(3)]
        if self._chance.random() < 0.5:
            operand = self._chance.choice(_COLUMNS[:-3])
            whens = " ".join(f"WHEN {self.of(operand, 0)} THEN {value}" for value in values[:2])
            return f"CASE {self.of(operand, 0)} {whens} END"
        whens = " ".join(f"WHEN {self.of(BOOLEAN, depth)} THEN {value}" for value in values[:2])
        return f"CASE {whens} ELSE {values[2]} END"

    def _cast(self, kind: DataType, depth: int) -> str:
        source = self._chance.choice((*_COLUMNS, VARCHAR, VARCHAR, VARCHAR))
        wanted = kind if self._chance.random() < 0.7 else self._chance.choice(_CASTS)
        inner = f"C{len(_COLUMNS)}" if source is VARCHAR else self.of(source, depth)
        return f"CAST({inner} AS {wanted})"

    def _arithmetic(self, kind: DataType, depth: int) -> str:
        if self._chance.random() < 0.1:
            return f"(-{self.of(kind, depth)})"
        other = kind if self._chance.random() < 0.5 else self._chance.choice(_NUMBERS)
        sides = [self.of(kind, depth), self.of(other, depth)]
        self._chance.shuffle(sides)
        return f"({sides[0]} {self._chance.choice('+-*/%')} {sides[1]})"

    def _concatenation(self, _kind: DataType, depth: int) -> str:
        return f"({self.of(VARCHAR, depth)} + {self.of(VARCHAR, depth)})"

    def _part(self, kind: DataType, depth: int) -> str:
        if kind is INTEGER:
            index = self.of(self._chance.choice((INTEGER, INTEGER, BIGINT)), depth)
            return self._chance.choice((f"{self._leaf(_ARRAY)}[{index}]", f"{self._leaf(_STRUCT)}->F"))
        if kind is DOUBLE:
            return f"{self._leaf(_MAP)}[{self.of(VARCHAR, depth)}]"
        return f"{self._leaf(_STRUCT)}->G" if kind is VARCHAR else self._leaf(kind)

    def _constructor(self, kind: DataType, depth: int) -> str:
        if isinstance(kind, ArrayType):
            elements = [self.of(self._chance.choice(_NUMBERS), depth) for _ in range(3)]
            return f"ARRAY[{', '.join(elements)}]"
        if isinstance(kind, MapType):
            keys = [self.of(VARCHAR, depth) for _ in range(3)]
            return f"MAP({', '.join(f'{key} := {self.of(DOUBLE, depth)}' for key in keys)})"
        return f"STRUCT(F := {self.of(INTEGER, depth)}, G := {self.of(VARCHAR, depth)})"

    def _logic(self, _kind: DataType, depth: int) -> str:
        one, other = self.of(BOOLEAN, depth), self.of(BOOLEAN, depth)
        return self._chance.choice((f"(NOT {one})", f"({one} AND {other})", f"({one} OR {other})"))

    def _condition(self, _kind: DataType, depth: int) -> str:
        kind = self._chance.choice(_COLUMNS)
        other = self._chance.choice(_NUMBERS) if kind in _NUMBERS else kind
        if kind in (DATE, TIMESTAMP, TIME):
            other = self._chance.choice((kind, DATE, TIMESTAMP, VARCHAR))
        one, two, three = self.of(kind, depth), self.of(other, depth), self.of(other, depth)
        negation = self._chance.choice(("", "NOT "))
        return self._chance.choice(
            (
                *(f"({one} {operator} {two})" for operator in ("=", "<>", "<", "<=", ">", ">=")),
                f"({one} IS {negation}DISTINCT FROM {two})",
                f"({one} IS {negation}NULL)",
                f"({one} {negation}BETWEEN {two} AND {three})",
                f"({one} {negation}IN ({two}, {three}))",
                self._like(depth, negation),
                self._like(depth, negation),
            )
        )

    def _like(self, depth: int, negation: str) -> str:
        pattern = self._chance.choice(
            ("'%a%'", "'_'", "'a!_%' ESCAPE '!'", "'%\\%'", self.of(VARCHAR, depth))
        )
        return f"({self.of(VARCHAR, depth)} {negation}LIKE {pattern})"
