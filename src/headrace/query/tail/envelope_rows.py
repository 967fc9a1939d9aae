"""Single JSON values with schemas, `{"schema": …, "payload": …}`, as rows: the rules of
`pipeline/spark/lake/envelope_values.py`, where values are plain.

Numbers of another form than their type, texts that are not as Base64 writes them, names that are spelled
otherwise and so on raise UnsureError.
"""

from __future__ import annotations

import base64
import binascii
import decimal
import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from headrace.core.errors import HeadraceError
from headrace.lake.avro_columns import VALUE, columns_of_shape
from headrace.lake.column_names import within
from headrace.lake.connect_schemas import connect_shape_of
from headrace.lake.shapes import MOST_DIGITS, Items, Leaf, Record, Shape, Stored, Values, type_of
from headrace.lake.types import Array, Decimal, Map, Simple, Struct, Type, ddl
from headrace.query.tail.fitting import WIDE, misfit, single, stored
from headrace.query.tail.json_rows import is_text, parsed, plain_value, same_names
from headrace.query.tail.outcomes import RefusedError, UnsureError

# The longest number that Spark is given has a length in one byte.
_MOST_BYTES: Final = 63
_MOST_SCHEMAS: Final = 64
_PARTS: Final = {"schema", "payload"}

Read = Callable[[Any], Any]


class EnvelopeSide:
    """Values, or keys, with their schemas. Remembers the reader of each schema.

    `check` says why a record with these columns cannot be read here; empty if it can.
    """

    def __init__(self, columns: Struct, *, side: str, check: Callable[[Struct], str] | None = None) -> None:
        self._columns = columns
        self._side = side
        self._check = check
        self._reader = lru_cache(maxsize=_MOST_SCHEMAS)(self._made)

    def read(self, raw: bytes) -> Mapping[str, Any] | None:
        envelope = parsed(raw)
        if not isinstance(envelope, dict) or envelope.keys() != _PARTS:
            raise RefusedError(
                f'The {self._side} is not a JSON object with the fields "schema" and "payload" only.'
            )
        schema, payload = envelope["schema"], envelope["payload"]
        if schema is None:
            if payload is not None:
                raise RefusedError(f"The {self._side} has no schema.")
            return None
        if not isinstance(schema, dict):
            raise UnsureError("a schema is not a JSON object")
        read = self._reader(json.dumps(schema))
        if payload is None:
            return None
        found: Mapping[str, Any] | None = read(payload)
        return found

    def _made(self, schema: str) -> Read:
        try:
            shape = connect_shape_of(schema)
        except HeadraceError as error:
            message = error.message

            def refuse(_: Any) -> Any:
                raise RefusedError(message)

            return refuse
        why = "" if self._check is None else self._check(columns_of_shape(shape))
        if why:

            def leave(_: Any) -> Any:
                raise UnsureError(why)

            return leave
        if isinstance(shape, Record) and not shape.is_pair:
            return _record(shape, self._columns, "")
        column = self._columns.find(VALUE)
        if column is None:
            return lambda _: {}
        name, read = column.name, _reader(shape, column.type, VALUE)
        return lambda payload: {name: read(payload)}


def _reader(shape: Shape, target: Type, path: str) -> Read:
    read = _present(shape, target, path)
    return lambda value: None if value is None else read(value)


def _present(shape: Shape, target: Type, path: str) -> Read:
    match shape, target:
        case Leaf(), _:
            return _leaf(shape, target, path)
        case Record(is_pair=False), Struct():
            return _record(shape, target, path)
        case Items(), Array():
            element = _reader(shape.element, target.element, f"{path}[]")
            return lambda value: [element(each) for each in _of(value, list, path)]
        case Values(), Map():
            inner = _reader(shape.value, target.value, f"{path}[]")
            return lambda value: [
                (key if is_text(key) else _leave(path), inner(each))
                for key, each in _of(value, dict, path).items()
            ]
        case Record(is_pair=True), _:
            return _unsure(path)
        case _:
            kind = type_of(shape)
            return (lambda _: None) if kind is None else misfit(ddl(kind), target, path)


def _record(record: Record, target: Struct, path: str) -> Read:
    parts = []
    for part in record.fields:
        column = target.find(part.name)
        if column is not None:
            at = within(path, column.name)
            parts.append((part.source, column.name, _reader(part.shape, column.type, at)))
    sources = frozenset(part.source for part in record.fields)

    def read(value: Any) -> dict[str, Any]:
        fields = _of(value, dict, path)
        same_names(fields, sources)
        return {name: part(fields.get(source)) for source, name, part in parts}

    return read


def _leaf(leaf: Leaf, target: Type, path: str) -> Read:
    if leaf.stored is Stored.DECIMAL:
        assert isinstance(leaf.type, Decimal)
        scale = leaf.type.scale
        of_number = single(Decimal(precision=MOST_DIGITS, scale=scale), target, path)
        return lambda value: of_number(_unscaled(value, scale, path))
    if leaf.stored is Stored.PLAIN:
        if leaf.type is Simple.BINARY:
            fit = single(leaf.type, target, path)
            return lambda value: fit(_binary(value, path))
        fit = single(leaf.type, target, path)
        return lambda value: fit(plain_value(value, leaf.type))
    number = Simple.INT if leaf.stored is Stored.DATE else Simple.BIGINT
    moment = stored(leaf, path)
    of_moment = single(leaf.type, target, path)
    return lambda value: of_moment(moment(plain_value(value, number)))


def _unscaled(value: Any, scale: int, path: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return int(decimal.Decimal(value).scaleb(scale, WIDE)) if abs(value) < 10**18 else _leave(path)
    content = _binary(value, path)
    if not 1 <= len(content) <= _MOST_BYTES:
        return int(_leave(path))
    return int.from_bytes(content, "big", signed=True)


def _binary(value: Any, path: str) -> bytes:
    if not isinstance(value, str):
        return bytes(_leave(path))
    try:
        content = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return bytes(_leave(path))
    return content if base64.b64encode(content).decode() == value else bytes(_leave(path))


def _of(value: Any, kind: type, path: str) -> Any:
    if not isinstance(value, kind):
        raise RefusedError(f"Field {path or VALUE} has a value of another kind than its schema says.")
    return value


def _unsure(path: str) -> Read:
    return lambda _: _leave(path)


def _leave(path: str) -> Any:
    raise UnsureError(f"field {path} has a value that only the lake reads")
