"""The aborted transactions of a partition: the `.txnindex` of each segment, read on first use.

A marker may be far after the records of its transaction, so a reader asks all segments from its position on,
until one of them shows that everything before was decided.

Byte format: `transaction_index`. Crash behaviour: a missing or damaged index is rebuilt from a snapshot of
the producers and the batches after it. Who may call: the partition log and its parts. Never looks into
clients' records.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from headrace.log.errors import StorageError
from headrace.log.filesystem import read_file
from headrace.log.producers.producer_state import ProducerState
from headrace.log.producers.snapshots import ProducerSnapshots, replay_all, replay_batch
from headrace.log.segments.batch_walk import walk
from headrace.log.segments.offset_index import CorruptIndexError
from headrace.log.segments.segment import NEVER, Segment
from headrace.log.segments.transaction_index import AbortedTransaction, TransactionIndex

if TYPE_CHECKING:
    from headrace.log.segments.segment_list import SegmentList

_log = logging.getLogger(__name__)


class AbortedTransactions:
    """The aborted transactions of one log. If `any` is False, there are none."""

    __slots__ = ("_segments", "_snapshots", "any")

    def __init__(self, segments: SegmentList, snapshots: ProducerSnapshots) -> None:
        self._segments: Final = segments
        self._snapshots: Final = snapshots
        self.any = False

    def found(self, segment: Segment) -> None:
        """Note that a segment has an index file with entries, to be read on first use."""
        segment.take_transactions(None)
        self.any = True

    def add(self, segment: Segment, aborted: AbortedTransaction | None) -> None:
        """Add an aborted transaction, if it is one, to the index of the segment with its marker."""
        if aborted is not None:
            self.of(segment).append(aborted)
            self.any = True

    def begin_scan(self, segment: Segment, position: int, offset: int) -> None:
        """Prepare for a scan that adds the markers of a segment again, from a position and offset on.

        Raises StorageError.
        """
        if position:
            self.of(segment, size=position, end_offset=NEVER).truncate(offset)
        else:
            segment.take_transactions(TransactionIndex(file_longer=segment.transactions is None))

    def between(self, start: int, end: int) -> list[AbortedTransaction]:
        """Aborted transactions with records from `start` to before `end`. Raises StorageError."""
        found: list[AbortedTransaction] = []
        for number in range(max(0, self._segments.number_of(start)), len(self._segments)):
            segment = self._segments[number]
            if segment.transactions is None or len(segment.transactions):
                more, complete = self.of(segment).overlapping(start, end)
                found += more
                if complete:
                    break
        return found

    def of(
        self, segment: Segment, *, size: int | None = None, end_offset: int | None = None
    ) -> TransactionIndex:
        """The index of a segment, from memory or its file, or rebuilt. Raises StorageError.

        While a log is being opened, `size` and `end_offset` limit the part of the segment that is known to be
        good.
        """
        if segment.transactions is not None:
            return segment.transactions
        path = segment.path("txnindex")
        try:
            content = read_file(segment.filesystem, path)
            index = TransactionIndex.parse(
                content, segment.base_offset, segment.end_offset if end_offset is None else end_offset
            )
        except (CorruptIndexError, FileNotFoundError) as error:
            _log.warning("rebuilding %s: %s", path, error)
            return self._build(segment, segment.size if size is None else size)
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error}") from error
        segment.take_transactions(index)
        return index

    def _build(self, segment: Segment, size: int) -> TransactionIndex:
        """Rebuild the index from the batches; also write its file if the segment is complete."""
        producers = ProducerState(self._segments.name)
        try:
            offset = self._snapshots.load_before(segment.base_offset, producers)
        except OSError as error:
            raise StorageError(
                f"the producer snapshots of {self._segments.name} cannot be read: {error}"
            ) from error
        replay_all(self._segments, producers, offset, segment.base_offset)
        index = TransactionIndex(file_longer=True)
        for position, fields in walk(segment.open_file(), 0, size, verify=False):
            if fields[9] >= 0:
                ended = replay_batch(producers, segment, position, fields)
                if ended is not None and ended.aborted is not None:
                    index.append(ended.aborted)
        segment.take_transactions(index)
        if size == segment.size:
            try:
                segment.save_indexes()
            except OSError as error:
                # It is in memory; a restart that needs it rebuilds it again.
                _log.warning("%s cannot be written: %s", segment.path("txnindex"), error)
        return index
