"""All functions by name. Names are in capitals, like unquoted names in statements."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from headrace.pipeline.expressions.functions import (
    aggregates,
    arrays_and_maps,
    bytes_and_encodings,
    dates_and_times,
    json_text,
    lambdas,
    masking,
    nulls,
    numeric,
    regular_expressions,
    rounding,
    table_functions,
    text,
    urls,
)
from headrace.pipeline.expressions.functions.function import Function
from headrace.pipeline.statements import suggestions

_FAMILIES: Final = (
    numeric,
    rounding,
    text,
    masking,
    regular_expressions,
    bytes_and_encodings,
    json_text,
    urls,
    arrays_and_maps,
    lambdas,
    nulls,
    dates_and_times,
    aggregates,
    table_functions,
)

ALL: Final[Mapping[str, Function]] = MappingProxyType(
    {
        function.name: function
        for function in sorted(
            (function for family in _FAMILIES for function in family.FUNCTIONS), key=lambda each: each.name
        )
    }
)


def find(name: str) -> Function | None:
    return ALL.get(name.upper())


def nearest(name: str) -> str | None:
    """The most similar name, for a suggestion."""
    return suggestions.nearest(name.upper(), ALL)
