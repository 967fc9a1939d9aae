"""One round of cleaning: closed segments are read, what survives is written to new ones beside them.

A round is a `CleaningTask`, which can be carried out anywhere that has the folder: in the broker's process,
or in one of its own (`cleaning_process`). It reads the dirty part once to learn the last offset of each key,
then everything from the log's beginning, group by group, and writes each group of segments as one:
`<base offset>.log.cleaned`, `.index.cleaned`, `.timeindex.cleaned` and, if transactions were aborted,
`.txnindex.cleaned`, all as those of a segment (`segment`). What it says of each is a `CleanedSegment`; at
last comes `RoundDone`. Only the log itself puts them in place (`segment_swap`).

Invariants: nothing but `.cleaned` files is written, and they are synced before they are spoken of. A group of
one segment of which nothing goes is not spoken of. Reading and writing together keep below
`bytes_per_second`. A round that has room for fewer keys than there are ends earlier, at a batch's end, and
says so.

Crash behaviour: `.cleaned` files count for nothing, and are removed when the log is opened. Who may call: the
cleaner; while a round runs nobody else may write files of these names. Never touches a file of the log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from struct import Struct
from typing import Any, Final

from headrace.log.batch_filter import BatchFilter, marker_kind, payload_of
from headrace.log.batch_walk import Fields
from headrace.log.compaction import BatchRules, LastBatch, SegmentSizes, Transactions, group_segments
from headrace.log.filesystem import FileSystem
from headrace.log.record_keys import KeyOffsets
from headrace.log.segment_writer import SegmentWriter, remove_cleaned
from headrace.log.transaction_index import AbortedTransaction
from headrace.wire.errors import CorruptBatchError
from headrace.wire.record_batch import (
    CONTROL,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    SMALLEST_LENGTH,
    TRANSACTIONAL,
)

_HEADER: Final = Struct(">qiibIhiqqqhii")
_MAX_TIMESTAMP: Final = Struct(">q")
_MAX_TIMESTAMP_AT: Final = 35
_READ: Final = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningTask:
    """What a round is to do, without anything that cannot be written down."""

    folder: str
    segments: tuple[tuple[int, int], ...]
    """Base offset and size of all segments before `end_offset`."""
    first_dirty: int
    end_offset: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    most_keys: int
    bytes_per_second: float
    last_batches: tuple[LastBatch, ...] = ()
    aborted: tuple[AbortedTransaction, ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> CleaningTask:
        fields: dict[str, Any] = json.loads(text)
        fields["segments"] = tuple((base, size) for base, size in fields["segments"])
        fields["last_batches"] = tuple(LastBatch(*each) for each in fields["last_batches"])
        fields["aborted"] = tuple(AbortedTransaction(*each) for each in fields["aborted"])
        return cls(**fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedSegment:
    """A finished `.cleaned` segment, which takes the place of the segments with these base offsets."""

    bases: tuple[int, ...]
    size: int
    max_timestamp: int
    max_timestamp_offset: int
    aborted: bool
    """Whether it has a transaction index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundDone:
    """The end of a round: the log is clean before `cleaned_offset` once all segments are in place."""

    cleaned_offset: int
    keys: int
    bytes_read: int
    bytes_written: int


