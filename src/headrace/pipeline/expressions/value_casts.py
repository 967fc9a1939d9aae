"""CAST in Python: the other form of what `casts.py` writes in Spark SQL, for values of `values.py`.

`converter` makes a function that converts values of one type to another. Null stays null, and values that do
not convert become null. `casts.cast` decides which types convert to which.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

from headrace.pipeline.expressions.values import (
    BIGINT_RANGE,
    INTEGER_RANGE,
    ValueProblemError,
    milliseconds_of_day,
    time_of,
)
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

Converter = Callable[[Any], Any]

# Exact for all that DECIMAL(38, …) and its products hold.
EXACT: Final = Context(prec=100, rounding=ROUND_HALF_UP)
# What a computation without a result raises.
FAILURES: Final = (ValueError, ArithmeticError, LookupError, ValueProblemError)
_BLANKS: Final = "".join(map(chr, range(0x21)))
_LARGEST_MINUTE: Final = 59
_LARGEST_OFFSET: Final = 1800
_SMALLEST_PLAIN: Final = -3
_LARGEST_PLAIN: Final = 7
_TRUE: Final = frozenset(("t", "tr", "tru", "true", "y", "ye", "yes"))
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_DECIMAL: Final = re.compile(r"[+-]?(\d+[.]?\d*|[.]\d+)([eE][+-]?\d+)?")
_DOUBLE: Final = re.compile(r"([+-]?(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]?")
_DATE: Final = re.compile(r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2}))?)?")
_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.]([0-9]{1,9}))?)?")
_MOMENT: Final = re.compile(
    rf"([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})[T ]({_TIME.pattern})(?:Z|([+-])([0-9]{{2}}):?([0-9]{{2}}))?"
)
_BASE64: Final = re.compile(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}(==)?|[A-Za-z0-9+/]{3}=?)?")


def converter(source: DataType | None, wanted: DataType) -> Converter:
    """A function that converts values of the source type (None: bare NULL) to the wanted type."""
    if source is None:
        return lambda _value: None
    if source == wanted:
        return lambda value: value
    return guarded(_converter(source, wanted))


def guarded(convert: Converter) -> Converter:
    """Adds to a conversion: null gives null, and a failure gives null."""

    def converted(value: Any) -> Any:
        try:
            return None if value is None else convert(value)
        except FAILURES:
            return None

    return converted


def _converter(source: DataType, wanted: DataType) -> Converter:
    match source, wanted:
        case ArrayType(before), ArrayType(after):
            element = converter(before, after)
            return lambda value: [element(each) for each in value]
        case MapType(), MapType():
            key, entry = converter(source.key, wanted.key), converter(source.value, wanted.value)
            return lambda value: map_of((key(name), entry(each)) for name, each in value.items())
        case StructType(), StructType():
            return _struct(source, wanted)
        case _, DecimalType():
            read = decimal_in if source is VARCHAR else decimal_of
            return lambda value: rounded(read(value), wanted)
    if wanted is VARCHAR:
        return as_text(source)
    found = _FROM_TEXT.get(wanted) if source is VARCHAR else _TIMES.get((source, wanted))
    found = found or _NUMBERS.get(wanted)
    if found is None:
        raise TypeError(f"{source} does not become {wanted}")
    return found


def _struct(source: StructType, wanted: StructType) -> Converter:
    before = {field.name: field.type for field in source.fields}
    parts = [(field.name, converter(before.get(field.name), field.type)) for field in wanted.fields]
    return lambda value: {name: convert(value.get(name)) for name, convert in parts}


def map_of(entries: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """The last entry of a key counts; entries with a null key are left out."""
    return {key: value for key, value in entries if key is not None}


# Numbers.


def decimal_of(number: Any) -> Decimal:
    """Takes a double by its shortest decimal form."""
    return Decimal(repr(number)) if isinstance(number, float) else Decimal(number)


def decimal_in(text: str) -> Decimal:
    bare = trimmed(text)
    if not _DECIMAL.fullmatch(bare):
        raise ValueProblemError(f"'{text}' is no number")
    return Decimal(bare)


def rounded(number: Decimal, kind: DecimalType) -> Decimal:
    """Half up to the scale of the type. Raises ValueProblemError if the type has too few digits."""
    if not number.is_finite():
        raise ValueProblemError(f"{number} is no DECIMAL")
    found = number.quantize(Decimal(1).scaleb(-kind.scale), context=EXACT)
    if found.copy_abs() >= Decimal(10) ** (kind.precision - kind.scale):
        raise ValueProblemError(f"{number} has more digits than {kind}")
    return found or found.copy_abs()


def fitting(value: Any, kind: DataType) -> Any:
    """A computed value, rounded if it is a DECIMAL. Raises ValueProblemError if it does not fit."""
    if isinstance(kind, DecimalType):
        return rounded(value, kind)
    bounds = _BOUNDS.get(kind)
    if bounds is not None and value not in bounds:
        raise ValueProblemError(f"{value} does not fit into {kind}")
    return value


def _whole_number_in(bounds: range) -> Converter:
    def convert(value: Any) -> int:
        number = int(value)
        if number not in bounds:
            raise ValueProblemError(f"{number} is too large")
        return number

    return convert


def _whole_number_from_text(bounds: range) -> Converter:
    convert = _whole_number_in(bounds)

    def read(value: str) -> int:
        bare = trimmed(value)
        if not _WHOLE.fullmatch(bare):
            raise ValueProblemError(f"'{value}' is no whole number")
        return int(convert(bare))

    return read


def _double_from_text(value: str) -> float:
    found = _DOUBLE.fullmatch(trimmed(value))
    if found is None or not math.isfinite(number := float(found[1])):
        raise ValueProblemError(f"'{value}' is no number")
    return number


# Dates, times and bytes.


def trimmed(text: str) -> str:
    """Like Java's trim: removes characters up to U+0020 at both ends."""
    return text.strip(_BLANKS)


