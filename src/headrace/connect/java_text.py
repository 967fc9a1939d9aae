"""Values as Java's `toString` writes them: what Kafka's own StringConverter and file sink write.

Differs from Java where Java's text has no use: bytes are decoded, where Java writes `[B@` and an address.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from headrace.connect.data import Schema

_PLAIN_FROM: Final = 1e-3
_PLAIN_TO: Final = 1e7


def java_text(value: Any, schema: Schema | None = None) -> str:  # noqa: PLR0911 - a table of types
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Mapping):
        return _mapping(value, schema)
    if isinstance(value, Sequence):
        items = schema.items if schema is not None else None
        return "[" + ", ".join(java_text(each, items) for each in value) + "]"
    return str(value)


def _mapping(value: Mapping[Any, Any], schema: Schema | None) -> str:
    if schema is not None and schema.type == "struct":
        present = [(name, inner) for name, inner in schema.fields if value.get(name) is not None]
        return (
            "Struct{" + ",".join(f"{name}={java_text(value[name], inner)}" for name, inner in present) + "}"
        )
    inner = schema.values if schema is not None else None
    return "{" + ", ".join(f"{java_text(key)}={java_text(each, inner)}" for key, each in value.items()) + "}"


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_TO:
        return repr(value)
    digits, _, exponent = f"{value:.17e}".partition("e")
    # The shortest digits that give the value again, as `repr` finds them.
    digits = repr(float(digits)) if float(f"{float(digits)!r}e{exponent}") == value else digits
    return f"{digits}E{int(exponent)}"
