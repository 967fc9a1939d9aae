"""One segment of a partition log: its batches, its indexes, and the way from an offset to a batch.

Files, named after the first offset that the segment may contain, in 20 digits: `.log` (`batch_file`),
`.index`, `.timeindex`, and `.txnindex` if transactions were aborted in it. When a segment leaves the log, its
files get the suffix `.deleted` until they are removed.

Invariants: the segment covers the offsets from `base_offset` to before `end_offset`, where the next segment
begins or the log ends; not every offset needs to have a record. The indexes are loaded on first use and never
point past `size`; those of a closed segment may be dropped from memory at any time. `tail_offsets` and
`tail_positions` give the beginnings of the last batches, so that a reader at the end of the log needs neither
index nor disk. Only methods of this class change a segment; others read its fields.

When the next segment is due, the rules are Kafka's: the file would become larger than `segment.bytes`; a
batch is newer than the first one by more than `segment.ms`, or `max.compaction.lag.ms` if that is less and
the topic is compacted (if the first batch has no timestamp, the clock counts, from the segment's creation);
an index is full (`segment.index.bytes`); or an offset is too large to be relative. `PartitionLog.append`
checks each of them.

Crash behaviour: the `.log` file is the truth, and the indexes can be rebuilt from it; see `recovery`. Who may
call: `log/`, from one thread. Never decides when to roll, delete or sync.
"""

from __future__ import annotations

import logging
import random
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from headrace.log.errors import StorageError
from headrace.log.filesystem import remove_file
from headrace.log.segments import segment_indexes
from headrace.log.segments.batch_file import BatchFile, Place
from headrace.log.segments.offset_index import ENTRY_SIZE as OFFSET_ENTRY
from headrace.log.segments.offset_index import CorruptIndexError
from headrace.log.segments.segment_indexes import NO_TIMESTAMP, Newest
from headrace.log.segments.time_index import ENTRY_SIZE as TIME_ENTRY
from headrace.log.segments.transaction_index import TransactionIndex

if TYPE_CHECKING:
    from headrace.log.config import LogConfig
    from headrace.log.segments.offset_index import OffsetIndex
    from headrace.log.segments.segment_files import SegmentFile, SegmentFiles
    from headrace.log.segments.time_index import TimeIndex

_log = logging.getLogger(__name__)

KINDS: Final = ("log", "index", "timeindex", "txnindex")
DELETED: Final = ".deleted"
LARGEST_RELATIVE_OFFSET: Final = 2**31 - 1
NEVER: Final = 2**63 - 1
# Roughly how many of the last batches are remembered with their positions.
_MOST_TAIL: Final = 256


