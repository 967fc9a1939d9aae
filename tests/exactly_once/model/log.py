"""A log as the model sees it: topics with ids, partitions with offsets, holes, retention, power cuts.

Offsets are reserved ahead. A power cut drops any part of the records that are not synced, for each partition
on its own; the partition goes on at its reservation, so that the offsets between are a hole for ever, and in
a new leader epoch. A hole is an empty batch, which compaction removes. Each record is a batch of its own.
Pure: time and chance are arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

AHEAD = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A record. `writer` is the query that derived it, if one did; `source` the header with its identity.

    `lineage` names the record at its root and the ordinals on the way from there: the same whenever the row
    is derived again, even if the topics between have it at other offsets by then.
    """

    key: str
    value: str
    writer: str = ""
    source: str = ""
    lineage: str = ""


class Partition:
    def __init__(self, *, reuses_offsets: bool = False) -> None:
        self.start = 0
        self.end = 0
        self.synced = 0
        self.rows: dict[int, Row] = {}
        # The leader epoch of each record; and the first and last offset of each hole, with its epoch.
        self._epoch = 0
        self._epochs: dict[int, int] = {}
        self._holes: list[tuple[int, int, int]] = []
        # What retention has removed: consumers have seen it.
        self.expired: list[Row] = []
        self._reserved = AHEAD
        self._reuses_offsets = reuses_offsets
        # The first record of an open transaction: read_committed ends before it.
        self.stable: int | None = None

    def append(self, row: Row) -> int:
        offset = self.end
        self.rows[offset] = row
        self._epochs[offset] = self._epoch
        self.end += 1
        if self.end >= self._reserved:
            self._reserved = self.end + AHEAD
        return offset

    def read(self, start: int, end: int | None = None) -> Iterator[tuple[int, Row]]:
        upto = self.end if end is None else end
        return ((offset, row) for offset, row in list(self.rows.items()) if start <= offset < upto)

    @property
    def stable_end(self) -> int:
        return self.end if self.stable is None else self.stable

    def sync(self) -> None:
        self.synced = self.end

    def cut(self, at: int) -> None:
        """The machine went down and the records from `at` on were not on the disk."""
        assert self.synced <= at <= self.end
        for offset in [each for each in self.rows if each >= at]:
            del self.rows[offset]
        self.end = at if self._reuses_offsets else max(self._reserved, self.end)
        if at < self.end:
            self._holes.append((at, self.end - 1, self._epoch))
        self._epoch += 1
        self._reserved = self.end + AHEAD
        self.synced = self.end
        self.stable = None

    def expire(self, start: int) -> None:
        """Retention."""
        for offset in [each for each in self.rows if each < start]:
            self.expired.append(self.rows.pop(offset))
        self.start = max(self.start, min(start, self.end))

    def compact(self) -> None:
        """Only the newest row of each key stays, among those that are synced."""
        newest = {row.key: offset for offset, row in self.rows.items() if offset < self.synced}
        for offset, row in list(self.rows.items()):
            if offset < self.synced and newest[row.key] != offset:
                del self.rows[offset]
        self._holes = [hole for hole in self._holes if hole[1] >= self.synced]

    def batches(self, start: int) -> list[tuple[int, int, int, bool]]:
        """First and last offset, leader epoch, and whether it is a hole, of each batch that ends at or behind
        an offset, in order.
        """
        found = [(offset, offset, self._epochs[offset], False) for offset in self.rows]
        found += [(*hole, True) for hole in self._holes]
        return sorted(batch for batch in found if batch[1] >= start)


class Topic:
    def __init__(self, name: str, number: int, partitions: int, *, reuses_offsets: bool = False) -> None:
        self.name = name
        self.id = f"{name}-{number}"
        self._reuses_offsets = reuses_offsets
        self.partitions: list[Partition] = []
        self.add_partitions(partitions)

    def add_partitions(self, number: int) -> None:
        self.partitions += [Partition(reuses_offsets=self._reuses_offsets) for _ in range(number)]

    def append(self, row: Row, partition: int | None = None) -> None:
        number = sum(row.key.encode()) % len(self.partitions) if partition is None else partition
        self.partitions[number].append(row)

    def ends(self) -> dict[int, int]:
        return {number: each.end for number, each in enumerate(self.partitions)}

    def rows(self) -> list[Row]:
        return [row for each in self.partitions for row in each.rows.values()]

    def seen_rows(self) -> list[Row]:
        """All that a consumer could have read and that no power cut took back."""
        return [row for each in self.partitions for row in (*each.expired, *each.rows.values())]


class Log:
    """Topics by name. The commits of queries are a topic of their own; each value is a whole history."""

    def __init__(self, *, reuses_offsets: bool = False) -> None:
        self.topics: dict[str, Topic] = {}
        self._made = 0
        self._reuses_offsets = reuses_offsets

    def make(self, name: str, partitions: int) -> Topic:
        """A topic of that name, in place of one that may be there."""
        self._made += 1
        self.topics[name] = topic = Topic(name, self._made, partitions, reuses_offsets=self._reuses_offsets)
        return topic
