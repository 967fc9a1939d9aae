"""Reads schemas of all types, and remembers those read last: the same few are read again and again.

Safe for several threads. Never looks references up: the caller has.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from headrace.core.errors import HeadraceError
from headrace.registry.avro.reading import read_avro
from headrace.registry.json_schema.reading import read_json_schema
from headrace.registry.protobuf.reading import read_protobuf
from headrace.registry.schema import (
    AVRO,
    JSON,
    PROTOBUF,
    SCHEMA_TYPES,
    Reference,
    Referenced,
    Schema,
    invalid_schema,
)

# What was read takes some twenty times as much memory as its text.
_MOST_CHARACTERS: Final = 4_000_000
# A text whose record the log would not take, whatever its topic allows.
LONGEST_TEXT: Final = 900_000
_LONGEST_WITH_REFERENCES: Final = 3_000_000

_READERS: Final = {AVRO: read_avro, JSON: read_json_schema, PROTOBUF: read_protobuf}
_Key = tuple[str, str, tuple[Reference, ...], tuple[Referenced, ...], bool]


class SchemaReader:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[_Key, Schema[object]] = OrderedDict()
        self._characters = 0

    def read(
        self,
        schema_type: str,
        text: str,
        references: tuple[Reference, ...] = (),
        referenced: tuple[Referenced, ...] = (),
        *,
        normalized: bool = False,
    ) -> Schema[object]:
        """Raises invalid_schema, schema_too_large."""
        reads = _READERS.get(schema_type)
        if reads is None:
            raise invalid_schema(
                schema_type, f"there is no such type of schemas; there are {', '.join(SCHEMA_TYPES)}"
            )
        others = sum(len(each.text) for each in referenced)
        length = len(text) + others
        _check_length(len(text), others)
        key = (schema_type, text, references, referenced, normalized)
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
                return known
        schema = reads(text, tuple(references), referenced, normalized=normalized)
        _check_length(len(schema.text), others)
        with self._lock:
            if key not in self._known:
                self._known[key] = schema
                self._characters += length
            while self._characters > _MOST_CHARACTERS and len(self._known) > 1:
                (_, dropped, _, with_it, _), _ = self._known.popitem(last=False)
                self._characters -= len(dropped) + sum(len(each.text) for each in with_it)
        return schema


def _check_length(own: int, others: int) -> None:
    if own > LONGEST_TEXT or own + others > _LONGEST_WITH_REFERENCES:
        raise HeadraceError(
            "schema_too_large",
            f"The schema has {own} characters, and {own + others} with what it refers to; {LONGEST_TEXT} "
            f"and {_LONGEST_WITH_REFERENCES} are allowed.",
        )
