"""The last record of each key in the dirty part of a log.

Batches are added from the last to the first, so that a key that was seen before needs no further work, and
only the keys (`record_keys`) and the surviving offsets are remembered.

Invariants: an offset survives exactly if no later record with the same key was added. Memory use is about
`BYTES_PER_KEY` per key. Byte format: none of its own. Crash behaviour: nothing is written. Who may call: the
cleaner. Raises CorruptBatchError for records that cannot be parsed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Final

from headrace.log.compaction.record_keys import BatchKeys, keys_of, locate_records

# A bytes object of 16 to 48 bytes, its slot in a set that may just have grown, and an offset.
BYTES_PER_KEY: Final = 128


class LastRecords:
    """The last record of each key, filled from the end of the dirty part to its beginning."""

    def __init__(self, *, latest_offset: int = -1) -> None:
        """`latest_offset` is the last offset considered; later records are not touched."""
        self.latest_offset: Final = latest_offset
        self._seen: set[bytes] = set()
        # In falling order, as they are found.
        self._offsets = array("q")
        self._tombstones = array("q")
        # Surviving offsets of the batch in which the dirty part begins, if that is not its first record.
        self._in_first_batch: frozenset[int] = frozenset()
        # Batches whose records are not numbered from 0 without gaps.
        self.gapped: set[int] = set()

    def __len__(self) -> int:
        return len(self._seen)

    def add(self, data: bytes, count: int, base_offset: int) -> None:
        """Add all records of a batch that precedes those added so far. Raises CorruptBatchError."""
        found = keys_of(data, count)
        if found.gapped:
            self.gapped.add(base_offset)
        self._add(found, base_offset)

    def add_from(self, data: bytes, count: int, base_offset: int, start_offset: int) -> None:
        """Like `add`, for the first batch, in which only offsets from `start_offset` on count."""
        self.gapped.add(base_offset)
        records = [
            record
            for record in locate_records(data, count)
            if base_offset + record.delta >= start_offset and record.key is not None
        ]
        before = len(self._offsets)
        self._add(
            BatchKeys(
                [record.key for record in records if record.key is not None],
                [record.delta for record in records],
                [record.delta for record in records if record.tombstone],
                gapped=True,
            ),
            base_offset,
        )
        self._in_first_batch = frozenset(self._offsets[before:])

    def _add(self, found: BatchKeys, base_offset: int) -> None:
        keys, deltas, tombstones, _ = found
        fresh = set(keys) - self._seen
        if not fresh:
            return
        self._seen |= fresh
        if len(fresh) == len(keys):
            alive = deltas[::-1]
        else:
            # If a key occurs more than once, the last record counts.
            last = dict(zip(keys, deltas, strict=True))
            alive = sorted([last[key] for key in fresh], reverse=True)
        self._offsets.extend([base_offset + delta for delta in alive])
        if tombstones:
            among = set(alive)
            self._tombstones.extend([base_offset + delta for delta in reversed(tombstones) if delta in among])

    def keeps(self, key: bytes | None, offset: int) -> bool:
        """Whether a record of the clean part, or of the batch in which the dirty part begins, survives."""
        return key is not None and (key not in self._seen or offset in self._in_first_batch)

    def numbers_kept(self, found: BatchKeys, base_offset: int) -> list[int]:
        """The numbers of the surviving records among those of such a batch that have keys."""
        keys, seen = found.keys, self._seen
        if seen.isdisjoint(keys):
            return list(range(len(keys)))
        kept = [number for number, key in enumerate(keys) if key not in seen]
        if self._in_first_batch:
            also = enumerate(found.deltas)
            kept += [number for number, delta in also if base_offset + delta in self._in_first_batch]
            kept.sort()
        return kept

    def survivors(self) -> Survivors:
        """Call once, after everything was added."""
        self._offsets.reverse()
        self._tombstones.reverse()
        return Survivors(self._offsets, self._tombstones)

    def forget_keys(self) -> None:
        """Free the memory if there is no clean part to compare with."""
        self._seen = set()


class Survivors:
    """The surviving offsets of the dirty part, to be requested batch by batch, in order."""

    def __init__(self, offsets: array[int], tombstones: array[int]) -> None:
        self._offsets = offsets
        self._tombstones = tombstones
        self._next = 0
        self._next_tombstone = 0

    def between(self, first: int, last: int) -> list[int]:
        """The surviving offsets of a batch. Request batches in offset order."""
        offsets = self._offsets
        begin = self._next
        if begin < len(offsets) and offsets[begin] < first:
            begin = bisect_left(offsets, first, begin)
        end = begin
        if end < len(offsets) and offsets[end] <= last:
            # There is at most one per offset of the batch.
            end = bisect_left(offsets, last + 1, begin, min(len(offsets), begin + last - first + 1))
        self._next = end
        return offsets[begin:end].tolist()

    def tombstones_between(self, first: int, last: int) -> list[int]:
        """The surviving offsets of a batch that are tombstones."""
        tombstones = self._tombstones
        if not tombstones:
            return []
        begin = bisect_left(tombstones, first, self._next_tombstone)
        end = bisect_left(tombstones, last + 1, begin)
        self._next_tombstone = end
        return tombstones[begin:end].tolist()