class Pace:
    """Sleeps so that no more bytes pass in a second than may."""

    def __init__(
        self, bytes_per_second: float, clock: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._began = clock()
        self._bytes = 0

    def passed(self, size: int) -> None:
        self._bytes += size
        early = self._began + self._bytes / self._rate - self._clock()
        if early > 0:
            self._sleep(early)
        elif early < -1:
            # Time in which nothing was done gives no right to a rush.
            self._began, self._bytes = self._clock(), 0


class Round:
    """One round; `run` it once."""

    def __init__(self, task: CleaningTask, filesystem: FileSystem, pace: Pace) -> None:
        self._task = task
        self._filesystem = filesystem
        self._pace = pace
        self._bytes_read = 0
        self._bytes_written = 0

    def run(self) -> Iterator[CleanedSegment | RoundDone]:
        """Raises OSError, CorruptBatchError; what it wrote of the segment it was at is removed then."""
        task = self._task
        remove_cleaned(self._filesystem, task.folder)
        keys = self._learn_keys()
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
            bytes_read=self._bytes_read,
            bytes_written=self._bytes_written,
        )

    def _learn_keys(self) -> KeyOffsets:
        """The last offset of each key in the dirty part, or in as much of it as there is room for."""
        task = self._task
        keys = KeyOffsets()
        transactions = Transactions(task.aborted)
        for number, (base, size) in enumerate(task.segments):
            following = task.segments[number + 1][0] if number + 1 < len(task.segments) else task.end_offset
            if following <= task.first_dirty:
                continue
            for chunk, batches in self._chunks(base, size):
                for at, fields in batches:
                    last = fields[0] + fields[6]
                    if last < task.first_dirty:
                        continue
                    if len(keys) >= task.most_keys:
                        return keys
                    self._learn_batch(keys, transactions, chunk, at, fields)
                    keys.latest_offset = last
            # What stood at the end of the segment may be gone already.
            keys.latest_offset = following - 1
        return keys

    def _learn_batch(
        self, keys: KeyOffsets, transactions: Transactions, chunk: bytes, at: int, fields: Fields
    ) -> None:
        attributes, base = fields[5], fields[0]
        if attributes & CONTROL:
            transactions.marker(fields[9], base + fields[6], marker_kind(chunk, at, fields))
        elif not (attributes & TRANSACTIONAL and transactions.data_batch(fields[9], base, base + fields[6])):
            data = payload_of(chunk, at, fields)
            if base >= self._task.first_dirty:
                keys.add(data, fields[12], base)
            else:
                keys.add_from(data, fields[12], base, self._task.first_dirty)

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
            self._filesystem, f"{self._task.folder}/{base:020d}", base, self._task.index_interval_bytes
        )
        changed = len(group) > 1
        try:
            for segment in group:
                for chunk, batches in self._chunks(segment.base_offset, segment.size):
                    changed |= _filter_chunk(chunk, batches, batch_filter, writer)
                    self._written(writer)
            if changed:
                writer.finish(transactions.still_needed, self._path(group[-1].base_offset))
                self._written(writer)
        except BaseException:
            # Also if whoever runs this gives up: the files are of no use to anybody.
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

    def _path(self, base_offset: int) -> str:
        return f"{self._task.folder}/{base_offset:020d}.log"

    def _chunks(self, base_offset: int, size: int) -> Iterator[tuple[bytes, list[tuple[int, Fields]]]]:
        """Pieces of a segment's file that begin with a batch, and the batches that are whole in them."""
        filesystem, unpack = self._filesystem, _HEADER.unpack_from
        if not size:
            return
        descriptor = filesystem.open(self._path(base_offset))
        try:
            position, wanted, expected = 0, _READ, base_offset
            while position < size:
                chunk = filesystem.pread(descriptor, min(wanted, size - position), position)
                wanted = _READ
                batches: list[tuple[int, Fields]] = []
                at, total = 0, len(chunk)
                while at + HEADER_SIZE <= total:
                    fields: Fields = unpack(chunk, at)
                    if fields[1] < SMALLEST_LENGTH or fields[3] != MAGIC or fields[0] < expected:
                        raise CorruptBatchError(f"no batch at byte {position + at} of segment {base_offset}")
                    end = at + fields[1] + LOG_OVERHEAD
                    if end > total:
                        wanted = max(wanted, end - at)
                        break
                    batches.append((at, fields))
                    expected = fields[0] + fields[6] + 1
                    at = end
                if not batches and (total == size - position or wanted <= total):
                    raise CorruptBatchError(f"no whole batch at byte {position} of segment {base_offset}")
                position += at
                self._bytes_read += at
                self._pace.passed(at)
                yield chunk, batches
        finally:
            filesystem.close(descriptor)


def _filter_chunk(
    chunk: bytes, batches: list[tuple[int, Fields]], batch_filter: BatchFilter, writer: SegmentWriter
) -> bool:
    """Write what is left of the batches, neighbours that stay as they are at once; whether anything went."""
    changed = False
    begin = end = 0
    judge, note = batch_filter.judge, writer.note
    for at, fields in batches:
        left = judge(chunk, at, fields)
        if left is None:
            if at != end:
                if end > begin:
                    writer.write(chunk[begin:end])
                begin = at
            size = fields[1] + LOG_OVERHEAD
            end = at + size
            note(fields[0] + fields[6], fields[8], size)
            continue
        changed = True
        if end > begin:
            writer.write(chunk[begin:end])
        begin = end = -1
        if left:
            note(fields[0] + fields[6], _MAX_TIMESTAMP.unpack_from(left, _MAX_TIMESTAMP_AT)[0], len(left))
            writer.write(left)
    if end > begin:
        writer.write(chunk[begin:end])
    return changed
