"""The keys of records: where each stands last in the dirty part of a log, and which offsets that leaves.

Works on the bytes of a batch's records (`wire.records`) without making values of them: this runs for every
record that is compacted, and its speed is compaction's. A key of up to 32 bytes stands for itself, a longer
one for its 33-byte BLAKE2b digest, which no shorter key can be mistaken for.

Invariants: an offset is in the result exactly if no record of the same key behind it was added. Memory is
about `BYTES_PER_KEY` for each key. Byte format: none of its own. Crash behaviour: nothing is written. Who may
call: the cleaner. Raises CorruptBatchError for records that cannot be walked over.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cache
from hashlib import blake2b
from struct import Struct
from struct import error as StructError  # noqa: N812 - the standard library's name says nothing on its own
from typing import Final, NamedTuple

from headrace.wire.errors import CorruptBatchError
from headrace.wire.records import read_varint

# A small bytes object, an integer, and a place in a dictionary that has just grown.
BYTES_PER_KEY: Final = 160
_LONGEST_PLAIN: Final = 32
_DIGEST_SIZE: Final = _LONGEST_PLAIN + 1
_VARLONG_BITS: Final = 64
# Length, attributes (skipped), timestamp, delta and length of the key, with a delta of one byte and of two.
_SHORT_DELTA: Final = Struct("<HxBBB").unpack_from
_LONG_DELTA: Final = Struct("<HxBHB").unpack_from
_SHORT_DELTA_KEY: Final = 6
_LONG_DELTA_KEY: Final = 7
_SHORT_DELTAS: Final = 64
_DELTAS: Final = 8192


class LocatedRecord(NamedTuple):
    """Where the parts of a record stand in the bytes of its batch's records."""

    delta: int
    timestamp_delta: int
    start: int
    behind_timestamp: int
    finish: int
    key: bytes | None
    tombstone: bool


@cache
def record_sizes() -> list[int]:
    """By its first two bytes, how much a record takes; 0 where its length does not have two bytes."""
    sizes = [0] * 0x10000
    for low in range(0x80, 0x100):
        for high in range(0x80):
            sizes[low | high << 8] = 2 + ((low & 0x7F | high << 7) >> 1)
    return sizes


@cache
def usual_deltas() -> list[int]:
    """The bytes of the offset deltas of one and two bytes, the first one lowest."""
    short = [number << 1 for number in range(_SHORT_DELTAS)]
    return short + [number << 1 & 0x7F | 0x80 | number >> 6 << 8 for number in range(_SHORT_DELTAS, _DELTAS)]


def stands_for(key: bytes) -> bytes:
    """What a key is remembered as."""
    return key if len(key) <= _LONGEST_PLAIN else blake2b(key, digest_size=_DIGEST_SIZE).digest()


def locate_records(data: bytes, count: int) -> list[LocatedRecord]:
    """The records of a batch, one by one. Raises CorruptBatchError."""
    located = []
    position = 0
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


