"""How many new partitions a table may get: whether made-up values of its partition columns become folders.

Each combination of values of the partition columns is a folder, and a folder costs the writer several
milliseconds at every commit that touches it, and every reader of the table for ever. A new combination with
many rows in one batch is worth its folder. Of those with few rows, a table gets a limited number in an hour;
the records of all others become dead letters.

Knows the folders that exist, `<column>=<value>/…`, with values escaped as Spark escapes them. Belongs to one
thread. Never makes a folder.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from headrace.lake.location import Location, located
from headrace.lake.storage.opening import files_at
from headrace.lake.storage.table_files import TableFiles

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

    def admit_large(self, found: Sequence[tuple[Partition, int]]) -> None:
        """Know those of the given partitions, with their rows, that are worth a folder in any case."""
        self._known.update(partition for partition, rows in found if rows >= _MANY_ROWS)

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


def partitions_in(table: Path | Location, columns: Sequence[str]) -> Iterator[Partition]:
    """The partitions that have a folder."""
    yield from _below(files_at(located(table)), "", tuple(columns))


def _below(files: TableFiles, folder: str, columns: tuple[str, ...]) -> Iterator[Partition]:
    if not columns:
        yield ()
        return
    prefix = f"{columns[0]}="
    for name in files.folders(folder):
        if name.startswith(prefix):
            for rest in _below(files, f"{folder}/{name}".strip("/"), columns[1:]):
                yield (unquote(name.removeprefix(prefix)), *rest)
