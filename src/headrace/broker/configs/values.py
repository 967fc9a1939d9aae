"""The types of config values, parsed from text and formatted as in Apache Kafka.

Clients send text, `server.properties` contains text, and text is stored on disk. The broker works with parsed
values; DescribeConfigs shows them formatted (" +5 " becomes "5").

Invariants: a text is accepted exactly if Kafka's ConfigDef accepts it; error messages are Kafka's, word for
word, because tools show them. Never knows the configs.
"""

from __future__ import annotations

import math
import re
from enum import IntEnum
from typing import Final

ConfigValue = bool | int | float | str | tuple[str, ...] | None

LONGEST: Final = 2**63 - 1  # Java's Long.MAX_VALUE: "never" or "without limit"


class ConfigType(IntEnum):
    """The numbers of the types in DescribeConfigs replies (KIP-569)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """Where a value comes from, as DescribeConfigs says it (KIP-226)."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class InvalidValueError(ValueError):
    """A config does not accept a value; the text is the message for the client."""


def invalid(name: str, value: object, reason: str) -> InvalidValueError:
    return InvalidValueError(f"Invalid value {value} for configuration {name}: {reason}")


_BITS: Final = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
_WHOLE_NUMBER: Final = re.compile(r"[+-]?\d+")
_DECIMAL_NUMBER: Final = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)"
)
_HEXADECIMAL_NUMBER: Final = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?"
)
_COMMA: Final = re.compile(r"\s*,\s*")
# Java's String.trim removes these: everything up to the space.
_TRIMMED: Final = "".join(map(chr, range(0x21)))


def parse(kind: ConfigType, name: str, text: str) -> ConfigValue:
    """Parse a text. Raises InvalidValueError."""
    trimmed = text.strip(_TRIMMED)
    if kind is ConfigType.BOOLEAN:
        if trimmed.lower() not in {"true", "false"}:
            raise invalid(name, text, "Expected value to be either true or false")
        return trimmed.lower() == "true"
    if kind in _BITS:
        return _whole_number(kind, name, text, trimmed)
    if kind is ConfigType.DOUBLE:
        return _double(name, text, trimmed)
    if kind is ConfigType.LIST:
        return tuple(_COMMA.split(trimmed)) if trimmed else ()
    return trimmed


def render(value: ConfigValue) -> str | None:
    """The value as text, formatted as in Kafka."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _java_double(value)
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def in_message(value: ConfigValue) -> str:
    """The value as Java formats it in error messages."""
    return f"[{', '.join(value)}]" if isinstance(value, tuple) else str(render(value))


def _whole_number(kind: ConfigType, name: str, text: str, trimmed: str) -> int:
    limit = 1 << (_BITS[kind] - 1)
    # Bounded before int(), which is slow for, or refuses, numbers of thousands of digits.
    if _WHOLE_NUMBER.fullmatch(trimmed) and len(trimmed) <= 64 and -limit <= int(trimmed) < limit:
        return int(trimmed)
    raise invalid(name, text, f"Not a number of type {kind.name}")


def _double(name: str, text: str, trimmed: str) -> float:
    if _DECIMAL_NUMBER.fullmatch(trimmed):
        return float(trimmed if trimmed.endswith("Infinity") else trimmed.rstrip("fFdD"))
    if _HEXADECIMAL_NUMBER.fullmatch(trimmed):
        try:
            return float.fromhex(trimmed.rstrip("fFdD"))
        except OverflowError:
            return math.inf
    raise invalid(name, text, "Not a number of type DOUBLE")


def _java_double(value: float) -> str:
    """As Java's Double.toString: without an exponent from 0.001 up to ten million."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    digits, _, exponent = repr(abs(value)).partition("e")
    if not exponent:  # Python writes numbers up to 1e16 plainly
        exponent = str(len(digits.partition(".")[0]) - 1)
    digits = digits.replace(".", "").rstrip("0")
    return f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{int(exponent)}"
