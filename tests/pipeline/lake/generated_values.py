"""Values of every type, the edges among them, from a seed."""

from __future__ import annotations

import decimal
import random
from collections.abc import Callable
from struct import pack, unpack
from typing import Any

from headrace.lake.types import Array, Decimal, Map, Simple, Struct, Type
from tests.pipeline.lake.plain_values import struct

ALL = struct(
    flag=Simple.BOOLEAN,
    small=Simple.INT,
    large=Simple.BIGINT,
    single=Simple.FLOAT,
    double=Simple.DOUBLE,
    text=Simple.STRING,
    bytes=Simple.BINARY,
    day=Simple.DATE,
    moment=Simple.TIMESTAMP,
    price=Decimal(precision=12, scale=3),
    huge=Decimal(precision=38, scale=0),
    tiny=Decimal(precision=20, scale=12),
    words=Array(element=Simple.STRING),
    counts=Map(value=Simple.BIGINT),
    inner=struct(a=Simple.INT, deep=struct(b=Simple.STRING)),
)
_TEXTS = (
    *("", " ", "0", "-1", "+7", "127", "128", "-129", "32768", "2147483648", "-9223372036854775808"),
    *("9223372036854775808", "1.5", "-.5e3", "1e400", "NaN", "nan", "+NaN", "Infinity", "inf", "-Infinity"),
    *(" 12", "12 ", "1d", "0x1p3", "true", "TRUE", "trueish", "false", "é", "a'b\"c", "\x00", "x" * 300),
    *("2024-02-29", "2023-02-29", "2024-13-45", "2024-2-3", "2024-02-29T12:34:56.789Z", "24-02-29"),
    *(
        "20240229",
        "20240229123456",
        "2024-02-29 12:34:56",
        "2024-02-29 25:61:61",
        "29 Feb 2024",
        "1 march 99",
    ),
    *(
        "2024-02-29T12:34:56+0130",
        "2024-02-29T12:34:56 UTC",
        "2024-02-29T12:34:56-05:00",
        "2024-02-29 and more",
    ),
    *("12:05 AM", "12:05 pm", "13:05 PM", "2024-02-29T12:34:56.5", "99999-01-01", "123456789012-01-01"),
)
_INTS = (0, 1, -1, 127, 128, -129, 255, 65_535, 2**31 - 1, -(2**31))
_LONGS = (*_INTS, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 1_700_000_000, 1_700_000_000_123, -1_500)
# No -0.0: Kafka's JSON has none.
_DOUBLES = (0.0, 1.5, -1.5, 0.1, 1e-7, 1e10, 3e38, 1e300, -1e300, 2.0**31, 2.0**63, -(2.0**63), 5e-324)
_DAYS = (0, 1, -1, 19_782, -100_000, 2_932_000, 20_000)
_MOMENTS = (0, 1, -1, 86_399_999, 86_400_000, 172_800_000, 1_709_210_096_789, -12_000_000_000_000, 2 * 10**14)


def values(kind: Type, source: random.Random) -> Any:
    """One value, sometimes null."""
    if source.random() < 0.1:
        return None
    match kind:
        case Struct():
            return {each.name: values(each.type, source) for each in kind.fields}
        case Array():
            return [values(kind.element, source) for _ in range(source.randrange(3))]
        case Map():
            return {f"k{number}": values(kind.value, source) for number in range(source.randrange(3))}
        case Decimal():
            return _decimal(kind, source)
        case Simple():
            return _SIMPLE[kind](source)


def _decimal(kind: Decimal, source: random.Random) -> decimal.Decimal:
    digits = source.randrange(10 ** source.randrange(kind.precision + 1))
    number = source.choice((digits, -digits, 0))
    with decimal.localcontext(prec=40):
        return decimal.Decimal(number).scaleb(-kind.scale)


def _single(source: random.Random) -> float:
    found: float = unpack("f", pack("f", source.choice((*_DOUBLES[:7], source.uniform(-1e6, 1e6)))))[0]
    return found


_SIMPLE: dict[Simple, Callable[[random.Random], Any]] = {
    Simple.BOOLEAN: lambda source: source.random() < 0.5,
    Simple.INT: lambda source: source.choice((*_INTS, source.randrange(-(2**31), 2**31))),
    Simple.BIGINT: lambda source: source.choice((*_LONGS, source.randrange(-(2**63), 2**63))),
    Simple.FLOAT: _single,
    Simple.DOUBLE: lambda source: source.choice((*_DOUBLES, source.uniform(-1e20, 1e20))),
    Simple.STRING: lambda source: source.choice(_TEXTS),
    Simple.BINARY: lambda source: source.randbytes(source.randrange(20)),
    Simple.DATE: lambda source: source.choice(_DAYS),
    Simple.TIMESTAMP: lambda source: source.choice((*_MOMENTS, source.randrange(4 * 10**12))),
}


def rows(kind: Type, count: int, seed: int) -> list[Any]:
    """With a null record among them."""
    source = random.Random(seed)
    return [None, *(values(kind, source) or {} for _ in range(count))]
