"""The scalar functions that are evaluated in Python; a subset of `pipeline/functions/`, with its semantics.

A function that is given null gives null, unless it is about nulls.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

from headrace.pipeline.expressions.casting import text_of


def _strict(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        return None if any(argument is None for argument in arguments) else function(*arguments)

    return call


def _substring(text: str, position: int, length: int | None = None) -> str:
    # Counts from 1; 0 is taken as 1, a negative position counts from the end.
    start = max(position - 1, 0) if position >= 0 else max(len(text) + position, 0)
    return text[start:] if length is None else text[start : start + max(length, 0)]


def _round(number: Any, places: int = 0) -> Any:
    rounded = Decimal(str(number)).quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)
    if isinstance(number, int) or (isinstance(number, float) and places == 0):
        return int(rounded)
    return float(rounded) if isinstance(number, float) else rounded


def _coalesce(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _concat(*values: Any) -> str:
    return "".join(text_of(value) for value in values if value is not None)


def _concat_ws(separator: Any, *values: Any) -> str | None:
    if separator is None:
        return None
    return str(separator).join(text_of(value) for value in values if value is not None)


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "ABS": _strict(abs),
    "ARRAY_CONTAINS": _strict(lambda values, wanted: wanted in values),
    "ARRAY_LENGTH": _strict(len),
    "AS_VALUE": lambda value: value,
    "CEIL": _strict(lambda number: type(number)(math.ceil(number))),
    "COALESCE": _coalesce,
    "CONCAT": _concat,
    "CONCAT_WS": _concat_ws,
    "FLOOR": _strict(lambda number: type(number)(math.floor(number))),
    "IFNULL": lambda value, otherwise: otherwise if value is None else value,
    "INSTR": _strict(lambda text, part: text.find(part) + 1),
    "LCASE": _strict(lambda text: text.lower()),
    "LEN": _strict(len),
    "NULLIF": lambda value, other: None if value == other else value,
    "RANDOM": lambda: uuid.uuid4().int / 2**128,
    "REPLACE": _strict(lambda text, old, new: text.replace(old, new)),
    "ROUND": _strict(_round),
    "SUBSTRING": _strict(_substring),
    "TRIM": _strict(lambda text: text.strip()),
    "UCASE": _strict(lambda text: text.upper()),
    "UNIX_TIMESTAMP": lambda: time.time_ns() // 1_000_000,
    "UUID": lambda: str(uuid.uuid4()),
}
