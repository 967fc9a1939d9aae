"""The messages that classic consumers embed in JoinGroup and SyncGroup: subscriptions and assignments.

In a classic group these are mere bytes to the broker, which needs the subscribed topics at most. A group that
changes its kind, or has members of both kinds, has to read subscriptions and write assignments.

Byte format: int16 version 0 to 3, then the message of that version, which `kio` reads and writes. Newer
versions only add fields, so they are read as version 3, and bytes after the message are ignored.

Never: looks at the user data of an assignor.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final

from kio.serial import entity_writer

from headrace.coordination.fields import CorruptRecordError, FieldReader, FieldWriter
from headrace.wire.errors import MalformedRequestError
from headrace.wire.requests import request_reader

_VERSION_SIZE: Final = 2
_WITH_OWNED: Final = 1
_WITH_RACK: Final = 3
_NEWEST: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What a classic consumer offers with each of its assignors."""

    version: int
    topics: frozenset[str]
    owned: Mapping[str, frozenset[int]]
    rack_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicAssignment:
    """What a classic leader assigned to one member."""

    partitions: Mapping[str, frozenset[int]]
    user_data: bytes


def read_subscription(encoded: bytes) -> Subscription:
    """Raises CorruptRecordError."""
    version = _version(encoded)
    message = _read("subscription", version, encoded)
    return Subscription(
        version=version,
        topics=frozenset(message.topics),
        owned=_partitions(message.owned_partitions) if version >= _WITH_OWNED else {},
        rack_id=message.rack_id if version >= _WITH_RACK else None,
    )


def subscribed_topics(encoded: bytes) -> frozenset[str] | None:
    """The topics of a subscription; None if the bytes are not one.

    Like Kafka, this reads only what all versions have: errors after that do no harm.
    """
    try:
        _version(encoded)
        return frozenset(_read("subscription", 0, encoded).topics)
    except CorruptRecordError:
        return None


def read_assignment(encoded: bytes) -> ClassicAssignment:
    """No bytes at all are an empty assignment. Raises CorruptRecordError."""
    if not encoded:
        return ClassicAssignment(partitions={}, user_data=b"")
    message = _read("assignment", _version(encoded), encoded)
    return ClassicAssignment(
        partitions=_partitions(message.assigned_partitions), user_data=message.user_data or b""
    )


def assignment(partitions: Mapping[str, frozenset[int]], version: int) -> bytes:
    """An assignment, in the version of the member's subscription."""
    version = min(version, _NEWEST)
    schema = _schema("assignment", version)
    message = schema.ConsumerProtocolAssignment(
        assigned_partitions=tuple(
            schema.TopicPartition(topic=topic, partitions=tuple(sorted(partitions[topic])))
            for topic in sorted(partitions)
        )
    )
    buffer = io.BytesIO()
    entity_writer(schema.ConsumerProtocolAssignment)(buffer, message)
    return FieldWriter().int16(version).done() + buffer.getvalue()


def version_of(encoded: bytes) -> int:
    """The version of a message, or the oldest if it has none."""
    try:
        return _version(encoded)
    except CorruptRecordError:
        return 0


def _version(encoded: bytes) -> int:
    version = FieldReader(encoded).int16()
    if version < 0:
        raise CorruptRecordError(f"a consumer's message has the version {version}")
    return version


def _read(kind: str, version: int, encoded: bytes) -> Any:
    """`kio`'s message. Raises CorruptRecordError."""
    try:
        return _reader(kind, min(version, _NEWEST))(encoded[_VERSION_SIZE:])
    except MalformedRequestError as error:
        raise CorruptRecordError(f"a consumer's {kind} cannot be read: {error}") from error


@cache
def _reader(kind: str, version: int) -> Callable[[bytes], Any]:
    message = getattr(_schema(kind, version), f"ConsumerProtocol{kind.capitalize()}")
    return request_reader(message, message)


@cache
def _schema(kind: str, version: int) -> Any:
    """Imported when first needed: importing all versions would slow down the start of every broker."""
    return import_module(f"kio.schema.consumer_protocol_{kind}.v{version}.data")


def _partitions(topics: Iterable[Any]) -> dict[str, frozenset[int]]:
    return {topic.topic: frozenset(topic.partitions) for topic in topics if topic.partitions}