def _date_from_text(text: str) -> date:
    found = _DATE.fullmatch(text.strip(" "))
    if found is None:
        raise ValueProblemError(f"'{text}' is no date")
    return date(int(found[1]), int(found[2] or 1), int(found[3] or 1))


def _time_from_text(text: str) -> time:
    found = _time_in(text.strip(" "))
    return found.replace(microsecond=found.microsecond // 1000 * 1000)


def _time_in(text: str) -> time:
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueProblemError(f"'{text}' is no time")
    hours, minutes, seconds, fraction = found.groups()
    return time(int(hours), int(minutes), int(seconds or 0), int((fraction or "0").ljust(6, "0")[:6]))


def _timestamp_from_text(text: str) -> datetime:
    found = _MOMENT.fullmatch(text.strip(" "))
    if found is None:
        return _midnight(_date_from_text(text))
    moment = datetime.combine(_date_from_text(found[1]), _time_in(found[2]), UTC)
    sign, hours, minutes = found.groups()[-3:]
    if sign is None:
        return moment
    if int(minutes) > _LARGEST_MINUTE or int(hours + minutes) > _LARGEST_OFFSET:
        raise ValueProblemError(f"'{text}' has no such zone")
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    return moment - offset if sign == "+" else moment + offset


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _bytes_from_text(text: str) -> bytes:
    bare = text.strip(" ")
    if not _BASE64.fullmatch(bare):
        raise ValueProblemError(f"'{text}' is not base64")
    return base64.b64decode(bare + "=" * (-len(bare) % 4))


_BOUNDS: Final[Mapping[DataType, range]] = {INTEGER: INTEGER_RANGE, BIGINT: BIGINT_RANGE}
_NUMBERS: Final[Mapping[DataType, Converter]] = {
    INTEGER: _whole_number_in(INTEGER_RANGE),
    BIGINT: _whole_number_in(BIGINT_RANGE),
    DOUBLE: float,
}
_FROM_TEXT: Final[Mapping[DataType, Converter]] = {
    BOOLEAN: lambda value: value.strip(" ").lower() in _TRUE,
    INTEGER: _whole_number_from_text(INTEGER_RANGE),
    BIGINT: _whole_number_from_text(BIGINT_RANGE),
    DOUBLE: _double_from_text,
    BYTES: _bytes_from_text,
    DATE: _date_from_text,
    TIME: _time_from_text,
    TIMESTAMP: _timestamp_from_text,
}
_TIMES: Final[Mapping[tuple[DataType, DataType], Converter]] = {
    (TIMESTAMP, TIME): lambda value: time_of(milliseconds_of_day(value.time())),
    (TIMESTAMP, DATE): lambda value: value.date(),
    (DATE, TIMESTAMP): _midnight,
}


# Texts.


def as_text(source: DataType) -> Converter:
    """A function that gives the text that Java prints for values of that type."""
    match source:
        case ArrayType(element):
            inner = _part(element)
            return lambda value: f"[{', '.join(inner(each) for each in value)}]"
        case MapType(key, entry):
            of_key, of_value = _part(key), _part(entry)
            return lambda value: (
                "{" + ", ".join(f"{of_key(name)}={of_value(each)}" for name, each in value.items()) + "}"
            )
        case StructType(fields):
            return _struct_text(fields)
        case DecimalType():
            return lambda value: f"{value:f}"
    return _TO_TEXT[source]


def _part(source: DataType) -> Converter:
    """The text of an element. Null also has one."""
    made = as_text(source)
    return lambda value: "null" if value is None else made(value)


def _struct_text(fields: tuple[StructField, ...]) -> Converter:
    # Like Kafka Connect's Struct, leave out null fields.
    parts = [(field.name, as_text(field.type)) for field in fields]

    def convert(value: Any) -> str:
        shown = (f"{name}={made(value[name])}" for name, made in parts if value.get(name) is not None)
        return f"Struct{{{','.join(shown)}}}"

    return convert


def double_text(number: float) -> str:
    """The text that Java prints: with an exponent from ten million on, and below a thousandth."""
    if math.isnan(number):
        return "NaN"
    sign = "-" if math.copysign(1, number) < 0 else ""
    if math.isinf(number):
        return f"{sign}Infinity"
    if number == 0:
        return f"{sign}0.0"
    # Java 17 prints at least two digits of the smallest double.
    shortest = "4.9e-324" if abs(number) == math.ulp(0.0) else repr(abs(number))
    _, digits, exponent = Decimal(shortest).normalize().as_tuple()
    assert isinstance(exponent, int)
    shown = "".join(map(str, digits))
    point = len(shown) + exponent
    if _SMALLEST_PLAIN < point <= _LARGEST_PLAIN:
        whole = shown[: max(point, 0)].ljust(point, "0") or "0"
        fraction = "0" * -point + shown[max(point, 0) :]
        return f"{sign}{whole}.{fraction or '0'}"
    return f"{sign}{shown[0]}.{shown[1:] or '0'}E{point - 1}"


def _time_text(value: time) -> str:
    return value.isoformat("seconds" if value.second else "minutes")


_TO_TEXT: Final[Mapping[DataType, Converter]] = {
    BOOLEAN: lambda value: "true" if value else "false",
    INTEGER: str,
    BIGINT: str,
    DOUBLE: double_text,
    VARCHAR: lambda value: value,
    BYTES: lambda value: base64.b64encode(value).decode(),
    DATE: lambda value: f"{value.year:04}-{value.month:02}-{value.day:02}",
    TIME: _time_text,
    TIMESTAMP: lambda value: value.isoformat(timespec="milliseconds").removesuffix("+00:00"),
}
