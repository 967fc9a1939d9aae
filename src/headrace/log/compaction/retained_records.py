"""The rules of what compaction keeps, as functions of values.

A compacted log keeps at least the last record of each key; offsets never change. It has a *clean* part, from
its start to the cleaned offset, in which each key occurs once, followed by a *dirty* part. A round of
cleaning finds the last offset of each key in the dirty part, and removes superseded records from both. The
rules are those of Apache Kafka 4.3:

* The last segment, segments with records younger than `min.compaction.lag.ms`, and everything from the last
  stable offset on are not touched. A log is due when its dirty part has more than `min.cleanable.dirty.ratio`
  of its bytes, or when a dirty record is older than `max.compaction.lag.ms`.
* A record without a value (a tombstone) stays until its batch's *delete horizon* has passed. The first round
  that finds it sets the horizon to `delete.retention.ms` from then: a reader from the beginning has this long
  to see the tombstone (KIP-534).
* Records of aborted transactions are removed. The marker that ends a transaction stays as long as a batch of
  that transaction, and then as long as a tombstone would.
* The last batch of an active producer and the last batch of the round stay as empty batches when all their
  records are removed: the first so that sequence numbers are still known after a restart (KIP-98), the second
  so that the end of the cleaned part is.
* Neighbouring segments that have become small are joined, up to `segment.bytes`.

Example: with `k` at 0, `m` at 1, `k` at 2 and a tombstone of `m` at 3, all closed, a round leaves 2 and 3; a
round after the horizon leaves 2.

Invariants: nothing here reads files, clocks or bytes of records. Who may call: the cleaner. Crash behaviour
and byte formats: `segment_rewriting`, `segment_swap`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from headrace.log.config import FOREVER, LogConfig
from headrace.log.segments.transaction_index import AbortedTransaction

LARGEST_RELATIVE_OFFSET: Final = 2**31 - 1
ABORT: Final = 0
COMMIT: Final = 1


class ClosedSegment(NamedTuple):
    """What planning needs to know about a closed segment."""

    base_offset: int
    size: int
    newest_timestamp: int = -1
    """Only used with `min.compaction.lag.ms`."""
    first_timestamp: int = -1
    """The newest of the first batch; only used with `max.compaction.lag.ms`."""


class LastBatch(NamedTuple):
    """The last data offset of an active producer; -1 if the log contains only its marker."""

    producer_id: int
    last_offset: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DirtyPart:
    """The part that a round would clean: offsets from `first_dirty` to before `end_offset`."""

    first_dirty: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool
    """Whether `max.compaction.lag.ms` requires a round now."""

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, config: LogConfig) -> bool:
        if not self.dirty_bytes:
            return False
        return self.overdue or self.ratio > config.min_cleanable_dirty_ratio


def dirty_part(
    closed: Sequence[ClosedSegment],
    config: LogConfig,
    *,
    start_offset: int,
    active_base: int,
    end_offset: int,
    limit_offset: int,
    cleaned_offset: int | None,
    now_ms: int,
) -> DirtyPart:
    """The part of a log that is to be cleaned next.

    `closed` are all segments before the last one, which begins at `active_base`. Nothing from `limit_offset`
    on is touched. A `cleaned_offset` that cannot be one of this log counts as none.
    """
    first_dirty = start_offset
    if cleaned_offset is not None and start_offset <= cleaned_offset <= end_offset:
        first_dirty = cleaned_offset
    # Where each closed segment ends.
    ends = [*(segment.base_offset for segment in closed[1:]), active_base][: len(closed)]
    dirty = [segment for segment, end in zip(closed, ends, strict=True) if end > first_dirty]
    limit = min(limit_offset, active_base)
    for segment in dirty:
        if config.min_compaction_lag_ms > 0 and (
            segment.newest_timestamp > now_ms - config.min_compaction_lag_ms
        ):
            limit = min(limit, segment.base_offset)
            break
    overdue = config.max_compaction_lag_ms < FOREVER and any(
        0 < segment.first_timestamp < now_ms - config.max_compaction_lag_ms for segment in dirty
    )
    # A round ends at the beginning of a segment: the segment that contains the limit is not touched.
    end = max([end for end in ends if end <= limit], default=start_offset)
    clean_bytes = sum(segment.size for segment in closed if segment.base_offset < first_dirty)
    dirty_bytes = sum(segment.size for segment in dirty if segment.base_offset < end)
    if end <= first_dirty:
        end, dirty_bytes = first_dirty, 0
    return DirtyPart(
        first_dirty=first_dirty,
        end_offset=end,
        clean_bytes=clean_bytes,
        dirty_bytes=dirty_bytes,
        overdue=overdue,
    )


class SegmentSizes(NamedTuple):
    """A segment that may be joined with its neighbours."""

    base_offset: int
    size: int
    index_size: int
    time_index_size: int


def group_segments(
    segments: Sequence[SegmentSizes], *, most_bytes: int, most_index_bytes: int, end_offset: int
) -> list[list[SegmentSizes]]:
    """Group neighbours that are joined into one segment, by their sizes before cleaning."""
    groups: list[list[SegmentSizes]] = []
    size = index_size = time_index_size = 0
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else end_offset
        if (
            groups
            and size + segment.size <= most_bytes
            and index_size + segment.index_size <= most_index_bytes
            and time_index_size + segment.time_index_size <= most_index_bytes
            and (not segment.size or following - 1 - groups[-1][0].base_offset <= LARGEST_RELATIVE_OFFSET)
        ):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size = index_size = time_index_size = 0
        size += segment.size
        index_size += segment.index_size
        time_index_size += segment.time_index_size
    return groups


class Transactions:
    """Tracks the transactions of batches that are read in order."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        # The next one to begin is the last in the list.
        self._to_come = sorted(aborted, key=lambda transaction: -transaction.first_offset)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._with_batches: set[int] = set()
        self._committed: set[int] = set()
        self.still_needed: list[AbortedTransaction] = []
        """Entries for the transaction index of the segment being written; its writer empties the list."""

    def data_batch(self, producer_id: int, base_offset: int, last_offset: int) -> bool:
        """Note a transactional batch. Return whether its transaction was aborted."""
        self._begin_up_to(last_offset)
        transaction = self._aborted.get(producer_id)
        # An entry may have outlived its marker, and does not apply to later batches.
        if transaction is not None and base_offset <= transaction.last_offset:
            self._with_batches.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def marker(self, producer_id: int, last_offset: int, kind: int | None) -> bool:
        """Note a control batch (`kind` None: empty). Return whether its transaction has no batch left."""
        self._begin_up_to(last_offset)
        if kind is None:
            return True
        if kind == ABORT:
            transaction = self._aborted.pop(producer_id, None)
            if transaction is not None and producer_id in self._with_batches:
                self._with_batches.discard(producer_id)
                self.still_needed.append(transaction)
                return False
            return True
        if kind == COMMIT:
            seen = producer_id in self._committed
            self._committed.discard(producer_id)
            return not seen
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._to_come and self._to_come[-1].first_offset <= offset:
            transaction = self._to_come.pop()
            before = self._aborted.get(transaction.producer_id)
            if before is None or before.last_offset < transaction.first_offset:
                self._aborted[transaction.producer_id] = transaction
                self._with_batches.discard(transaction.producer_id)


