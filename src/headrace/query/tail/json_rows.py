"""Single JSON values as rows, where they are plain: objects whose fields are spelled as their columns, with
texts, booleans and numbers of just the type of the column.

Everything else raises UnsureError: `pipeline/spark/lake/json_values.py` has rules for it that are not
repeated here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from headrace.lake.types import Simple, Struct
from headrace.query.tail.outcomes import UnsureError

_WHOLE: Final = {Simple.INT: 2**31, Simple.BIGINT: 2**63}
_EXACT: Final = 2**53


def json_row(value: bytes, columns: Struct) -> Mapping[str, Any]:
    """Raises UnsureError."""
    try:
        found = json.loads(value.decode(), object_pairs_hook=_pairs, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise UnsureError("a value is not plain JSON") from error
    if not isinstance(found, dict):
        raise UnsureError("a value is not a JSON object")
    row: dict[str, Any] = {}
    for name, each in found.items():
        column = columns.find(name)
        if column is None or each is None:
            continue
        if column.name != name:
            raise UnsureError("a field is spelled otherwise than its column")
        row[name] = _fitted(each, column.type)
    return row


def _fitted(value: Any, kind: Any) -> Any:
    match value:
        case bool() if kind is Simple.BOOLEAN:
            return value
        case bool():
            pass
        case int() if kind in _WHOLE and -_WHOLE[kind] <= value < _WHOLE[kind]:
            return value
        case int() if kind is Simple.DOUBLE and abs(value) < _EXACT:
            return float(value)
        case float() if kind is Simple.DOUBLE and abs(value) < float("inf"):
            return value
        case str() if kind is Simple.STRING and _is_text(value):
            return value
    raise UnsureError("a field has another type than its column")


def _is_text(value: str) -> bool:
    """An escape can stand for half of a pair of surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len({name.casefold() for name in found}) < len(pairs):
        raise ValueError("a field comes twice")
    return found


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
