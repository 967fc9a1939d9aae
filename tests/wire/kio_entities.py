"""Messages of `kio` with random content in every version, to hold the codecs written by hand against."""

from __future__ import annotations

import dataclasses
import io
import types
import typing
import uuid
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

_INTEGERS = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
}
_PLAIN: dict[str, st.SearchStrategy[Any]] = {
    **_INTEGERS,
    "string": st.text(st.characters(codec="utf-8"), max_size=20),
    "records": st.binary(max_size=200),
    "bytes": st.binary(max_size=200),
    "bool": st.booleans(),
    "uuid": st.uuids().filter(lambda value: value.int != 0),
    "error_code": st.sampled_from(list(ErrorCode)),
    "timedelta_i32": st.integers(-(2**31), 2**31 - 1).map(lambda value: timedelta(milliseconds=value)),
    # As many as a timedelta can say to the millisecond.
    "timedelta_i64": st.integers(-(2**46), 2**46).map(lambda value: timedelta(milliseconds=value)),
}


def entities(entity: type) -> st.SearchStrategy[Any]:
    """Any value of a message class that goes over the wire as it is."""
    hints = typing.get_type_hints(entity)
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for field in dataclasses.fields(entity):
        if "tag" in field.metadata:
            continue  # Left out: readers must get by without tagged fields; others test that they skip them.
        hint, nullable = _without_none(hints[field.name])
        kind = field.metadata.get("kafka_type")
        if typing.get_origin(hint) is tuple:
            inner = typing.get_args(hint)[0]
            strategy = st.lists(_PLAIN[kind] if kind else entities(inner), max_size=3).map(tuple)
        else:
            strategy = _PLAIN[kind] if kind else entities(hint)
        fields[field.name] = strategy | st.none() if nullable and kind != "uuid" else strategy
    return st.builds(entity, **fields)


def written(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def read(entity: type, data: bytes) -> Any:
    value, size = entity_reader(entity)(data, 0)
    assert size == len(data), "bytes are left over"
    return value


def topic_key(topic: Any) -> str | uuid.UUID:
    """How the codecs name the topic of a kio message, by id or by name."""
    for name in ("topic_id", "name", "topic"):
        if hasattr(topic, name):
            return typing.cast("str | uuid.UUID", getattr(topic, name))
    raise AssertionError(f"{topic} names no topic")


def _without_none(hint: Any) -> tuple[Any, bool]:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        inner = [argument for argument in typing.get_args(hint) if argument is not type(None)]
        return inner[0], True
    return hint, False
