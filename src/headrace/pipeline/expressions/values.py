"""Values of ksqlDB's types in Python, outside Spark, for inserted rows, pull queries and responses.

BOOLEAN bool · INTEGER, BIGINT int · DOUBLE float · DECIMAL Decimal · VARCHAR str · BYTES bytes · DATE date ·
TIME time · TIMESTAMP datetime in UTC · ARRAY list · MAP dict · STRUCT dict by field name; NULL is None.

`coerced` converts a value to a type where ksqlDB converts implicitly; `value_casts.py` has explicit casts.
`shown` is the value in ksqlDB's REST API. Moments lie in the years 1 to 9999.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, Final

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
    ScalarType,
    StructType,
)

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_DAY: Final = date(1970, 1, 1)
MILLISECONDS_OF_DAY: Final = 86_400_000
INTEGER_RANGE: Final = range(-(2**31), 2**31)
BIGINT_RANGE: Final = range(-(2**63), 2**63)
# Python's own context has 28 digits, and a DECIMAL up to 38.
_MANY_DIGITS: Final = Context(prec=100)


class ValueProblemError(Exception):
    """A value does not fit its type; the message says which value and why."""


def timestamp_of(milliseconds: int) -> datetime:
    try:
        return EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError as error:
        raise ValueProblemError(f"{milliseconds} ms lie outside the years 1 to 9999") from error


def milliseconds_of(timestamp: datetime) -> int:
    return (timestamp - EPOCH) // timedelta(milliseconds=1)


def date_of(days: int) -> date:
    try:
        return EPOCH_DAY + timedelta(days=days)
    except OverflowError as error:
        raise ValueProblemError(f"{days} days lie outside the years 1 to 9999") from error


def days_of(value: date) -> int:
    return (value - EPOCH_DAY).days


def time_of(milliseconds: int) -> time:
    if not 0 <= milliseconds < MILLISECONDS_OF_DAY:
        raise ValueProblemError(f"{milliseconds} ms are no time of the day")
    return (EPOCH + timedelta(milliseconds=milliseconds)).time()


def milliseconds_of_day(value: time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000


def parsed_timestamp(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueProblemError(f"'{text}' is no timestamp such as 2024-05-01T12:30:00.000") from error
    found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    return found.replace(microsecond=found.microsecond // 1000 * 1000)


def parsed_date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ValueProblemError(f"'{text}' is no date such as 2024-05-01") from error


def parsed_time(text: str) -> time:
    try:
        return time.fromisoformat(text)
    except ValueError as error:
        raise ValueProblemError(f"'{text}' is no time such as 12:30:00") from error


def coerced(value: Any, kind: DataType) -> Any:
    """Converts the value to that type. Raises ValueProblemError."""
    if value is None:
        return None
    if isinstance(kind, ArrayType):
        return [coerced(element, kind.element) for element in _expect(value, list, kind)]
    if isinstance(kind, MapType):
        entries = _expect(value, dict, kind).items()
        return {coerced(key, kind.key): coerced(element, kind.value) for key, element in entries}
    if isinstance(kind, StructType):
        return _coerced_struct(_expect(value, dict, kind), kind)
    if isinstance(kind, DecimalType):
        return fitting_decimal(_number(value, kind), kind)
    if not isinstance(kind, ScalarType):
        raise ValueProblemError(f"the type {kind} is not known")
    return _SCALARS[kind](value)


def _expect(value: Any, wanted: type, kind: DataType) -> Any:
    if isinstance(value, wanted):
        return value
    raise ValueProblemError(f"expected type {kind} but got {type_name(value)} ({value})")


def _coerced_struct(value: dict[str, Any], kind: StructType) -> dict[str, Any]:
    given = {_matching(name, kind): element for name, element in value.items()}
    return {field.name: coerced(given.get(field.name), field.type) for field in kind.fields}


def _matching(name: str, kind: StructType) -> str:
    if kind.field(name) is not None:
        return name
    if kind.field(name.upper()) is not None:
        return name.upper()
    raise ValueProblemError(f"{kind} has no field {name}")


def _number(value: Any, kind: DataType) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal, str)):
        raise ValueProblemError(f"expected type {kind} but got {type_name(value)} ({value})")
    try:
        number = Decimal(str(value))
    except InvalidOperation as error:
        raise ValueProblemError(f"expected type {kind} but got '{value}'") from error
    if not number.is_finite():
        raise ValueProblemError(f"expected type {kind} but got {value}")
    return number


def fitting_decimal(number: Decimal, kind: DecimalType) -> Decimal:
    """Raises ValueProblemError."""
    try:
        rounded = number.quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, _MANY_DIGITS)
    except InvalidOperation as error:
        raise ValueProblemError(f"{number} has more digits than {kind}") from error
    if len(rounded.as_tuple().digits) - kind.scale > kind.precision - kind.scale and rounded != 0:
        raise ValueProblemError(f"{number} has more digits than {kind}")
    return rounded


def _boolean(value: Any) -> bool:
    return bool(_expect(value, bool, BOOLEAN))


def _integer_in(bounds: range, kind: DataType) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueProblemError(f"expected type {kind} but got {type_name(value)} ({value})")
        if value not in bounds:
            raise ValueProblemError(f"{value} does not fit into {kind}")
        return value

    return check


def _double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise ValueProblemError(f"expected type DOUBLE but got {type_name(value)} ({value})")
    return float(value)


def _text(value: Any) -> str:
    return str(_expect(value, str, VARCHAR))


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error as error:
            raise ValueProblemError(f"'{value}' is not base64") from error
    return bytes(_expect(value, bytes, BYTES))


def _date(value: Any) -> date:
    if isinstance(value, str):
        return parsed_date(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return date_of(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    raise ValueProblemError(f"expected type DATE but got {type_name(value)} ({value})")


def _time(value: Any) -> time:
    if isinstance(value, str):
        return parsed_time(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return time_of(value)
    found: time = _expect(value, time, TIME)
    return found


def _timestamp(value: Any) -> datetime:
    if isinstance(value, str):
        return parsed_timestamp(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return timestamp_of(value)
    found: datetime = _expect(value, datetime, TIMESTAMP)
    return found


_SCALARS: Final[dict[ScalarType, Callable[[Any], Any]]] = {
    BOOLEAN: _boolean,
    INTEGER: _integer_in(INTEGER_RANGE, INTEGER),
    BIGINT: _integer_in(BIGINT_RANGE, BIGINT),
    DOUBLE: _double,
    VARCHAR: _text,
    BYTES: _bytes,
    DATE: _date,
    TIME: _time,
    TIMESTAMP: _timestamp,
}


def type_name(value: Any) -> str:
    """Roughly ksqlDB's name for the value's type, for messages and for columns without a type."""
    names: tuple[tuple[type, str], ...] = (
        (bool, "BOOLEAN"),
        (int, "INTEGER" if isinstance(value, int) and value in INTEGER_RANGE else "BIGINT"),
        (float, "DOUBLE"),
        (Decimal, "DECIMAL"),
        (str, "STRING"),
        (bytes, "BYTES"),
        (datetime, "TIMESTAMP"),
        (date, "DATE"),
        (time, "TIME"),
        (list, "ARRAY"),
        (dict, "STRUCT or MAP"),
    )
    return next((name for kind, name in names if isinstance(value, kind)), "NULL")


def shown(value: Any) -> Any:  # noqa: PLR0911 - one for each type
    """The value in a JSON response. Decimals stay Decimals and are written as numbers."""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}"
    if isinstance(value, time):
        return value.isoformat("milliseconds") if value.microsecond else value.isoformat("seconds")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [shown(element) for element in value]
    if isinstance(value, dict):
        return {_key_text(key): shown(element) for key, element in value.items()}
    return value


def _key_text(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(shown(key))
