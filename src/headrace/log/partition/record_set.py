"""What is wrong with a record set that is not exactly one batch: the refusals of an append, off the hot path.

Says what Apache Kafka 4.3 says, in `ProduceRequest.validateRecords` and where it reads batches, in the same
order: nothing that could be a batch, or no whole one, or one of an old format, is an invalid record; lengths
and formats that cannot be are corrupt; a second batch is refused, but the beginning of one is only left out.
Byte format: `wire.record_batch`. Crash behaviour: none, nothing is written. Who may call: the partition log.
Never looks at a checksum.
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
# Of the smallest message of the oldest format, without offset and length.
_SMALLEST_LENGTH: Final = 14


def refuse(records: MutableBuffer, error: WireError, partition: str) -> NoReturn:
    """Say with the right error why no batch begins here."""
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
    """The first batch, if no whole one follows it. `size` is what its header says."""
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
