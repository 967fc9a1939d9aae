"""The first half of a round of cleaning: finds the last record of each key in the dirty part.

Headers are read forwards, to find the batches and those of aborted transactions; then the batches are read
backwards (`last_records` says why). If there are more keys than fit in memory, the round ends earlier: at the
end of the longest beginning of the dirty part whose keys fit.

Invariant: aborted records and markers are ignored. Byte format: none of its own. Crash behaviour: nothing is
written. Who may call: a round of cleaning. Raises OSError, CorruptBatchError.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from headrace.log.compaction.batch_filter import marker_kind, payload_of
from headrace.log.compaction.cleaning_task import CleaningTask
from headrace.log.compaction.last_records import LastRecords
from headrace.log.compaction.record_keys import keys_of
from headrace.log.compaction.retained_records import Transactions
from headrace.log.compaction.segment_chunks import Chunk, Extent, SegmentChunks
from headrace.log.segments.batch_walk import Fields
from headrace.wire.record_batch import CONTROL, TRANSACTIONAL


class _DirtySegment(NamedTuple):
    base_offset: int
    following: int
    """The base offset of the next segment."""
    extents: list[Extent]
    """The batches with dirty records."""


class KeyLearning:
    """For one round; call `learn` once."""

    def __init__(self, task: CleaningTask, chunks: SegmentChunks) -> None:
        self._task = task
        self._chunks = chunks
        # Base offsets of aborted batches.
        self._aborted: set[int] = set()

    def learn(self) -> LastRecords:
        """The last records of the dirty part, or of as much of it as fits in memory."""
        task = self._task
        segments = self._dirty_segments()
        keys = self._learn_backwards(segments, task.end_offset, task.most_keys)
        if keys is None:
            keys = self._learn_backwards(segments, self._end_of_room(segments), None)
            assert keys is not None
        return keys

    def _dirty_segments(self) -> list[_DirtySegment]:
        task = self._task
        transactions = Transactions(task.aborted)
        found = []
        for number, (base, size) in enumerate(task.segments):
            following = task.segments[number + 1][0] if number + 1 < len(task.segments) else task.end_offset
            if following <= task.first_dirty:
                continue

            def is_dirty(position: int, fields: Fields, segment: int = base) -> bool:
                last = fields[0] + fields[6]
                if last < task.first_dirty:
                    return False
                if task.aborted and fields[5] & (CONTROL | TRANSACTIONAL):
                    if not fields[5] & CONTROL:
                        if transactions.data_batch(fields[9], fields[0], last):
                            self._aborted.add(fields[0])
                    else:
                        batch = self._chunks.read_batch(segment, position, fields)
                        transactions.marker(fields[9], last, marker_kind(batch, 0, fields))
                return True

            found.append(_DirtySegment(base, following, self._chunks.extents(base, size, is_dirty)))
        return found

    def _learn_backwards(
        self, segments: list[_DirtySegment], end_offset: int, most_keys: int | None
    ) -> LastRecords | None:
        """The last records before an offset, the end of a batch; None if there are too many keys."""
        first_dirty = self._task.first_dirty
        keys = LastRecords(latest_offset=end_offset - 1)
        for segment in reversed(segments):
            if segment.base_offset >= end_offset:
                continue
            for chunk in self._chunks.backwards(segment.base_offset, segment.extents):
                for at, fields in reversed(chunk.batches):
                    base = fields[0]
                    if fields[5] & CONTROL or base in self._aborted or base >= end_offset:
                        continue
                    data = payload_of(chunk.data, at, fields)
                    if base >= first_dirty:
                        keys.add(data, fields[12], base)
                    else:
                        keys.add_from(data, fields[12], base, first_dirty)
                if most_keys is not None and len(keys) > most_keys:
                    return None
        return keys

    def _end_of_room(self, segments: list[_DirtySegment]) -> int:
        """The end of the last batch up to which all keys fit in memory."""
        keys: set[bytes] = set()
        end = self._task.first_dirty
        for segment in segments:
            for chunk in self._forwards(segment):
                for at, fields in chunk.batches:
                    if len(keys) >= self._task.most_keys:
                        return end
                    if not fields[5] & CONTROL and fields[0] not in self._aborted:
                        keys.update(keys_of(payload_of(chunk.data, at, fields), fields[12]).keys)
                    end = fields[0] + fields[6] + 1
            # The last batches of the segment may be gone already.
            end = segment.following
        return end

    def _forwards(self, segment: _DirtySegment) -> Iterator[Chunk]:
        for extent in segment.extents:
            yield from self._chunks.backwards(segment.base_offset, [extent])
