"""Refuses record sets that are not exactly one batch: the part of append's checks off the hot path.

Follows Apache Kafka 4.3, in `ProduceRequest.validateRecords` and where it reads batches, in words and order:
a record set without a batch, with an incomplete one, or with one of an old format is an invalid record;
impossible lengths and formats are corrupt; a second batch is refused, but the beginning of one is ignored.
Byte format: `wire.record_batch`. Crash behaviour: nothing is written. Who may call: the partition log. Never
checks a checksum.
"""

from __future__ import annotations

import struct
from typing import Final, NoReturn

from headrace.log.errors import CorruptRecordError, MalformedRecordSetError
from headrace.log.partition.append_rules import MutableBuffer
from headrace.wire.errors import WireError
from headrace.wire.record_batch import LOG_OVERHEAD, MAGIC, MAGIC_AT, read_header

_LENGTH: Final = struct.Struct(">i")
_LENGTH_AT: Final = 8
# The smallest message of the oldest format, without offset and length.
_SMALLEST_LENGTH: Final = 14


def refuse(records: MutableBuffer, error: WireError, partition: str) -> NoReturn:
    """Raise the error that says why no batch begins here."""
    none = f"Produce requests must have at least one record batch per partition, {partition} has none"
    if len(records) < LOG_OVERHEAD:
        raise MalformedRecordSetError(none) from error
    (length,) = _LENGTH.unpack_from(records, _LENGTH_AT)
    if length < _SMALLEST_LENGTH:
        raise CorruptRecordError(
            f"Record size {length} is less than the minimum record overhead ({_SMALLEST_LENGTH})"
        ) from error
    if len(records) <= MAGIC_AT:
        raise MalformedRecordSetError(none) from error
    magic = records[MAGIC_AT]
    if magic > MAGIC:
        signed = magic - 256 if magic > 127 else magic
        raise CorruptRecordError(f"Invalid magic found in record: {signed}") from error
    if length + LOG_OVERHEAD > len(records):
        raise MalformedRecordSetError(none) from error
    if magic < MAGIC:
        raise MalformedRecordSetError(
            f"Produce requests are only allowed to contain record batches with magic version {MAGIC}, "
            f"{partition} got {magic}"
        ) from error
    raise CorruptRecordError(f"{error} (topic partition {partition})") from error


def only_batch(records: MutableBuffer, size: int, partition: str) -> memoryview:
    """The first batch, if no complete one follows it. `size` is from its header."""
    view = memoryview(records)
    if size > len(view):
        raise MalformedRecordSetError(
            f"Produce requests must have at least one record batch per partition, {partition} has a part"
        )
    rest = view[size:]
    try:
        whole = read_header(rest).size <= len(rest)
    except WireError:
        whole = False
    if whole:
        raise MalformedRecordSetError(
            f"Produce requests must contain exactly one record batch per partition, {partition} has more"
        )
    return view[:size]
