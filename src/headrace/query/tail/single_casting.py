"""Single values of one type as another, as `pipeline/spark/lake/casting.py` casts them in Spark.

Texts of floating numbers depend on the version of Java, and some casts round twice: such values are left to
the lake.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
import struct
from typing import Any, Final

from headrace.lake.types import Decimal, Simple, Type
from headrace.pipeline.sink_records.columns import INTEGER_BITS
from headrace.query.tail.outcomes import UnsureError

_DAY_MS: Final = 86_400_000
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_NOT_A_NUMBER: Final = re.compile(r"[\x00-\x20]*[+-]?NaN[\x00-\x20]*", re.ASCII)
_INFINITY: Final = re.compile(r"[\x00-\x20]*([+-]?)Infinity[\x00-\x20]*", re.ASCII)
_WHOLE: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_NUMBER: Final = re.compile(
    r"[\x00-\x20]*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?)[\x00-\x20]*", re.ASCII
)
# Java also knows hexadecimal numbers, and letters behind numbers.
_PERHAPS_A_NUMBER: Final = re.compile(r"[\x00-\x20+\-.0-9a-fA-FxXpPlLnityNIY]*", re.ASCII)
# Floating numbers that every version of Java writes with the same digits.
_CERTAIN_DIGITS: Final = {Simple.FLOAT: 6, Simple.DOUBLE: 15}
_CERTAIN_SIZES: Final = (1e-3, 1e7)
_EXACT: Final = 2**53
_SMALLEST_FLOAT: Final = 2.0**-126
# BigDecimal writes smaller numbers with an exponent.
_PLAIN_ZEROS: Final = 6
_TEXTS: Final = "a number or a text is cast in a way that only the lake knows"


def as_boolean(value: Any, kind: Type) -> bool:
    if kind is Simple.STRING:
        return str(value).lower() == "true"
    return _java_long(*_number(value, kind), is_int=False) != 0


def as_integer(value: Any, kind: Type, target: str) -> int | None:
    """None if a text is none."""
    bits = INTEGER_BITS[target]
    limit = 1 << (bits - 1)
    if kind is Simple.STRING:
        if not _WHOLE.fullmatch(value):
            return None
        number = int(value)
        return number if -limit <= number < limit else None
    number = _java_long(*_number(value, kind), is_int=target != "int64")
    return (number + limit) % (2 * limit) - limit


def as_floating(value: Any, kind: Type, target: Simple) -> float | None:
    """None if a text is none."""
    if kind is Simple.STRING:
        return _read(value, target)
    number, kind = _number(value, kind)
    if target is Simple.DOUBLE:
        return float(number)
    if isinstance(kind, Decimal) or (isinstance(number, int) and abs(number) >= _EXACT):
        raise UnsureError(_TEXTS)
    return as_single(float(number))


def as_single(value: float) -> float:
    """As the nearest FLOAT."""
    try:
        (found,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return math.copysign(math.inf, value)
    return float(found)


def nearest_single(text: str) -> float:
    """Of a text, not rounded twice. Raises UnsureError."""
    found = float(text)
    (bits,) = struct.unpack("<q", struct.pack("<d", found))
    if bits & (2**29 - 1) == 2**28 or 0 < abs(found) < _SMALLEST_FLOAT:
        raise UnsureError(_TEXTS)
    return as_single(found)


def as_text(value: Any, kind: Type) -> str:
    match kind:
        case Simple.BOOLEAN:
            return "true" if value else "false"
        case Simple.INT | Simple.BIGINT | Simple.STRING:
            return str(value)
        case Simple.FLOAT | Simple.DOUBLE:
            return _floating_text(value, kind)
        case Simple.DATE:
            return _moment_text(value * _DAY_MS)
        case Simple.TIMESTAMP | Simple.TIMESTAMP_NTZ:
            return _moment_text(value // 1_000)
        case Decimal():
            return _decimal_text(value, kind.scale)
        case _:
            raise UnsureError(_TEXTS)


def _number(value: Any, kind: Type) -> tuple[Any, Type]:
    match kind:
        case Simple.BOOLEAN:
            return int(value), Simple.INT
        case Simple.DATE:
            return value, Simple.INT
        case Simple.TIMESTAMP | Simple.TIMESTAMP_NTZ:
            return value // 1_000, Simple.BIGINT
        case _:
            return value, kind


def _java_long(number: Any, kind: Type, *, is_int: bool) -> int:
    """The nearest one of a floating number that is too large, 0 for NaN; of a DECIMAL the low 64 bits."""
    if isinstance(kind, Decimal):
        return (int(number) + 2**63) % 2**64 - 2**63
    if kind in (Simple.FLOAT, Simple.DOUBLE):
        large = 2**31 if is_int else 2**63
        if math.isnan(number):
            return 0
        if number >= large:
            return large - 1
        return -large if number <= -large else int(number)
    return int(number)


def _read(text: str, target: Simple) -> float | None:
    if _NOT_A_NUMBER.fullmatch(text):
        return math.nan
    if (found := _INFINITY.fullmatch(text)) is not None:
        return -math.inf if found[1] == "-" else math.inf
    if (found := _NUMBER.fullmatch(text)) is not None:
        return float(found[1]) if target is Simple.DOUBLE else nearest_single(found[1])
    if _PERHAPS_A_NUMBER.fullmatch(text) and any(each.isdigit() for each in text):
        raise UnsureError(_TEXTS)
    return None


def _floating_text(value: float, kind: Simple) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    text = f"{value:.{_CERTAIN_DIGITS[kind]}g}"
    low, high = _CERTAIN_SIZES
    same = as_single(float(text)) == value if kind is Simple.FLOAT else float(text) == value
    if not same or not low <= abs(value) < high:
        raise UnsureError(_TEXTS)
    plain = format(decimal.Decimal(text), "f")
    return plain if "." in plain else f"{plain}.0"


def _moment_text(moment: int) -> str:
    """Kafka takes everything before 2 January 1970 for a time of day, and midnight for a date."""
    local = _EPOCH + datetime.timedelta(milliseconds=moment)
    time = f"{local:%H:%M:%S}.{local.microsecond // 1000:03}Z"
    if moment < _DAY_MS:
        return time
    day = f"{local.year}-{local.month:02}-{local.day:02}"
    return f"{day}T{time}" if moment % _DAY_MS else day


def _decimal_text(value: decimal.Decimal, scale: int) -> str:
    """As BigDecimal.toString: numbers below a millionth have an exponent."""
    digits = "".join(map(str, value.as_tuple().digits)).lstrip("0") or "0"
    exponent = len(digits) - 1 - scale
    if scale <= _PLAIN_ZEROS or exponent >= -_PLAIN_ZEROS:
        return format(value, "f")
    point = "." if len(digits) > 1 else ""
    return f"{'-' if value < 0 else ''}{digits[0]}{point}{digits[1:]}E{exponent}"
