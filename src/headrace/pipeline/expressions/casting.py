"""CAST in Python: as ksqlDB casts, null where it gives null."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from headrace.pipeline.expressions.values import (
    BIGINT_RANGE,
    INTEGER_RANGE,
    ValueProblemError,
    coerced,
    fitting_decimal,
    shown,
)
from headrace.pipeline.statements.types import (
    BIGINT,
    BOOLEAN,
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
)


def cast(value: Any, kind: DataType) -> Any:
    """None where the value cannot be had in that type."""
    if value is None:
        return None
    try:
        return _cast(value, kind)
    except (ValueProblemError, InvalidOperation, ValueError, OverflowError):
        return None


def _cast(value: Any, kind: DataType) -> Any:  # noqa: PLR0911 - one for each type
    if kind is VARCHAR:
        return text_of(value)
    if kind is BOOLEAN and isinstance(value, str):
        return {"true": True, "yes": True, "t": True, "y": True}.get(value.strip().lower(), False)
    if kind in {INTEGER, BIGINT}:
        number = int(Decimal(value.strip())) if isinstance(value, str) else int(value)
        return number if number in (INTEGER_RANGE if kind is INTEGER else BIGINT_RANGE) else None
    if kind is DOUBLE:
        return float(value)
    if isinstance(kind, DecimalType):
        return fitting_decimal(Decimal(str(value).strip()), kind)
    if kind is DATE and isinstance(value, datetime):
        return value.date()
    if kind is TIME and isinstance(value, datetime):
        return value.time()
    if kind is TIMESTAMP and isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    if isinstance(kind, ArrayType) and isinstance(value, list):
        return [cast(element, kind.element) for element in value]
    if isinstance(kind, MapType) and isinstance(value, dict):
        return {cast(key, kind.key): cast(element, kind.value) for key, element in value.items()}
    return coerced(value, kind)


def text_of(value: Any) -> str:
    """As ksqlDB prints a value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (datetime, date, time, bytes)):
        return str(shown(value))
    if isinstance(value, (list, dict)):
        return json.dumps(shown(value), default=str, ensure_ascii=False)
    return str(value)
