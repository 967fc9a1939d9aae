"""Single JSON values as rows, where they are plain: objects whose fields are spelled as their columns, with
texts, booleans and numbers of just the type of the column, and objects and arrays of such.

Everything else raises UnsureError: `pipeline/spark/lake/json_values.py` has rules for it that are not
repeated here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NoReturn

from headrace.lake.column_names import column_name
from headrace.lake.types import Array, Simple, Struct, Type
from headrace.query.tail.outcomes import UnsureError
from headrace.query.tail.single_casting import nearest_single

_WHOLE: Final = {Simple.INT: 2**31, Simple.BIGINT: 2**63}
_EXACT: Final = {Simple.FLOAT: 2**24, Simple.DOUBLE: 2**53}
# Spark's variants have a limit.
_MOST_BYTES: Final = 1024 * 1024


def json_row(value: bytes, columns: Struct, *, is_strict: bool = False) -> Mapping[str, Any]:
    """`is_strict`: fields that are no columns are not ignored. Raises UnsureError."""
    found = parsed(value)
    if not isinstance(found, dict):
        raise UnsureError("a value is not a JSON object")
    return _record(found, columns, is_strict=is_strict)


def parsed(value: bytes) -> Any:
    """Raises UnsureError."""
    if len(value) > _MOST_BYTES:
        raise UnsureError("a value is very long")
    try:
        return json.loads(value.decode(), object_pairs_hook=_pairs, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise UnsureError("a value is not plain JSON") from error


def plain_value(value: Any, kind: Type) -> Any:
    """A single value of just that type. Raises UnsureError."""
    match value:
        case bool() if kind is Simple.BOOLEAN:
            return value
        case bool():
            pass
        case int() if kind in _WHOLE and -_WHOLE[kind] <= value < _WHOLE[kind]:
            return value
        case int() if kind in _EXACT and abs(value) < _EXACT[kind]:
            return float(value)
        case float() if not value and math.copysign(1, value) < 0:
            # Some ways of reading it keep the sign.
            pass
        case float() if kind is Simple.DOUBLE and abs(value) < float("inf"):
            return value
        case float() if kind is Simple.FLOAT and abs(value) < float("inf"):
            return nearest_single(repr(value))
        case str() if kind is Simple.STRING and is_text(value):
            return value
    raise UnsureError("a field has another type than its column")


def same_names(fields: Iterable[str], names: Collection[str]) -> None:
    """Raises UnsureError if a field is one of these by another spelling."""
    keys: frozenset[str] = frozenset()
    for each in fields:
        if each not in names:
            keys = keys or _keys(tuple(names))
            if _key(each) in keys:
                raise UnsureError("a field is spelled otherwise than its column")


def _record(fields: Mapping[str, Any], columns: Struct, *, is_strict: bool) -> dict[str, Any]:
    row: dict[str, Any] = {}
    names = {each.name: each.type for each in columns.fields}
    same_names(fields, names)
    for name, each in fields.items():
        if each is None:
            continue
        kind = names.get(name)
        if kind is not None:
            row[name] = _fitted(each, kind, is_strict=is_strict)
        elif is_strict:
            raise UnsureError("a field is no column yet")
    return row


def _fitted(value: Any, kind: Type, *, is_strict: bool) -> Any:
    match value, kind:
        case dict(), Struct():
            return _record(value, kind, is_strict=is_strict)
        case list(), Array():
            return [
                None if each is None else _fitted(each, kind.element, is_strict=is_strict) for each in value
            ]
        case _:
            return plain_value(value, kind)


@lru_cache(maxsize=1_024)
def _keys(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(map(_key, names))


@lru_cache(maxsize=65_536)
def _key(name: str) -> str:
    return column_name(name).upper()


def is_text(value: str) -> bool:
    """An escape can stand for half of a pair of surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len({_key(name) for name in found}) < len(pairs):
        raise ValueError("a field comes twice")
    return found


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
