"""Values of answers as JSON: every value that DuckDB or Avro can produce has one representation.

Invariants: numbers stay numbers whatever their size; dates, times and durations are ISO 8601, decimals are
exact numbers, bytes are base64; values that JSON numbers cannot express (NaN, infinities) are strings. Pure.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

_encoder: Final = msgspec.json.Encoder(decimal_format="number")


def encoded(content: object) -> bytes:
    """Content as JSON."""
    return _encoder.encode(json_value(content))


def encoded_plain(content: object) -> bytes:
    """Content as JSON; it has no value that `json_value` would change."""
    return _encoder.encode(content)


def json_value(value: object) -> object:
    """The value, reduced to what a JSON encoder accepts."""
    match value:
        case None | bool() | int():
            return value
        case str():
            # Half of a surrogate pair, which can come from JSON or Avro text, cannot be encoded in UTF-8.
            return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
        case float():
            return value if math.isfinite(value) else _not_a_number(value)
        case dict():
            return {_key(key): json_value(item) for key, item in value.items()}
        case list() | tuple():
            return [json_value(item) for item in value]
        case _:
            return value


def _not_a_number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _key(key: object) -> str:
    if isinstance(key, str):
        return str(json_value(key))
    text = encoded(key).decode()
    return text[1:-1] if text.startswith('"') else text
