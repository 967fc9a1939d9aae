"""Which rows are certain to get their folder: the limit of new partitions (`lake/new_partitions.py`), as seen
from outside of the writer.

The writer refuses rows of new partitions if the table has got too many of these within an hour. This counts
every partition that is new in the table or in the tail, so it counts at least as many as the writer does:
while the sum is within the limit, the writer takes each of them. Beyond it, rows of further partitions are
left to the lake. One case stays open: if more partitions than the limit arrive within the time of one commit,
the writer prefers those with more rows, and may refuse some that were shown a moment before.

Safe for several threads. Times are seconds since 1970, because the log of a table has no others.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from typing import Final

from headrace.lake.new_partitions import Partition

_HOUR: Final = 3600.0


class FolderPolicy:
    """Of one table. `per_hour` limits new partitions; 0 is no limit."""

    def __init__(self, per_hour: int) -> None:
        self._per_hour = per_hour
        self._lock = threading.Lock()
        self._known: set[Partition] | None = None
        self._new: dict[Partition, float] = {}

    def learn(self, partitions: Mapping[Partition, float]) -> None:
        """The partitions of the table, each with the time of its oldest file."""
        with self._lock:
            known = self._known or set()
            for partition in partitions.keys() - known:
                # In the tail it was seen earlier.
                self._new.setdefault(partition, partitions[partition])
            self._known = known | partitions.keys()

    def refused(self, partitions: Collection[Partition], now: float) -> set[Partition]:
        """Those of these partitions whose rows are not certain to become rows of the table."""
        with self._lock:
            known = self._known or set()
            if not self._per_hour:
                return set()
            for old in [each for each, since in self._new.items() if since < now - _HOUR]:
                if old in known:
                    del self._new[old]
            found: set[Partition] = set()
            for partition in sorted(partitions):
                if partition in known or partition in self._new:
                    continue
                if len(self._new) >= self._per_hour:
                    found.add(partition)
                else:
                    self._new[partition] = now
            return found
