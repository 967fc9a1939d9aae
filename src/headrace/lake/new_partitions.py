"""How many new partitions a table may get: whether made-up values of its partition columns become folders.

Each combination of values of the partition columns is a folder, and a folder costs the writer several
milliseconds at every commit that touches it, and every reader of the table for ever. A new combination with
many rows in one batch is worth its folder. Of those with few rows, a table gets a limited number in an hour;
the records of all others become dead letters.

Knows the folders that exist, `<column>=<value>/…`, with values escaped as Spark escapes them. Belongs to one
thread. Never makes a folder.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote

# The value of a column in its folder's name if the column is null or empty.
NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
# The system's limit for the name of a folder, in bytes.
LONGEST_NAME: Final = 255

_MANY_ROWS: Final = 20
_HOUR: Final = 3600.0

# The values of the partition columns, in their order.
Partition = tuple[str, ...]


class NewPartitions:
    """The partitions of one table. `per_hour` limits new ones with few rows; 0 is no limit."""

    def __init__(self, known: Iterable[Partition], *, per_hour: int) -> None:
        self._known = set(known)
        self._per_hour = per_hour
        self._admitted: deque[float] = deque()

    @property
    def known(self) -> frozenset[Partition]:
        return frozenset(self._known)

    @property
    def per_hour(self) -> int:
        return self._per_hour

    def refused(self, found: Sequence[tuple[Partition, int]], now: float) -> set[Partition]:
        """Those of the given partitions, with their rows, that the table must not get; it has the others from
        now on.

        `now` is monotonic, in seconds.
        """
        while self._admitted and self._admitted[0] <= now - _HOUR:
            self._admitted.popleft()
        refused: set[Partition] = set()
        for partition, rows in sorted(found, key=lambda each: (-each[1], each[0])):
            if partition in self._known:
                continue
            if self._per_hour and rows < _MANY_ROWS:
                if len(self._admitted) >= self._per_hour:
                    refused.add(partition)
                    continue
                self._admitted.append(now)
            self._known.add(partition)
        return refused


def partitions_in(folder: Path, columns: Sequence[str]) -> Iterator[Partition]:
    """The partitions that have a folder."""
    yield from _below(str(folder), tuple(columns))


def _below(folder: str, columns: tuple[str, ...]) -> Iterator[Partition]:
    if not columns:
        yield ()
        return
    prefix = f"{columns[0]}="
    try:
        with os.scandir(folder) as entries:
            found = [entry for entry in entries if entry.name.startswith(prefix) and entry.is_dir()]
    except FileNotFoundError:
        return
    for entry in found:
        for rest in _below(entry.path, columns[1:]):
            yield (unquote(entry.name.removeprefix(prefix)), *rest)
