"""Decides what compaction leaves of a batch: all of it, a rewritten batch, an empty one, or nothing.

Byte format: `wire.record_batch`. A rewritten batch keeps its offsets, leader epoch, producer fields, sequence
number, timestamp type and compression. The number of records and the newest timestamp change, and for a batch
with tombstones the delete horizon (KIP-534): bit 6 of the attributes means that the base timestamp is the
horizon, and the records' timestamps are relative to it. An empty batch is a header without compression.

The base timestamp stays the same if no horizon is set, so that records can be copied as bytes. Apache Kafka
changes it to that of the first remaining record; the records' own timestamps are the same either way.

Invariants: a batch that loses nothing is not touched. A batch is rewritten only if its checksum is right, so
damage is never hidden. Crash behaviour: nothing is written here. Who may call: the cleaner.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812 - the standard library's name says nothing on its own
from typing import Final

from crc32c import crc32c

from headrace.log.compaction.last_records import LastRecords, Survivors
from headrace.log.compaction.record_keys import (
    BatchKeys,
    LocatedRecord,
    keys_of,
    locate_records,
    record_sizes,
)
from headrace.log.compaction.retained_records import BatchRules, Fate, Transactions
from headrace.log.segments.batch_walk import Fields
from headrace.wire import compression
from headrace.wire.errors import CorruptBatchError
from headrace.wire.record_batch import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    CONTROL,
    CRC_AT,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
)
from headrace.wire.records import DECOMPRESSED_LIMIT, read_varint, write_varint

DELETE_HORIZON: Final = 0x40
_HEADER: Final = Struct(">qiibIhiqqqhii")
_CRC: Final = Struct(">I")
_TWO_BYTES: Final = Struct("<H").unpack_from
_MARKER_KEY: Final = Struct(">hh")
_NO_TIMESTAMP: Final = -1
_VARLONG_BITS: Final = 64
_EARLIEST: Final = -(2**63)
GONE: Final = b""


def payload_of(chunk: bytes, at: int, fields: Fields) -> bytes:
    """The records of a batch, checked and decompressed. Raises CorruptBatchError."""
    end = at + fields[1] + LOG_OVERHEAD
    with memoryview(chunk) as view:
        if crc32c(view[at + ATTRIBUTES_AT : end]) != fields[4]:
            raise CorruptBatchError(f"the checksum of the batch at offset {fields[0]} is wrong")
    inside = chunk[at + HEADER_SIZE : end]
    codec = fields[5] & COMPRESSION_MASK
    return inside if not codec else compression.decompress(codec, inside, DECOMPRESSED_LIMIT)


def marker_kind(chunk: bytes, at: int, fields: Fields) -> int | None:
    """The kind of the marker in a control batch (abort, commit, …), None if the batch is empty."""
    if not fields[12]:
        return None
    key = locate_records(payload_of(chunk, at, fields), fields[12])[0].key
    if key is None or len(key) < _MARKER_KEY.size:
        raise CorruptBatchError(f"the control record at offset {fields[0]} has no type")
    kind: int = _MARKER_KEY.unpack_from(key)[1]
    return kind


def empty_batch(fields: Fields) -> bytes:
    """A batch without records, with the producer fields and offsets of the full one."""
    attributes = fields[5] & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    return _with_header(
        fields,
        b"",
        attributes=attributes,
        base_timestamp=_NO_TIMESTAMP,
        max_timestamp=fields[8],
        count=0,
    )


def _with_header(
    fields: Fields, body: bytes, *, attributes: int, base_timestamp: int, max_timestamp: int, count: int
) -> bytes:
    length = HEADER_SIZE - LOG_OVERHEAD + len(body)
    header = bytearray(
        _HEADER.pack(
            fields[0],
            length,
            fields[2],
            MAGIC,
            0,
            attributes,
            fields[6],
            base_timestamp,
            max_timestamp,
            fields[9],
            fields[10],
            fields[11],
            count,
        )
    )
    _CRC.pack_into(header, CRC_AT, crc32c(body, crc32c(header[ATTRIBUTES_AT:])))
    header += body
    return bytes(header)


class BatchFilter:
    """Judges the batches of a round one by one, in offset order."""

    def __init__(
        self,
        rules: BatchRules,
        transactions: Transactions,
        keys: LastRecords,
        survivors: Survivors,
        first_dirty: int,
    ) -> None:
        self._rules = rules
        self._transactions = transactions
        self._keys = keys
        self._survivors = survivors
        self._first_dirty = first_dirty
        self._latest = keys.latest_offset
        self._end = rules.end_offset

    def judge(self, chunk: bytes, at: int, fields: Fields) -> bytes | None:
        """None if the batch stays as it is, otherwise its replacement, which may be empty bytes."""
        base, attributes, last = fields[0], fields[5], fields[0] + fields[6]
        rules = self._rules
        producer = fields[9]
        stays_empty = False
        if producer >= 0 or last + 1 == self._end or attributes & (TRANSACTIONAL | CONTROL):
            discard, of_empty_transaction = self._look_at_transaction(chunk, at, fields, last)
            fate = rules.fate(
                producer_id=producer,
                epoch=fields[10],
                last_offset=last,
                control=bool(attributes & CONTROL),
                discard=discard,
            )
            if fate is Fate.GOES:
                return GONE
            stays_empty = fate is Fate.STAYS_EMPTY
            if discard or not fields[12]:
                return _unless_same(empty_batch(fields), chunk, at) if stays_empty else GONE
            if attributes & CONTROL:
                if of_empty_transaction and not attributes & DELETE_HORIZON:
                    records = locate_records(data := payload_of(chunk, at, fields), fields[12])
                    return self._rewritten(fields, data, records, rules.new_horizon)
                return None
        if base >= self._first_dirty and last <= self._latest:
            left = self._left_of_dirty(chunk, at, fields, last)
        else:
            left = self._left_by_key(chunk, at, fields, last)
        return empty_batch(fields) if left is GONE and stays_empty else left

    def _look_at_transaction(self, chunk: bytes, at: int, fields: Fields, last: int) -> tuple[bool, bool]:
        """Whether the transaction discards all records, and whether this is the marker of an empty one."""
        attributes = fields[5]
        if attributes & CONTROL:
            kind = marker_kind(chunk, at, fields)
            of_empty = self._transactions.marker(fields[9], last, kind)
            passed = bool(attributes & DELETE_HORIZON) and fields[7] <= self._rules.now_ms
            return of_empty and passed, of_empty
        if attributes & TRANSACTIONAL:
            return self._transactions.data_batch(fields[9], fields[0], last), False
        return False, False

    def _left_of_dirty(self, chunk: bytes, at: int, fields: Fields, last: int) -> bytes | None:
        """Judge a batch whose surviving offsets are already known, without reading its keys."""
        base, count = fields[0], fields[12]
        alive = self._survivors.between(base, last)
        tombstones = self._survivors.tombstones_between(base, last)
        horizon: int | None = fields[7] if fields[5] & DELETE_HORIZON else None
        if tombstones and not self._rules.keeps_tombstones(horizon):
            gone = set(tombstones)
            alive = [offset for offset in alive if offset not in gone]
            tombstones = []
        if not alive:
            return GONE
        if len(alive) == count and not (tombstones and horizon is None):
            return None
        data = payload_of(chunk, at, fields)
        if tombstones and horizon is None:
            wanted = set(alive)
            records = [record for record in locate_records(data, count) if base + record.delta in wanted]
            return self._rewritten(fields, data, records, self._rules.new_horizon)
        if base in self._keys.gapped or count != fields[6] + 1:
            wanted = set(alive)
            records = [record for record in locate_records(data, count) if base + record.delta in wanted]
            return self._rewritten(fields, data, records, None)
        content, newest = _pick(data, [offset - base for offset in alive])
        return _compressed(fields, content, len(alive), newest)

    def _left_by_key(self, chunk: bytes, at: int, fields: Fields, last: int) -> bytes | None:
        """Judge a batch of the clean part, or one after the dirty part, in which nothing is superseded."""
        base, count = fields[0], fields[12]
        if not count:
            return GONE
        data = payload_of(chunk, at, fields)
        found = keys_of(data, count)
        if not found.tombstones and len(found.keys) == count:
            # The usual case.
            return None if last > self._latest else self._left_of_keyed(data, fields, found)
        horizon: int | None = fields[7] if fields[5] & DELETE_HORIZON else None
        keeps_tombstones = self._rules.keeps_tombstones(horizon)
        keeps = self._keys.keeps
        records = locate_records(data, count)
        if last <= self._latest:
            left = [
                record
                for record in records
                if (keeps_tombstones or not record.tombstone) and keeps(record.key, base + record.delta)
            ]
        else:
            left = records
        if not left:
            return GONE
        if horizon is None and any(record.tombstone for record in left):
            return self._rewritten(fields, data, left, self._rules.new_horizon)
        return None if len(left) == count else self._rewritten(fields, data, left, None)

    def _left_of_keyed(self, data: bytes, fields: Fields, found: BatchKeys) -> bytes | None:
        """Judge a batch of the clean part in which every record has a key and a value."""
        numbers = self._keys.numbers_kept(found, fields[0])
        if not numbers:
            return GONE
        if len(numbers) == fields[12]:
            return None
        content, newest = _pick(data, numbers)
        return _compressed(fields, content, len(numbers), newest)

    def _rewritten(
        self, fields: Fields, data: bytes, records: Sequence[LocatedRecord], horizon: int | None
    ) -> bytes:
        """A batch of these records, with a delete horizon if it gets one now."""
        newest = max(record.timestamp_delta for record in records)
        if horizon is None:
            content = b"".join([data[record.start : record.finish] for record in records])
            return _compressed(fields, content, len(records), newest)
        base_timestamp = fields[7]
        moved = bytearray()
        for record in records:
            # With log append time, all records have the timestamp of the batch.
            timestamp = fields[8] if fields[5] & LOG_APPEND_TIME else base_timestamp + record.timestamp_delta
            body = bytearray(1)
            write_varint(body, timestamp - horizon)
            body += data[record.behind_timestamp : record.finish]
            write_varint(moved, len(body))
            moved += body
        max_timestamp = fields[8] if fields[5] & LOG_APPEND_TIME else base_timestamp + newest
        content = compression.compress(fields[5] & COMPRESSION_MASK, moved)
        return _with_header(
            fields,
            content,
            attributes=fields[5] | DELETE_HORIZON,
            base_timestamp=horizon,
            max_timestamp=max_timestamp,
            count=len(records),
        )


def _compressed(fields: Fields, content: bytes, count: int, newest: int) -> bytes:
    """A batch of records copied as bytes; `newest` is their largest timestamp delta."""
    attributes = fields[5]
    max_timestamp = fields[8] if attributes & LOG_APPEND_TIME else fields[7] + newest
    codec = attributes & COMPRESSION_MASK
    body = content if not codec else compression.compress(codec, content)
    return _with_header(
        fields,
        body,
        attributes=attributes,
        base_timestamp=fields[7],
        max_timestamp=max_timestamp,
        count=count,
    )


def _unless_same(batch: bytes, chunk: bytes, at: int) -> bytes | None:
    return None if chunk[at : at + len(batch)] == batch else batch


def _pick(data: bytes, wanted: list[int]) -> tuple[bytes, int]:
    """The bytes of the records with these numbers, in rising order, and their largest timestamp delta.

    Deliberately flat: besides `record_keys`, this is where compaction spends its time. Of the other records
    only the lengths are read.
    """
    pieces = []
    sizes = record_sizes()
    newest = _EARLIEST
    position = start = number = 0
    try:
        for want in wanted:
            if number != want:
                if start != position:
                    pieces.append(data[start:position])
                for _ in range(want - number):
                    (length,) = _TWO_BYTES(data, position)
                    if size := sizes[length]:
                        position += size
                    else:
                        size, position = read_varint(data, position)
                        position += size
                number = want
                start = position
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
            byte = data[position + 1]
            if byte < 0x80:
                delta = (byte >> 1) ^ -(byte & 1)
            else:
                delta, _ = read_varint(data, position + 1, _VARLONG_BITS)
            newest = max(newest, delta)
            position = finish
            number += 1
    except (IndexError, StructError) as error:
        raise CorruptBatchError("Incorrect declared batch size, premature EOF reached") from error
    pieces.append(data[start:position])
    return b"".join(pieces), newest
