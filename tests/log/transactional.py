"""Transactions on a log for tests: a producer that writes in them, and a reader of committed records."""

from __future__ import annotations

from headrace.log.partition.partition_log import Appended, PartitionLog
from headrace.log.producers.verification import TransactionEnd
from headrace.wire.control_batches import EndMarker, read_end_marker
from headrace.wire.record_batch import scan
from headrace.wire.records import Record, build_batch, read_records
from tests.log.batches import NOW, whole_batches


def transactional_batch(*values: bytes, producer: int, epoch: int, sequence: int) -> bytearray:
    return build_batch(
        [Record(number, 0, b"key", value) for number, value in enumerate(values)],
        base_timestamp=NOW,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )


def write(
    log: PartitionLog, *values: bytes, producer: int = 7, epoch: int = 0, sequence: int = 0, bump: bool = True
) -> Appended:
    """Append in a transaction that the coordinator has confirmed."""
    guard = log.begin_verification(producer, sequence, epoch, epoch_bump=bump, now_ms=NOW)
    batch = transactional_batch(*values, producer=producer, epoch=epoch, sequence=sequence)
    return log.append(batch, now_ms=NOW, permission=guard)


def end(
    log: PartitionLog,
    *,
    committed: bool,
    producer: int = 7,
    epoch: int = 1,
    version: int = 2,
    coordinator_epoch: int = 0,
) -> Appended:
    """Write a marker. In version 2 its epoch is one higher than that of the records."""
    return log.append_marker(
        TransactionEnd(EndMarker(committed, coordinator_epoch), version),
        producer_id=producer,
        producer_epoch=epoch,
        now_ms=NOW,
    )


def committed_records(log: PartitionLog, max_bytes: int = 1 << 20) -> list[tuple[int, bytes]]:
    """Offset and value of the records that Java's consumer returns with isolation.level=read_committed."""
    found: list[tuple[int, bytes]] = []
    offset = log.start_offset
    while (read := log.read_committed(offset, max_bytes, at_least_one=True)).result.ranges is not None:
        waiting = sorted(read.aborted, key=lambda aborted: aborted[1])
        aborted_producers: set[int] = set()
        data = whole_batches(read.result.ranges.read())
        for header in scan(data):
            assert header.last_offset < read.last_stable_offset
            while waiting and waiting[0][1] <= header.last_offset:
                aborted_producers.add(waiting.pop(0)[0])
            if header.control:
                marker = read_end_marker(data, header)
                if marker is not None and not marker.committed:
                    aborted_producers.discard(header.producer_id)
            elif not (header.transactional and header.producer_id in aborted_producers):
                found += [
                    (header.base_offset + record.offset_delta, record.value or b"")
                    for record in read_records(data, header)
                    if header.base_offset + record.offset_delta >= offset
                ]
            offset = header.next_offset
    return found