class Segment(BatchFile):
    """Created by `SegmentList`."""

    __slots__ = (
        "active",
        "appendable",
        "config",
        "created_ms",
        "end_offset",
        "first_timestamp",
        "full",
        "index",
        "indexed_position",
        "interval",
        "last_offset_allowed",
        "max_timestamp",
        "max_timestamp_offset",
        "roll_after_clock",
        "roll_after_timestamp",
        "tail_offsets",
        "tail_positions",
        "times",
        "timestamp_known",
        "transactions",
    )

    def __init__(
        self, folder: str, base_offset: int, files: SegmentFiles, config: LogConfig, *, size: int, now_ms: int
    ) -> None:
        super().__init__(folder, base_offset, files, size)
        self.config = config
        self.interval = config.index_interval_bytes
        self.created_ms = now_ms
        self.end_offset = base_offset
        # Accepts appends: the indexes stay in memory.
        self.active = False
        # Everything that an append needs is loaded. Readers need less, and may have opened the file before.
        self.appendable = False
        self.index: OffsetIndex | None = None
        self.times: TimeIndex | None = None
        # None if there is a file that has not been read yet; `AbortedTransactions.of` reads it.
        self.transactions: TransactionIndex | None = TransactionIndex()
        self.indexed_position = 0
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.timestamp_known = size == 0
        self.first_timestamp: int | None = None
        self.last_offset_allowed: Final = base_offset + LARGEST_RELATIVE_OFFSET
        self.full = False
        self.roll_after_timestamp = NEVER
        self.roll_after_clock = NEVER
        self.tail_offsets: list[int] = []
        self.tail_positions: list[int] = []

    # Appending

    def prepare_appends(self) -> SegmentFile:
        """Load everything that appends need. Return the file to write to. Raises StorageError."""
        file = self.open_file()
        self.newest_timestamp(), self.offset_index(), self.time_index()
        if self.first_timestamp is None and self.size:
            self._begin(self.first_header().max_timestamp, self.created_ms)
        self.appendable = True
        return file

    def appended(self, last_offset: int, timestamp: int, size: int, now_ms: int) -> None:
        """Count a batch that was written at the end, up to `last_offset`. Runs for every batch."""
        position = self.size
        self.size = position + size
        self.used = True
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_timestamp_offset = last_offset
        if position - self.indexed_position > self.interval:
            self._add_to_indexes(last_offset, position)
        elif not position:
            self._begin(timestamp, now_ms)
        self.tail_offsets.append(self.end_offset)
        self.tail_positions.append(position)
        self.end_offset = last_offset + 1

    def _begin(self, timestamp: int, now_ms: int) -> None:
        """The first batch of a segment determines when the next segment is due."""
        self.first_timestamp = timestamp
        self.created_ms = now_ms
        self._limit()

    def _add_to_indexes(self, last_offset: int, position: int) -> None:
        """Index the batch at a position, and the newest timestamp so far."""
        base_offset = self.base_offset
        self.offset_index().append(last_offset - base_offset, position)
        self.time_index().append_if_newer(self.max_timestamp, self.max_timestamp_offset - base_offset)
        self.indexed_position = position
        self.trim_tail()
        self.full = self._indexes_full()

    def _indexes_full(self) -> bool:
        """One entry of the time index is reserved for the newest timestamp; closing the segment adds it."""
        most = self.config.segment_index_bytes
        return (
            len(self.offset_index()) >= most // OFFSET_ENTRY
            or len(self.time_index()) >= most // TIME_ENTRY - 1
        )

    def trim_tail(self) -> None:
        """Forget the oldest of the remembered batches if there are too many."""
        if len(self.tail_offsets) > _MOST_TAIL:
            del self.tail_offsets[: -_MOST_TAIL // 2]
            del self.tail_positions[: -_MOST_TAIL // 2]

    def configure(self, config: LogConfig) -> None:
        """Use other settings from now on."""
        self.config = config
        self.interval = config.index_interval_bytes
        if self.active:
            self._limit()

    def _limit(self) -> None:
        """Compute from the first batch and the settings when the next segment is due."""
        config = self.config
        wait = config.segment_ms
        if config.compact:
            # Only closed segments can be compacted.
            wait = min(wait, config.max_compaction_lag_ms)
        most_jitter = min(config.segment_jitter_ms, config.segment_ms)
        if most_jitter > 0:
            # Not all partitions of a topic should roll at once.
            wait -= random.randrange(most_jitter)
        self.roll_after_timestamp = self.roll_after_clock = NEVER
        first = self.first_timestamp
        if first is not None:
            if first >= 0:
                self.roll_after_timestamp = first + wait
            else:
                self.roll_after_clock = self.created_ms + wait
        self.full = self.index is not None and self._indexes_full()

    # Place in the log

    def become_last(self, end_offset: int) -> None:
        """Become the last segment of a log that ends at this offset, and accept appends."""
        self.active = True
        self.end_offset = end_offset

    def end_appends(self) -> None:
        """Accept no more appends, and drop what only appends and readers of the end need."""
        self.active = False
        self.tail_offsets, self.tail_positions = [], []
        self._count_indexes()

    def ends_at(self, end_offset: int) -> None:
        """Set the offset at which the next segment begins."""
        self.end_offset = end_offset

    def scanned(self, size: int, index: OffsetIndex, times: TimeIndex, newest: Newest) -> None:
        """Take over the result of a scan: `size` bytes are good, with these indexes. Raises OSError."""
        if size < self.size:
            self.truncate_file(size)
        self.size = size
        self.know_newest(newest)
        times.append_if_newer(newest.timestamp, newest.offset - self.base_offset)
        self._take_indexes(index, times)
        self.save_indexes(whole=True)

    # Finding batches

    def locate(self, offset: int) -> Place | None:
        """The first batch that ends at or after an offset. Raises StorageError."""
        tail = self.tail_offsets
        if tail and offset >= tail[0]:
            number = bisect_right(tail, offset)
            position = self.tail_positions[number - 1]
            end = self.tail_positions[number] if number < len(tail) else self.size
            return Place(position, end - position, tail[number - 1])
        for _ in range(2):
            index = self.index or self.offset_index()
            entry = index.floor(offset - self.base_offset)
            if entry < 0:
                return self.search(offset, 0, None)[0]
            place, right = self.search(
                offset, index.positions[entry], self.base_offset + index.offsets[entry]
            )
            if right:
                return place
            _log.warning("%s does not match its log, rebuilding it", self.path("index"))
            self.build_indexes()
        raise StorageError(f"{self.log_path} does not contain offset {offset} where it should")

    def newest_timestamp(self) -> int:
        """The newest timestamp in the segment, -1 if it has none. Raises StorageError."""
        if not self.timestamp_known and self.times is None:
            newest = segment_indexes.newest_from_ends(self)
            if newest is not None:
                self.know_newest(newest)
        if not self.timestamp_known:
            times = self.time_index()
            # If the indexes had to be rebuilt, that has found the timestamp.
            if not self.timestamp_known and len(times):
                self.max_timestamp = times.timestamps[-1]
                self.max_timestamp_offset = self.base_offset + times.offsets[-1]
            self.timestamp_known = True
        return self.max_timestamp

    def know_newest(self, newest: Newest) -> None:
        """Set the newest timestamp."""
        self.max_timestamp, self.max_timestamp_offset = newest
        self.timestamp_known = True

    # Indexes

    def offset_index(self) -> OffsetIndex:
        """The index, from memory or its file, or rebuilt from the batches. Raises StorageError."""
        if self.index is None:
            self._load_indexes()
        assert self.index is not None
        return self.index

    def time_index(self) -> TimeIndex:
        """Like `offset_index`."""
        if self.times is None:
            self._load_indexes()
        assert self.times is not None
        return self.times

    def _load_indexes(self) -> None:
        try:
            self._take_indexes(*segment_indexes.load(self, self.interval))
        except CorruptIndexError as error:
            _log.warning("rebuilding the indexes of %s: %s", self.log_path, error)
            self.build_indexes()

    def build_indexes(self) -> None:
        """Rebuild both indexes from the batches, in memory and files. Raises StorageError."""
        index, times, newest = segment_indexes.build(self, self.interval)
        self.know_newest(newest)
        self._take_indexes(index, times)
        try:
            self.save_indexes(whole=True)
        except OSError as error:
            # They are in memory; a restart that needs them rebuilds them again.
            _log.warning("the indexes of %s cannot be written: %s", self.log_path, error)

    def _take_indexes(self, index: OffsetIndex, times: TimeIndex) -> None:
        self.index, self.times = index, times
        self.indexed_position = index.last_position()
        if not self.active:
            self._count_indexes()

    def _count_indexes(self) -> None:
        entries = self.offset_index(), self.time_index()
        self.files.index_loaded(self, 8 * len(entries[0]) + 12 * len(entries[1]))

    def take_transactions(self, index: TransactionIndex | None) -> None:
        """Set the index of aborted transactions; None if its file is still to be read."""
        self.transactions = index

    def save_indexes(self, *, whole: bool = False) -> None:
        """Write what is only in memory; with `whole` make sure the files exist. Raises OSError."""
        segment_indexes.save(self, self.index, self.times, self.transactions, whole=whole)

    def complete_indexes(self) -> None:
        """Save everything, with the newest timestamp as the last entry. Raises OSError, StorageError."""
        newest = self.newest_timestamp()
        self.offset_index()
        self.time_index().append_if_newer(newest, self.max_timestamp_offset - self.base_offset)
        self.save_indexes(whole=True)

    def drop_indexes(self) -> None:
        self.index = self.times = None
        if self.transactions and self.transactions.saved == len(self.transactions):
            self.transactions = None

    # Files

    def forget(self) -> None:
        """Close the file and drop the indexes from memory without writing anything."""
        self.files.forget(self)
        self.drop_indexes()
        self.tail_offsets, self.tail_positions = [], []

    def rename(self, suffix: str) -> None:
        """Record that the files were given another suffix."""
        self.suffix = suffix

    def mark_deleted(self) -> list[str]:
        """Rename the files for deletion. Return their new paths.

        Raises OSError and then leaves the segment unchanged. An index that could not be renamed no longer has
        a log file; the next opening of the log removes it.
        """
        rename = self.filesystem.rename
        paths = [self.path(kind) for kind in KINDS]
        # If it was compacted twice within the delay, renaming over the old file would free it on the spot.
        remove_file(self.filesystem, paths[0] + DELETED)
        rename(paths[0], paths[0] + DELETED)
        self.suffix = DELETED
        self.forget()
        for path in paths[1:]:
            try:
                rename(path, path + DELETED)
            except FileNotFoundError:
                continue
            except OSError as error:
                _log.warning("%s cannot be renamed: %s", path, error)
        return [path + DELETED for path in paths]

    def remove(self) -> None:
        """Remove the files immediately. Raises OSError."""
        self.forget()
        for kind in KINDS:
            remove_file(self.filesystem, self.path(kind))
