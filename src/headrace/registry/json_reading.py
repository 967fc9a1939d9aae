"""JSON texts as the registry reads and writes them. Invariant: what is read can be written again."""

from __future__ import annotations

import json
import math
from typing import Any, Final

from headrace.registry.schema import invalid_schema

# Deeper ones are not found in practice. Below what Python's stack allows, so every engine says the same.
DEEPEST: Final = 150


def read_json(text: str, schema_type: str) -> Any:
    """Raises invalid_schema."""
    try:
        content = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
        compact(content).encode("utf-8")
    except RecursionError as error:
        raise invalid_schema(schema_type, "it is nested too deeply") from error
    except ValueError as error:
        raise invalid_schema(schema_type, f"it is not JSON: {error}") from error
    if _is_deeper(content, DEEPEST):
        raise invalid_schema(schema_type, f"it is nested too deeply: more than {DEEPEST} levels")
    return content


def compact(content: Any, *, sort_keys: bool = False) -> str:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False, sort_keys=sort_keys)


def _is_deeper(content: Any, levels: int) -> bool:
    layer = [content]
    for _ in range(levels + 1):
        inner: list[Any] = []
        for each in layer:
            if isinstance(each, dict):
                inner += each.values()
            elif isinstance(each, list):
                inner += each
        if not inner:
            return False
        layer = inner
    return True


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:50]} is too large")
    return number
