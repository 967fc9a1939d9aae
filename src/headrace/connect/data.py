"""Records as connectors see them: values with schemas, between the bytes of a topic and the outside world.

A value is what Python has for it: None, bool, int, float, str, bytes, a list, or a dict. A dict is a struct
if its schema says so, and a map otherwise. Values without a schema are as valid as in Kafka Connect. Never
knows an encoding: that is `converters.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A schema of Connect's. `name` tells logical types, such as org.apache.kafka.connect.data.Timestamp."""

    type: str
    optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    default: Any = None
    fields: tuple[tuple[str, Schema], ...] = ()
    # Of an array, and of a map.
    items: Schema | None = None
    keys: Schema | None = None
    values: Schema | None = None


STRING: Final = Schema(type="string")
OPTIONAL_STRING: Final = Schema(type="string", optional=True)
OPTIONAL_BYTES: Final = Schema(type="bytes", optional=True)

# Name, value and schema.
Header = tuple[str, Any, Schema | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord:
    """What a source task gives. `source_offset` says where in `source_partition` to go on after it; a record
    without a partition leaves no offset.
    """

    topic: str
    value: Any
    value_schema: Schema | None = None
    key: Any = None
    key_schema: Schema | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: tuple[Header, ...] = ()
    source_partition: Mapping[str, Any] | None = None
    source_offset: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRecord:
    """What a sink task gets."""

    topic: str
    partition: int
    offset: int
    value: Any
    value_schema: Schema | None = None
    key: Any = None
    key_schema: Schema | None = None
    timestamp_ms: int | None = None
    headers: tuple[Header, ...] = ()


class DataError(Exception):
    """A value does not fit its schema, or bytes are not what the converter expects."""


class RetriableError(Exception):
    """A task could not take or give records now, but may if it is asked again."""
