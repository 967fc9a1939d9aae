"""The format in which classic consumers say what they subscribe to and hear what they are assigned.

To the broker of a classic group these are bytes. A group that changes its kind, or has members of both
kinds, has to read the one and write the other.

Byte format: int16 version 0 to 3, then plain encoding. Subscription: topics, user data or null, from 1
the partitions owned, from 2 the int32 generation in which, from 3 the rack or null. Assignment, alike in
all versions: topics with their partitions, user data or null. A newer version is read as version 3:
fields are only ever added.

Never: what the user data of an assignor means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.coordination.fields import CorruptRecordError, FieldReader, FieldWriter

_WITH_OWNED: Final = 1
_WITH_GENERATION: Final = 2
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
    reader = FieldReader(encoded)
    version = _version(reader)
    topics = frozenset(reader.string() for _ in range(reader.array_length()))
    reader.nullable_octets()
    owned = _read_partitions(reader) if version >= _WITH_OWNED else {}
    if version >= _WITH_GENERATION:
        reader.int32()
    rack_id = reader.nullable_string() if version >= _WITH_RACK else None
    return Subscription(version=version, topics=topics, owned=owned, rack_id=rack_id)


def read_assignment(encoded: bytes) -> ClassicAssignment:
    """That of a member without one is empty. Raises CorruptRecordError."""
    if not encoded:
        return ClassicAssignment(partitions={}, user_data=b"")
    reader = FieldReader(encoded)
    _version(reader)
    partitions = _read_partitions(reader)
    return ClassicAssignment(partitions=partitions, user_data=reader.nullable_octets() or b"")


def assignment(partitions: Mapping[str, frozenset[int]], version: int) -> bytes:
    """In the version in which the member subscribed."""
    writer = FieldWriter().int16(min(version, _NEWEST)).array_length(len(partitions))
    for topic in sorted(partitions):
        writer.string(topic).array_length(len(partitions[topic]))
        for number in sorted(partitions[topic]):
            writer.int32(number)
    return writer.nullable_octets(None).done()


def _version(reader: FieldReader) -> int:
    version = reader.int16()
    if version < 0:
        raise CorruptRecordError(f"a consumer's message of version {version}")
    return version


def _read_partitions(reader: FieldReader) -> dict[str, frozenset[int]]:
    found: dict[str, frozenset[int]] = {}
    for _ in range(reader.array_length()):
        topic = reader.string()
        found[topic] = frozenset(reader.int32() for _ in range(reader.array_length()))
    return {topic: numbers for topic, numbers in found.items() if numbers}


def version_of(encoded: bytes) -> int:
    """The version of a message; the oldest where it has none."""
    try:
        return _version(FieldReader(encoded))
    except CorruptRecordError:
        return 0
