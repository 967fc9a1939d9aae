"""The bytes of objects that questions have asked for, on the local disk: a file for each object, with holes.

What an object has at an offset, its file has there too, once it was filled. Data files of a table never
change, so a name and a size say what the content is. Invariants: all files together have at most `most_bytes`
that are filled, apart from what is being filled; the least recently used objects go first. An object that
goes is cut to nothing before it is removed: a worker that still has it open reads too little, never a hole.
Belongs to one event loop; `write` may be called from any thread.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headrace.lake.sink import S3Storage

BLOCK_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """A data file in a bucket."""

    storage: S3Storage
    key: str
    size: int


@dataclass(slots=True, kw_only=True)
class CachedObject:
    """`filled` are the blocks whose bytes are in the file."""

    path: Path
    size: int
    filled: set[int] = field(default_factory=set)
    # How many fetches will still write to it.
    pending: int = 0

    def lacks(self, start: int, end: int) -> list[int]:
        """The blocks of this range that are not filled."""
        return [each for each in blocks(start, end) if each not in self.filled]

    def extent(self, start: int, end: int) -> tuple[int, int]:
        """All that is filled around a range that is."""
        first, last = start // BLOCK_BYTES, max(start, end - 1) // BLOCK_BYTES
        while first - 1 in self.filled:
            first -= 1
        while last + 1 in self.filled:
            last += 1
        return first * BLOCK_BYTES, min((last + 1) * BLOCK_BYTES, self.size)

    def write(self, start: int, content: bytes) -> None:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            written = 0
            while written < len(content):
                written += os.pwrite(descriptor, memoryview(content)[written:], start + written)
        finally:
            os.close(descriptor)


class ObjectCache:
    """In a folder of its own, which is emptied first."""

    def __init__(self, folder: Path, *, most_bytes: int) -> None:
        self._folder = folder
        self.most_bytes = most_bytes
        self._objects: OrderedDict[StoredObject, CachedObject] = OrderedDict()
        self._used = 0
        self._number = 0

    @property
    def used(self) -> int:
        """Bytes that are filled."""
        return self._used

    def open(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(mode=0o700, parents=True)

    def close(self) -> None:
        self._objects.clear()
        shutil.rmtree(self._folder, ignore_errors=True)

    def entry(self, of: StoredObject) -> CachedObject:
        """Its file, with nothing in it at first."""
        found = self._objects.get(of)
        if found is None:
            # A name is not used again: who has the path of a former file must not find another there.
            self._number += 1
            found = self._objects[of] = CachedObject(path=self._folder / str(self._number), size=of.size)
        self._objects.move_to_end(of)
        return found

    def fill(self, entry: CachedObject, filled: range) -> None:
        """These blocks are written. Others may go for them."""
        new = [each for each in filled if each not in entry.filled]
        entry.filled.update(new)
        self._used += len(new) * BLOCK_BYTES
        if self._used > self.most_bytes:
            self._evict(entry)

    def _evict(self, kept: CachedObject) -> None:
        for of, entry in list(self._objects.items()):
            if self._used <= self.most_bytes:
                return
            if entry is kept or entry.pending:
                continue
            del self._objects[of]
            self._used -= len(entry.filled) * BLOCK_BYTES
            entry.filled.clear()
            with contextlib.suppress(FileNotFoundError):
                os.truncate(entry.path, 0)
                entry.path.unlink()


def blocks(start: int, end: int) -> range:
    """The numbers of the blocks that have a part of this range."""
    return range(start // BLOCK_BYTES, -(-end // BLOCK_BYTES))


def runs(numbers: list[int]) -> list[range]:
    """Sorted numbers as ranges without gaps."""
    found: list[range] = []
    for each in numbers:
        if found and found[-1].stop == each:
            found[-1] = range(found[-1].start, each + 1)
        else:
            found.append(range(each, each + 1))
    return found
