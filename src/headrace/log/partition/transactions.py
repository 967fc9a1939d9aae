"""Transactions in a partition log: markers that end them, and what readers of committed records may see.

They see the log up to the last stable offset, where the first open transaction begins, and are told which
transactions before it were aborted, to leave out their records themselves (KIP-98). The aborted ones are
those of the `.txnindex` of each segment from where the reader is: a marker may stand far behind its records.

Byte formats: `wire.control_batches`, `transaction_index`. Invariants: nothing of an open transaction is in
what `read_committed` gives; every aborted transaction with a record in it is named, others may be. With
`durable` a transaction is open until its marker is on the disk. Crash behaviour: the indexes follow from the
batches; one that is missing or damaged is built anew. Who may call: the partition log, recovery, truncation.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

from headrace.log.errors import StorageError
from headrace.log.filesystem import read_file
from headrace.log.partition import reading, snapshots
from headrace.log.partition.reading import ReadResult
from headrace.log.partition.replay import tell, tell_all
from headrace.log.producers.producer_state import ProducerState
from headrace.log.producers.verification import Coordinator, TransactionEnd
from headrace.log.segments import segment_indexes
from headrace.log.segments.batch_walk import Fields, walk
from headrace.log.segments.offset_index import CorruptIndexError
from headrace.log.segments.segment import NEVER, Segment
from headrace.log.segments.transaction_index import AbortedTransaction, TransactionIndex
from headrace.wire.control_batches import build_end_marker
from headrace.wire.record_batch import read_header

if TYPE_CHECKING:
    from headrace.log.partition.partition_log import Appended, PartitionLog

_log = logging.getLogger(__name__)


class CommittedRead(NamedTuple):
    """What a reader of committed records gets; `aborted` has producer and first offset of transactions."""

    result: ReadResult
    last_stable_offset: int
    aborted: tuple[tuple[int, int], ...]


def last_stable_offset(log: PartitionLog) -> int:
    """See `PartitionLog.last_stable_offset`."""
    end = log.high_water_mark
    first = log.producers.first_unstable_offset(end)
    return end if first is None or first >= end else max(first, log.start_offset)


def append_marker(
    log: PartitionLog, end: TransactionEnd, *, producer_id: int, producer_epoch: int, now_ms: int
) -> Appended:
    """See `PartitionLog.append_marker`."""
    # What can fail is done before the marker is there: afterwards it counts.
    index_of(log, log.active)
    batch = build_end_marker(
        end.marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp=now_ms
    )
    appended = log.append(batch, now_ms=now_ms, permission=Coordinator(end=end))
    header = read_header(batch)
    ended = log.producers.ended(header, end.marker, appended.base_offset, header.max_timestamp)
    if ended is not None:
        if log.durable:
            log.producers.await_sync(ended)
        note(log, log.active, ended.aborted)
    return appended


def note(log: PartitionLog, segment: Segment, aborted: AbortedTransaction | None) -> None:
    """Add a transaction to the index of the segment with its marker."""
    if aborted is not None:
        index_of(log, segment).append(aborted)
        log.any_aborted = True


def replay_marker(log: PartitionLog, segment: Segment, position: int, fields: Fields) -> None:
    """A control batch was found while the log is opened. Raises StorageError."""
    ended = tell(log.producers, segment, position, fields)
    if ended is not None:
        note(log, segment, ended.aborted)


def begin_scan(log: PartitionLog, segment: Segment, position: int, offset: int) -> None:
    """The markers of a segment will be found again from this position and offset on. Raises StorageError."""
    if position:
        index_of(log, segment, size=position, end_offset=NEVER).truncate(offset)
    else:
        index = TransactionIndex()
        index.file_longer = segment.transactions is None
        segment.transactions = index


def read_committed(log: PartitionLog, offset: int, max_bytes: int, at_least_one: bool) -> CommittedRead:
    """See `PartitionLog.read_committed`."""
    limit = last_stable_offset(log)
    result = reading.read(log, offset, max_bytes, at_least_one, limit)
    if result.ranges is None or not log.any_aborted:
        return CommittedRead(result, limit, ())
    number = bisect_right(log.bases, offset) - 1
    while log.segments[number].file is not result.ranges.file:
        number += 1
    end = _offset_behind(log, number, result.ranges.position + result.size)
    aborted = aborted_between(log, offset, min(end, limit))
    return CommittedRead(result, limit, tuple((each.producer_id, each.first_offset) for each in aborted))


def aborted_between(log: PartitionLog, start: int, end: int) -> list[AbortedTransaction]:
    """The aborted transactions with records from `start` to before `end`. Raises StorageError."""
    found: list[AbortedTransaction] = []
    for number in range(max(0, bisect_right(log.bases, start) - 1), len(log.segments)):
        segment = log.segments[number]
        if segment.transactions is None or len(segment.transactions):
            more, complete = index_of(log, segment).overlapping(start, end)
            found += more
            if complete:
                break
    return found


def _offset_behind(log: PartitionLog, number: int, position: int) -> int:
    """An offset that is not in the first `position` bytes of a segment, as the index knows it."""
    segment = log.segments[number]
    following = log.bases[number + 1] if number + 1 < len(log.bases) else log.end_offset
    if position >= segment.size:
        return following
    index = segment.offset_index()
    entry = bisect_left(index.positions, position)
    return following if entry == len(index) else segment.base_offset + index.offsets[entry]


def index_of(
    log: PartitionLog, segment: Segment, *, size: int | None = None, end_offset: int | None = None
) -> TransactionIndex:
    """The index of a segment: from memory, from its file, or built anew. Raises StorageError.

    While a log is opened, `size` and `end_offset` say up to where the segment is known to be good.
    """
    if segment.transactions is not None:
        return segment.transactions
    if end_offset is None:
        number = bisect_right(log.bases, segment.base_offset)
        end_offset = log.bases[number] if number < len(log.bases) else log.end_offset
    try:
        content = read_file(log.filesystem, segment.path("txnindex"))
        index = TransactionIndex.parse(content, segment.base_offset, end_offset)
    except (CorruptIndexError, FileNotFoundError) as error:
        _log.warning("building %s anew: %s", segment.path("txnindex"), error)
        index = _rebuilt(log, segment, segment.size if size is None else size)
    except OSError as error:
        raise StorageError(f"{segment.path('txnindex')} cannot be read: {error}") from error
    segment.transactions = index
    return index


def _rebuilt(log: PartitionLog, segment: Segment, size: int) -> TransactionIndex:
    """The index from the batches, to its file too unless more is to come."""
    producers = ProducerState(log.name)
    try:
        offset = snapshots.load_before(log, segment.base_offset, producers)
    except OSError as error:
        raise StorageError(f"the producers of {log.name} cannot be read: {error}") from error
    tell_all(log, producers, offset, segment.base_offset)
    index = TransactionIndex()
    index.file_longer = True
    for position, fields in walk(segment.open_file(), 0, size, verify=False):
        if fields[9] >= 0:
            ended = tell(producers, segment, position, fields)
            if ended is not None and ended.aborted is not None:
                index.append(ended.aborted)
    if size == segment.size:
        segment.transactions = index
        try:
            segment_indexes.save(segment)
        except OSError as error:
            # It is in memory, and will be built again if it is needed after a restart.
            _log.warning("%s cannot be written: %s", segment.path("txnindex"), error)
    return index
