"""Control batches: the markers that end a transaction in a partition, as Apache Kafka writes them (KIP-98).

Byte format: a record batch with the attributes *transactional* and *control*, the id and epoch of the
producer whose transaction it ends, base sequence -1 and exactly one record, all numbers big-endian:

    key   0 version i16 (0) | 2 type i16 (0 abort, 1 commit; others are not about transactions)
    value 0 version i16 (0) | 2 coordinator_epoch i32

A marker takes one offset, which readers skip, and 78 bytes.

Invariants: a marker that was built here reads back as the same marker. Later versions of key and value can
only add fields at the end, so bytes after the known fields are ignored. A batch that compaction left without
records is no longer a marker. Never decides whether a marker may be written: `log/producers/` does.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from headrace.wire.errors import CorruptBatchError
from headrace.wire.record_batch import BatchHeader, Buffer
from headrace.wire.records import Record, build_batch, read_records

_KEY: Final = Struct(">hh")
_VALUE: Final = Struct(">hi")
_VERSION: Final = 0
_ABORT: Final = 0
_COMMIT: Final = 1


class EndMarker(NamedTuple):
    """The end of a transaction: committed or aborted, and the epoch of the coordinator that decided it."""

    committed: bool
    coordinator_epoch: int


def build_end_marker(
    marker: EndMarker, *, producer_id: int, producer_epoch: int, timestamp: int, base_offset: int = 0
) -> bytearray:
    """The control batch that ends the transaction of a producer."""
    record = Record(
        0,
        0,
        _KEY.pack(_VERSION, _COMMIT if marker.committed else _ABORT),
        _VALUE.pack(_VERSION, marker.coordinator_epoch),
    )
    return build_batch(
        (record,),
        base_offset=base_offset,
        base_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def read_end_marker(buffer: Buffer, header: BatchHeader) -> EndMarker | None:
    """The marker in a control batch, or None if it is another kind. Raises CorruptBatchError."""
    for record in read_records(buffer, header):
        kind = _fields(_KEY, record.key, "key")[1]
        if kind not in (_ABORT, _COMMIT):
            return None
        return EndMarker(kind == _COMMIT, _fields(_VALUE, record.value, "value")[1])
    return None


def _fields(form: Struct, content: bytes | None, part: str) -> tuple[int, ...]:
    if content is None or len(content) < form.size:
        size = 0 if content is None else len(content)
        raise CorruptBatchError(f"the {part} of a control record has {size} bytes, not {form.size}")
    fields: tuple[int, ...] = form.unpack_from(content)
    if fields[0] < 0:
        raise CorruptBatchError(f"the {part} of a control record has the version {fields[0]}")
    return fields