class KeyOffsets:
    """The last offset of each key, filled in the order of offsets; then `survivors`."""

    def __init__(self) -> None:
        # The offset, or its complement where the record is a tombstone.
        self._latest: dict[bytes, int] = {}
        self._tombstones = False
        # Batches whose records are not numbered from 0 without a gap.
        self.gapped: set[int] = set()
        self.latest_offset = -1
        """The last offset that was looked at: what lies behind it is left alone."""

    def __len__(self) -> int:
        return len(self._latest)

    def add(self, data: bytes, count: int, base_offset: int) -> None:
        """Add all records of a batch. Raises CorruptBatchError."""
        try:
            number, position = self._add_usual(data, count, base_offset)
            if number < count:
                position = self._add_any(data, range(number, count), position, base_offset)
        except IndexError as error:
            raise CorruptBatchError("Incorrect declared batch size, premature EOF reached") from error
        if position != len(data):
            raise CorruptBatchError("Incorrect declared batch size, records still remaining in file")

    def _add_usual(self, data: bytes, count: int, base_offset: int) -> tuple[int, int]:
        """Add records from the first on as long as they are as most are; how many, and where they end.

        That is: a length of two bytes, a timestamp of one, deltas without gaps, a key that stands for itself.
        Then the numbers before the key are at fixed places, and one call reads all of them.
        """
        latest, sizes, deltas = self._latest, record_sizes(), usual_deltas()
        position = key_size = 0
        offset, same = base_offset, -1
        unpack, width = _SHORT_DELTA, _SHORT_DELTA_KEY
        try:
            for first, last in ((0, _SHORT_DELTAS), (_SHORT_DELTAS, count)):
                for wanted in deltas[first : min(last, count)]:
                    length, timestamp, delta, key = unpack(data, position)
                    size = sizes[length]
                    if delta != wanted or timestamp > 0x7F or not size:
                        return offset - base_offset, position
                    if key != same:
                        if key & 0x81 or key > 2 * _LONGEST_PLAIN:
                            return offset - base_offset, position
                        same, key_size = key, key >> 1
                    start = position + width
                    behind = start + key_size
                    if data[behind] != 1:
                        latest[data[start:behind]] = offset
                    else:
                        latest[data[start:behind]] = ~offset
                        self._tombstones = True
                    position += size
                    offset += 1
                unpack, width = _LONG_DELTA, _LONG_DELTA_KEY
        except StructError:
            # Near the end of the bytes: a short record, or damage.
            pass
        return offset - base_offset, position

    def _add_any(  # noqa: PLR0912
        self, data: bytes, numbers: range, position: int, base_offset: int
    ) -> int:
        """Add the records of these numbers, whatever they are like; where they end. Flat on purpose."""
        latest = self._latest
        gapped = False
        for expected in numbers:
            byte = data[position]
            if byte < 0x80:
                position += 1
                finish = position + (byte >> 1)
            elif (following := data[position + 1]) < 0x80:
                position += 2
                finish = position + ((byte & 0x7F | following << 7) >> 1)
            else:
                size, position = read_varint(data, position)
                finish = position + size
            # A byte of attributes, then the timestamp.
            position += 1
            while data[position] > 0x7F:
                position += 1
            position += 1
            byte = data[position]
            if byte < 0x80:
                position += 1
                delta = byte >> 1
            elif (following := data[position + 1]) < 0x80:
                position += 2
                delta = (byte & 0x7F | following << 7) >> 1
            else:
                delta, position = read_varint(data, position)
            if delta != expected:
                gapped = True
            byte = data[position]
            if byte < 0x80:
                position += 1
                if byte == 1:
                    # No key: it does not survive.
                    position = finish
                    continue
                behind = position + (byte >> 1)
            else:
                size, position = read_varint(data, position)
                behind = position + size
            key = data[position:behind]
            if behind - position > _LONGEST_PLAIN:
                key = stands_for(key)
            if data[behind] != 1:
                latest[key] = base_offset + delta
            else:
                latest[key] = ~(base_offset + delta)
                self._tombstones = True
            position = finish
        if gapped:
            self.gapped.add(base_offset)
        return position

    def add_from(self, data: bytes, count: int, base_offset: int, start_offset: int) -> None:
        """As `add`, for a batch of which only the offsets from `start_offset` on count."""
        self.gapped.add(base_offset)
        for record in locate_records(data, count):
            offset = base_offset + record.delta
            if offset >= start_offset and record.key is not None:
                self._latest[record.key] = ~offset if record.tombstone else offset
                self._tombstones = self._tombstones or record.tombstone

    def keeps(self, key: bytes | None, offset: int) -> bool:
        """Whether a record of the clean part is the last one of its key."""
        if key is None:
            return False
        found = self._latest.get(key)
        return found is None or offset >= (found if found >= 0 else ~found)

    def survivors(self) -> Survivors:
        values = self._latest.values()
        if not self._tombstones:
            return Survivors(sorted(values), [])
        return Survivors(
            sorted([value if value >= 0 else ~value for value in values]),
            sorted([~value for value in values if value < 0]),
        )

    def forget_keys(self) -> None:
        """Free the memory, where there is no clean part that would have to be compared."""
        self._latest = {}


class Survivors:
    """The offsets of the dirty part that are the last of their keys; asked for batch by batch, in order."""

    def __init__(self, offsets: list[int], tombstones: list[int]) -> None:
        self._offsets = offsets
        self._tombstones = tombstones
        self._next = 0
        self._next_tombstone = 0

    def between(self, first: int, last: int) -> list[int]:
        """Those of a batch. Batches must be asked for in the order of their offsets."""
        offsets = self._offsets
        begin = self._next
        if begin < len(offsets) and offsets[begin] < first:
            begin = bisect_left(offsets, first, begin)
        end = begin
        if end < len(offsets) and offsets[end] <= last:
            # There is at most one for each offset of the batch.
            end = bisect_left(offsets, last + 1, begin, min(len(offsets), begin + last - first + 1))
        self._next = end
        return offsets[begin:end]

    def tombstones_between(self, first: int, last: int) -> list[int]:
        """Those of them that are tombstones."""
        tombstones = self._tombstones
        if not tombstones:
            return tombstones
        begin = bisect_left(tombstones, first, self._next_tombstone)
        end = bisect_left(tombstones, last + 1, begin)
        self._next_tombstone = end
        return tombstones[begin:end]
