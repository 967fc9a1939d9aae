"""Reads the keys of a batch's records directly from the bytes, without creating record values.

This runs for every compacted record and determines the speed of compaction. A key of up to 63 bytes is
remembered as it is, a longer one as its 64-byte BLAKE2b digest, which cannot be confused with a shorter key.

Byte format: `wire.records`. Crash behaviour: nothing is written. Who may call: the cleaner. Raises
CorruptBatchError for records that cannot be parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from hashlib import blake2b
from struct import Struct
from struct import error as StructError  # noqa: N812 - the standard library's name says nothing on its own
from typing import Any, Final, NamedTuple

from headrace.wire.errors import CorruptBatchError
from headrace.wire.records import read_varint

_LONGEST_PLAIN: Final = 63
_DIGEST_SIZE: Final = _LONGEST_PLAIN + 1
_VARLONG_BITS: Final = 64
_ONE_BYTE_DELTAS: Final = 64
_DELTAS: Final = 8192
_TOMBSTONE: Final = 1


_Unpack = Callable[[bytes, int], tuple[Any, ...]]


class LocatedRecord(NamedTuple):
    """The positions of the parts of a record in the bytes of its batch."""

    delta: int
    timestamp_delta: int
    start: int
    behind_timestamp: int
    finish: int
    key: bytes | None
    tombstone: bool


class BatchKeys(NamedTuple):
    """The records of a batch that have keys, in order, with the keys as they are remembered."""

    keys: list[bytes]
    deltas: Sequence[int]
    tombstones: list[int]
    """The deltas of records without a value."""
    gapped: bool
    """Whether the numbering of the records has gaps or does not begin at 0."""


class _Layout(NamedTuple):
    """How to read the numbers before a record's key, for one combination of their widths."""

    unpack_by_key: list[_Unpack]
    """By the byte that holds the length of the key: length of the record, timestamp (with the attributes
    where that makes a width that `struct` has), delta, length of the key, key, first byte of what follows."""
    sizes: list[int]
    """The size of a record by the bytes of its length; 0 if the length has another width."""
    timestamp_mask: int
    timestamp_bits: int
    """The bits that give the width of the timestamp, and their required value."""
    delta_mask: int
    delta_bits: int
    """The same for the delta."""


# By the width of the timestamp: format, the bits that mark its end, and their required value.
_TIMESTAMPS: Final = {
    1: ("H", 0x8000, 0),
    2: ("xH", 0x8080, 0x80),
    3: ("I", 0x80808000, 0x808000),
    4: ("xI", 0x80808080, 0x808080),
}
_DELTA_BITS: Final = {1: (0x80, 0), 2: (0x8080, 0x80)}
_NARROW: Final = {1: "B", 2: "H"}


@cache
def record_sizes(width: int = 2) -> list[int]:
    """The size of a record by its first one or two bytes; 0 if its length has another width."""
    if width == 1:
        return [0 if byte & 0x81 else 1 + (byte >> 1) for byte in range(0x100)]
    sizes = [0] * 0x10000
    for low in range(0x80, 0x100, 2):
        for high in range(0x80):
            sizes[low | high << 8] = 2 + ((low & 0x7F | high << 7) >> 1)
    return sizes


@cache
def _usual_deltas() -> list[int]:
    """The encoded offset deltas of one and two bytes, first byte lowest."""
    short = [number << 1 for number in range(_ONE_BYTE_DELTAS)]
    return short + [
        number << 1 & 0x7F | 0x80 | number >> 6 << 8 for number in range(_ONE_BYTE_DELTAS, _DELTAS)
    ]


def _unusual(_data: bytes, _position: int) -> tuple[Any, ...]:
    """For a record with a long or missing key: return an impossible delta."""
    return 0, 0, -1, 0, b"", 0


@cache
def _layout(length_width: int, timestamp_width: int, delta_width: int) -> _Layout | None:
    if not (length_width in _NARROW and timestamp_width in _TIMESTAMPS and delta_width in _NARROW):
        return None
    timestamp, mask, bits = _TIMESTAMPS[timestamp_width]
    numbers = f"<{_NARROW[length_width]}{timestamp}{_NARROW[delta_width]}B"
    unpack: list[_Unpack] = [_unusual] * 0x100
    for size in range(_LONGEST_PLAIN + 1):
        unpack[size << 1] = Struct(f"{numbers}{size}sB").unpack_from
    return _Layout(unpack, record_sizes(length_width), mask, bits, *_DELTA_BITS[delta_width])


def _layout_at(data: bytes, position: int) -> tuple[_Layout, int] | None:
    """The layout of the record at a position, and the length of its key; None if it is unusual."""
    widths = []
    try:
        for skipped in (0, 1, 0):
            start = position = position + skipped
            while data[position] & 0x80:
                position += 1
            position += 1
            widths.append(position - start)
        key = data[position]
    except IndexError:
        return None
    layout = _layout(*widths)
    return None if layout is None or key & 0x81 else (layout, key)


def stands_for(key: bytes) -> bytes:
    """The form in which a key is remembered."""
    return key if len(key) <= _LONGEST_PLAIN else blake2b(key, digest_size=_DIGEST_SIZE).digest()


