"""Values of every type from a seed, odd ones and ordinary ones, as `expressions/values.py` has them."""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

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
    StructType,
)

from .odd_values import TEXTS

_INTEGERS = (-(2**31), -(2**31) + 1, -19, -7, -2, -1, 0, 1, 2, 3, 5, 10, 17, 18, 64, 100, 2**31 - 1)
_BIGINTS = (
    *_INTEGERS,
    *(-(2**63), -(2**63) + 1, 2**63 - 1, 2**53 + 1, -(2**53) - 1, 9223372036854775, 9223372036854776),
    *(-62135596800001, 253402300800000, 1_600_000_000_000, -1_000, 86_400_000),
)
_DOUBLES = (
    *(float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 5e-324, -1.7e308, 1.7976931348623157e308),
    *(0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 0.1, 91.0, -91.0, 1e18, -1e19, 1e37, 1e7, 9999999.0, 1e-3, 1e-4),
    *(123.456, -0.007, 4503599627370496.0, 4503599627370495.5, 2147483648.0, 9.223372036854776e18, 180.0),
    *(0.49999999999999994, 1.005, 2.675, 1e-10, -1e-300, 33.3, 1234567.125),
)
_BYTES = (
    *(b"", b"\0", b"\xff", b"\xff\xff\xff\xff", b"\x7f\xf8\0\0\0\0\0\0", b"\xff" * 8, b"\xc3" * 16),
    *(b"abc", "é".encode(), b"\xe2\x82", b"\0\0\0\x2a", b"\x80\0\0\0\0\0\0\x01", b"\0" * 7 + b"\x01"),
)
_DATES = (
    *(date(1, 1, 1), date(9999, 12, 31), date(1970, 1, 1), date(1969, 12, 31), date(2000, 2, 29)),
    *(date(2021, 3, 28), date(1582, 10, 10), date(2024, 12, 30)),
)
_TIMES = (
    time(0),
    time(23, 59, 59, 999_000),
    time(12, 30),
    time(1, 2, 3),
    time(0, 0, 0, 1_000),
    time(7, 0, 9),
)
_TIMESTAMPS = (
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
    datetime(2021, 3, 28, 1, 30, 0, 123_000, tzinfo=UTC),
    datetime(2024, 2, 29, 12, tzinfo=UTC),
    datetime(1582, 10, 10, 5, tzinfo=UTC),
)
_CHARACTERS = "aAbBzZ09 _-.,%$\\'\"/?&=#éßİıſẞΣς中\U0001f600\t\n\0"
_PARTS: Mapping[DataType, tuple[Any, ...]] = {
    BOOLEAN: (True, False),
    INTEGER: _INTEGERS,
    BIGINT: _BIGINTS,
    DOUBLE: _DOUBLES,
    BYTES: _BYTES,
    DATE: _DATES,
    TIME: _TIMES,
    TIMESTAMP: _TIMESTAMPS,
    VARCHAR: TEXTS,
}

# Texts that mean something, by the names of parameters.
TEXTS_OF: Mapping[str, tuple[str, ...]] = {
    "encoding": ("hex", "HEX", "utf8", "ascii", "Base64", "utf16"),
    "source": ("hex", "HEX", "utf8", "ascii", "Base64", "utf16"),
    "target": ("hex", "HEX", "utf8", "ascii", "Base64", "utf16"),
    "order": ("BIG_ENDIAN", "little_endian", "x"),
    "unit": ("km", "MILES", " mi ", "", "furlongs", "Kilometre"),
    "url": (
        *("http://u@h:99999/p?a=b#c", "https://a.b:80/x%20y?q=1&r=%26#f%41", "mailto:x", "ftp://h", "//h/p"),
        *(
            "http://[::1]:8/p",
            "a b",
            "http://h/ä?ö",
            "http://h/?a&b=",
            "http://h?x=1&x=2",
            "x:y:z",
            "http://",
        ),
    ),
}


def generated(kind: DataType, chance: random.Random, *, nulls: float = 0.1) -> Any:
    """A value of that type; a null with that probability."""
    if chance.random() < nulls:
        return None
    match kind:
        case ArrayType(element):
            return [generated(element, chance) for _ in range(chance.choice((0, 1, 1, 2, 3, 5)))]
        case MapType(key, value):
            return {
                generated(key, chance, nulls=0): generated(value, chance)
                for _ in range(chance.choice((0, 1, 2, 3)))
            }
        case StructType(fields):
            return {field.name: generated(field.type, chance) for field in fields}
        case DecimalType():
            return _decimal(kind, chance)
    return chance.choice(_PARTS[kind]) if chance.random() < 0.6 else _ordinary(kind, chance)


def _decimal(kind: DecimalType, chance: random.Random) -> Decimal:
    largest = 10**kind.precision - 1
    unscaled = chance.choice((0, 1, -1, 5, -15, largest, -largest, chance.randint(-largest, largest)))
    half = 5 * 10 ** max(kind.scale - 1, 0)
    unscaled = chance.choice((unscaled, min(half, largest), -min(3 * half, largest), unscaled))
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -kind.scale))


def _ordinary(kind: DataType, chance: random.Random) -> Any:  # noqa: PLR0911 - one for each type
    if kind is BOOLEAN:
        return chance.random() < 0.5
    if kind is INTEGER:
        return chance.choice((chance.randint(-20, 20), chance.randint(-(2**31), 2**31 - 1)))
    if kind is BIGINT:
        return chance.choice((chance.randint(-20, 20), chance.randint(-(2**63), 2**63 - 1)))
    if kind is DOUBLE:
        bits = struct.unpack(">d", chance.randbytes(8))[0]
        return chance.choice(
            (bits, chance.uniform(-1, 1), chance.uniform(-1e4, 1e4), chance.randint(-99, 99) / 8)
        )
    if kind is BYTES:
        return chance.randbytes(chance.choice((1, 3, 4, 8, 9)))
    if kind is DATE:
        return date(1, 1, 1) + timedelta(days=chance.randrange(3_652_059))
    if kind is TIME:
        return (datetime(1970, 1, 1) + timedelta(milliseconds=chance.randrange(86_400_000))).time()
    if kind is TIMESTAMP:
        moment = chance.choice(
            (chance.randrange(253_402_300_800_000), chance.randrange(2_000_000_000) * 1000)
        )
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=moment)
    return "".join(chance.choices(_CHARACTERS, k=chance.randint(1, 8)))
