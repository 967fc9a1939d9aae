"""Which transactions of a partition were aborted: the `.txnindex` of each segment, read when it is needed.

A marker may stand far behind the records of its transaction, so a reader asks all segments from where it is
on, until one of them says that the log was decided before.

Byte format: `transaction_index`. Crash behaviour: the indexes follow from the batches; one that is missing or
damaged is built anew, with a snapshot of the producers and the batches from there on. Who may call: the
partition log and its parts. Never looks into the records of clients.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from headrace.log.errors import StorageError
from headrace.log.filesystem import read_file
from headrace.log.producers.producer_state import ProducerState
from headrace.log.producers.replay import tell, tell_all
from headrace.log.segments.batch_walk import walk
from headrace.log.segments.offset_index import CorruptIndexError
from headrace.log.segments.segment import NEVER, Segment
from headrace.log.segments.transaction_index import AbortedTransaction, TransactionIndex

if TYPE_CHECKING:
    from headrace.log.producers.snapshots import ProducerSnapshots
    from headrace.log.segments.segment_list import SegmentList

_log = logging.getLogger(__name__)


class AbortedTransactions:
    """The aborted transactions of one log. `any` is False if there surely are none."""

    __slots__ = ("_segments", "_snapshots", "any")

    def __init__(self, segments: SegmentList, snapshots: ProducerSnapshots) -> None:
        self._segments: Final = segments
        self._snapshots: Final = snapshots
        self.any = False

    def found(self, segment: Segment) -> None:
        """A segment has an index with entries, which is read when it is needed."""
        segment.take_transactions(None)
        self.any = True

    def add(self, segment: Segment, aborted: AbortedTransaction | None) -> None:
        """Add a transaction, if it was aborted, to the index of the segment with its marker."""
        if aborted is not None:
            self.of(segment).append(aborted)
            self.any = True

    def begin_scan(self, segment: Segment, position: int, offset: int) -> None:
        """The markers of a segment will be added again from this position and offset on.

        Raises StorageError.
        """
        if position:
            self.of(segment, size=position, end_offset=NEVER).truncate(offset)
        else:
            segment.take_transactions(TransactionIndex(file_longer=segment.transactions is None))

    def between(self, start: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions with records from `start` to before `end`. Raises StorageError."""
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
        """The index of a segment: from memory, from its file, or built anew. Raises StorageError.

        While a log is opened, `size` and `end_offset` say up to where the segment is known to be good.
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
            _log.warning("building %s anew: %s", path, error)
            return self._build(segment, segment.size if size is None else size)
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error}") from error
        segment.take_transactions(index)
        return index

    def _build(self, segment: Segment, size: int) -> TransactionIndex:
        """The index from the batches, to its file too unless more is to come."""
        producers = ProducerState(self._segments.name)
        try:
            offset = self._snapshots.load_before(segment.base_offset, producers)
        except OSError as error:
            raise StorageError(f"the producers of {self._segments.name} cannot be read: {error}") from error
        tell_all(self._segments, producers, offset, segment.base_offset)
        index = TransactionIndex(file_longer=True)
        for position, fields in walk(segment.open_file(), 0, size, verify=False):
            if fields[9] >= 0:
                ended = tell(producers, segment, position, fields)
                if ended is not None and ended.aborted is not None:
                    index.append(ended.aborted)
        segment.take_transactions(index)
        if size == segment.size:
            try:
                segment.save_indexes()
            except OSError as error:
                # It is in memory, and will be built again if it is needed after a restart.
                _log.warning("%s cannot be written: %s", segment.path("txnindex"), error)
        return index