def locate_records(data: bytes, count: int, position: int = 0) -> list[LocatedRecord]:
    """The records of a batch from a position on, one by one. Raises CorruptBatchError."""
    located = []
    for _ in range(count):
        start = position
        size, position = read_varint(data, position)
        finish = position + size
        timestamp_delta, behind = read_varint(data, position + 1, _VARLONG_BITS)
        delta, position = read_varint(data, behind)
        key_size, position = read_varint(data, position)
        key = data[position : position + key_size] if key_size >= 0 else None
        value_size, _ = read_varint(data, position + max(key_size, 0))
        if size < 0 or finish > len(data):
            raise CorruptBatchError(f"a record of {size} bytes, {len(data) - start} are left")
        located.append(
            LocatedRecord(
                delta,
                timestamp_delta,
                start,
                behind,
                finish,
                stands_for(key) if key is not None else None,
                value_size < 0,
            )
        )
        position = finish
    if position != len(data):
        raise CorruptBatchError("Incorrect declared batch size, records still remaining in file")
    return located


def keys_of(data: bytes, count: int) -> BatchKeys:
    """The keys of a batch. Raises CorruptBatchError."""
    keys, tombstones, position = _usual_keys(data, count)
    if len(keys) == count and position == len(data):
        return BatchKeys(keys, range(count), tombstones, False)
    # Usually a batch that was compacted before and has gaps.
    keys, deltas, tombstones, position = _usual_keys_with_gaps(data, count)
    gapped = deltas != list(range(len(keys)))
    for number, record in enumerate(locate_records(data, count - len(keys), position), len(keys)):
        gapped |= record.delta != number
        # Records without a key do not survive.
        if record.key is not None:
            keys.append(record.key)
            deltas.append(record.delta)
            if record.tombstone:
                tombstones.append(record.delta)
    return BatchKeys(keys, deltas, tombstones, gapped)


def _usual_keys(data: bytes, count: int) -> tuple[list[bytes], list[int], int]:
    """The keys of a batch's records, from the first up to the first unusual one.

    Usual records have deltas without gaps, a short key, and numbers that are not very large. Then the
    positions of the numbers before the key rarely change from one record to the next, and one call reads all
    of them and the key. Return the keys, the deltas of tombstones, and where the records end. Deliberately
    flat: this is where compaction spends its time.
    """
    keys: list[bytes] = []
    tombstones: list[int] = []
    append = keys.append
    position = 0
    found = _layout_at(data, 0)
    if found is None:
        return keys, tombstones, 0
    (unpack_by_key, sizes, mask, bits, _, _), same = found
    unpack = unpack_by_key[same]
    try:
        for wanted in _usual_deltas()[:count]:
            length, timestamp, delta, key_size, key, following = unpack(data, position)
            if key_size != same:
                same = key_size
                unpack = unpack_by_key[same]
                length, timestamp, delta, key_size, key, following = unpack(data, position)
            size = sizes[length]
            if delta != wanted or not size or timestamp & mask != bits or following == _TOMBSTONE:
                found = _layout_at(data, position)
                if found is None:
                    break
                (unpack_by_key, sizes, mask, bits, _, _), same = found
                unpack = unpack_by_key[same]
                length, timestamp, delta, key_size, key, following = unpack(data, position)
                size = sizes[length]
                if delta != wanted or not size:
                    break
                if following == _TOMBSTONE:
                    tombstones.append(len(keys))
            append(key)
            position += size
    except StructError:
        # Near the end of the bytes: a short record, or damage.
        pass
    return keys, tombstones, position


def _usual_keys_with_gaps(data: bytes, count: int) -> tuple[list[bytes], list[int], list[int], int]:
    """Like `_usual_keys`, but for any deltas, which are returned after the keys."""
    keys: list[bytes] = []
    raw: list[int] = []
    tombstones: list[int] = []
    position = 0
    unpack: _Unpack = _unusual
    unpack_by_key = [unpack] * 0x100
    sizes, mask, bits, same = record_sizes(), 0, 0, 0
    delta_mask, delta_bits = 0x80, 0
    try:
        for _ in range(count):
            length, timestamp, delta, key_size, key, following = unpack(data, position)
            if key_size != same:
                same = key_size
                unpack = unpack_by_key[same]
                length, timestamp, delta, key_size, key, following = unpack(data, position)
            size = sizes[length]
            if (
                delta & delta_mask != delta_bits
                or not size
                or timestamp & mask != bits
                or following == _TOMBSTONE
            ):
                found = _layout_at(data, position)
                if found is None:
                    break
                (unpack_by_key, sizes, mask, bits, delta_mask, delta_bits), same = found
                unpack = unpack_by_key[same]
                length, timestamp, delta, key_size, key, following = unpack(data, position)
                size = sizes[length]
                if not size:
                    break
                if following == _TOMBSTONE:
                    tombstones.append(len(keys))
            keys.append(key)
            raw.append(delta)
            position += size
    except StructError:
        # Near the end of the bytes: a short record, or damage.
        pass
    deltas = [(each & 0x7F | each >> 8 << 7) >> 1 for each in raw]
    return keys, deltas, [deltas[number] for number in tombstones], position