class Fate(Enum):
    """What happens to a batch, decided before its records are read."""

    GOES = "goes"
    STAYS_EMPTY = "stays, with no record if need be"
    STAYS_UNLESS_EMPTY = "stays if a record does"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRules:
    """The values of a round that decide the fate of batches."""

    now_ms: int
    delete_retention_ms: int
    end_offset: int
    last_batches: Mapping[int, LastBatch]

    @property
    def new_horizon(self) -> int:
        return self.now_ms + self.delete_retention_ms

    def fate(self, *, producer_id: int, epoch: int, last_offset: int, control: bool, discard: bool) -> Fate:
        """`discard`: its transaction removes all of its records."""
        if last_offset + 1 == self.end_offset or self._is_last_of_producer(
            producer_id, epoch, last_offset, control
        ):
            return Fate.STAYS_EMPTY
        return Fate.GOES if discard else Fate.STAYS_UNLESS_EMPTY

    def _is_last_of_producer(self, producer_id: int, epoch: int, last_offset: int, control: bool) -> bool:
        last = self.last_batches.get(producer_id)
        if producer_id < 0 or last is None:
            return False
        if last.last_offset >= 0:
            return last_offset == last.last_offset
        return control and epoch == last.epoch

    def keeps_tombstones(self, horizon: int | None) -> bool:
        return horizon is None or self.now_ms < horizon
