"""One round of cleaning: reads closed segments and writes the surviving records to new ones beside them.

A round is described by a `CleaningTask` and can run in any process with access to the folder: the broker's,
or a separate one (`cleaning_process`). It finds the last record of each key in the dirty part
(`key_learning`), then reads everything from the log's beginning, group by group, and writes each group of
segments as one: `<base offset>.log.cleaned`, `.index.cleaned`, `.timeindex.cleaned` and, if transactions were
aborted, `.txnindex.cleaned`, in the formats of a segment (`segment`). It reports each as a `CleanedSegment`,
and the end as `RoundDone`. Only the log itself puts them in place (`segment_swap`).

Invariants: only `.cleaned` files are written, and they are synced before they are reported. A single segment
that loses nothing is neither written nor reported. Reading and writing together stay below
`bytes_per_second`. If not all keys fit in memory, the round ends earlier, at the end of a batch, and reports
that offset.

Crash behaviour: `.cleaned` files do not count, and opening the log removes them. Who may call: the cleaner;
while a round runs, nobody else may write files with these names. Never touches a file of the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final

from headrace.log.compaction.batch_filter import BatchFilter
from headrace.log.compaction.cleaning_task import CleaningTask, Pace, RoundDone
from headrace.log.compaction.key_learning import KeyLearning
from headrace.log.compaction.retained_records import BatchRules, SegmentSizes, Transactions, group_segments
from headrace.log.compaction.segment_chunks import Chunk, SegmentChunks
from headrace.log.compaction.segment_writer import SegmentWriter, remove_cleaned
from headrace.log.filesystem import FileSystem
from headrace.log.segments.swap_files import CleanedSegment
from headrace.wire.record_batch import LOG_OVERHEAD

_MAX_TIMESTAMP: Final = Struct(">q")
_MAX_TIMESTAMP_AT: Final = 35


class Round:
    """One round; call `run` once."""

    def __init__(self, task: CleaningTask, filesystem: FileSystem, pace: Pace) -> None:
        self._task = task
        self._filesystem = filesystem
        self._pace = pace
        self._chunks = SegmentChunks(filesystem, task.folder, pace)
        self._bytes_written = 0

    def run(self) -> Iterator[CleanedSegment | RoundDone]:
        """Raises OSError, CorruptBatchError, and then removes the unfinished segment."""
        task = self._task
        remove_cleaned(self._filesystem, task.folder)
        keys = KeyLearning(task, self._chunks).learn()
        count = len(keys)
        survivors = keys.survivors()
        if not task.segments or task.segments[0][0] >= task.first_dirty:
            keys.forget_keys()
        transactions = Transactions(task.aborted)
        rules = BatchRules(
            now_ms=task.now_ms,
            delete_retention_ms=task.delete_retention_ms,
            end_offset=task.end_offset,
            last_batches={last.producer_id: last for last in task.last_batches},
        )
        batch_filter = BatchFilter(rules, transactions, keys, survivors, task.first_dirty)
        for group in self._groups(keys.latest_offset + 1):
            cleaned = self._clean(group, batch_filter, transactions)
            if cleaned is not None:
                yield cleaned
        yield RoundDone(
            cleaned_offset=keys.latest_offset + 1,
            keys=count,
            bytes_read=self._chunks.bytes_read,
            bytes_written=self._bytes_written,
        )

    def _groups(self, end_offset: int) -> list[list[SegmentSizes]]:
        sizes = self._filesystem.files(self._task.folder)
        segments = [
            SegmentSizes(
                base, size, sizes.get(f"{base:020d}.index", 0), sizes.get(f"{base:020d}.timeindex", 0)
            )
            for base, size in self._task.segments
            if base < end_offset
        ]
        return group_segments(
            segments,
            most_bytes=self._task.segment_bytes,
            most_index_bytes=self._task.segment_index_bytes,
            end_offset=self._task.end_offset,
        )

    def _clean(
        self, group: Sequence[SegmentSizes], batch_filter: BatchFilter, transactions: Transactions
    ) -> CleanedSegment | None:
        base = group[0].base_offset
        writer = SegmentWriter(
            self._filesystem,
            f"{self._task.folder}/{base:020d}",
            base,
            self._task.index_interval_bytes,
            lambda size: self._chunks.beginning(base, size),
        )
        changed = len(group) > 1
        try:
            for segment in group:
                if segment.base_offset != base:
                    writer.differ()
                for chunk in self._chunks.forwards(segment.base_offset, segment.size):
                    changed |= _filter_chunk(chunk, batch_filter, writer)
                    self._written(writer)
            if changed:
                writer.finish(transactions.still_needed, self._chunks.path(group[-1].base_offset))
                self._written(writer)
        except BaseException:
            # Also if the caller gives up: the files are useless.
            writer.abandon()
            raise
        aborted = bool(transactions.still_needed)
        transactions.still_needed.clear()
        if not changed:
            writer.abandon()
            return None
        return CleanedSegment(
            bases=tuple(segment.base_offset for segment in group),
            size=writer.size,
            max_timestamp=writer.max_timestamp,
            max_timestamp_offset=writer.max_timestamp_offset,
            aborted=aborted,
        )

    def _written(self, writer: SegmentWriter) -> None:
        size = writer.take_written()
        if size:
            self._bytes_written += size
            self._pace.passed(size)


def _filter_chunk(found: Chunk, batch_filter: BatchFilter, writer: SegmentWriter) -> bool:
    """Write what is left of the batches, unchanged neighbours at once. Return whether anything changed."""
    chunk, batches = found
    changed = False
    begin = end = 0
    judge, note = batch_filter.judge, writer.note
    for at, fields in batches:
        left = judge(chunk, at, fields)
        if left is None:
            if at != end:
                if end > begin:
                    writer.keep(chunk, begin, end)
                begin = at
            size = fields[1] + LOG_OVERHEAD
            end = at + size
            note(fields[0] + fields[6], fields[8], size)
            continue
        changed = True
        if end > begin:
            writer.keep(chunk, begin, end)
        writer.differ()
        begin = end = -1
        if left:
            note(fields[0] + fields[6], _MAX_TIMESTAMP.unpack_from(left, _MAX_TIMESTAMP_AT)[0], len(left))
            writer.write(left)
    if end > begin:
        writer.keep(chunk, begin, end)
    return changed
