"""What is wrong with a record set that is not exactly one batch: the refusals of an append, off the hot path.

Says what Apache Kafka 4.3 says, in `ProduceRequest.validateRecords` and where it reads batches: nothing that
could be a batch, or no whole one, is an invalid record; lengths that cannot be are corrupt; a second batch is
refused, but the beginning of one is only left out. Byte format: `wire.record_batch`. Crash behaviour: none,
nothing is written. Who may call: the partition log. Never looks at a checksum.
"""

from __future__ import annotations

from typing import NoReturn

from headrace.log.append_rules import MutableBuffer
from headrace.log.errors import CorruptRecordError, InvalidRecordError, UnsupportedFormatError
from headrace.wire.errors import UnsupportedMagicError, WireError
from headrace.wire.record_batch import LOG_OVERHEAD, read_header


def refuse(records: MutableBuffer, error: WireError, partition: str) -> NoReturn:
    """Say with the right error why no batch begins here."""
    if isinstance(error, UnsupportedMagicError):
        raise UnsupportedFormatError(f"{error} (topic partition {partition})") from error
    if len(records) < LOG_OVERHEAD:
        raise InvalidRecordError(
            f"Produce requests must have at least one record batch per partition, {partition} has none"
        ) from error
    raise CorruptRecordError(f"{error} (topic partition {partition})") from error


def only_batch(records: MutableBuffer, size: int, partition: str) -> memoryview:
    """The first batch, if no whole one follows it. `size` is what its header says."""
    view = memoryview(records)
    if size > len(view):
        raise InvalidRecordError(
            f"Produce requests must have at least one record batch per partition, {partition} has a part"
        )
    rest = view[size:]
    try:
        whole = read_header(rest).size <= len(rest)
    except WireError:
        whole = False
    if whole:
        raise InvalidRecordError(
            f"Produce requests must contain exactly one record batch per partition, {partition} has more"
        )
    return view[:size]
