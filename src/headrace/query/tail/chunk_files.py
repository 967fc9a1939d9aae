"""The files of all tails: uncompressed Arrow IPC files in one folder, and how many bytes they may take.

File `<number>.arrow` has one record batch; its number is used once. A file is whole before anybody learns its
name, and never changes. One that is not needed any more stays for a while, because a question may be about to
open it; who has mapped it keeps it. The folder belongs to this process alone and is emptied at the start:
crash behaviour is that nothing of it counts. Safe for several threads.
"""

from __future__ import annotations

import itertools
import shutil
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from headrace.query.sources import TailChunk

# Schema and footer of a file, beside its rows.
_FRAME_BYTES: Final = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkFile:
    """A chunk, and how many bytes its file has."""

    chunk: TailChunk
    size: int


class FullError(Exception):
    """No more bytes are allowed."""


class ChunkFiles:
    """`most_bytes` bounds all files, also those that stay for a while: `keep_seconds`."""

    def __init__(self, folder: Path, *, most_bytes: int, keep_seconds: float) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self._keep_seconds = keep_seconds
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._used = 0
        self._removed: deque[tuple[float, ChunkFile]] = deque()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    @property
    def used(self) -> int:
        return self._used

    def write(self, rows: pa.Table, *, partition: int, first: int, end: int) -> ChunkFile:
        """Raises FullError, OSError."""
        expected = rows.nbytes + _FRAME_BYTES
        with self._lock:
            if self._used + expected > self._most_bytes:
                raise FullError
            self._used += expected
            path = self._folder / f"{next(self._numbers)}.arrow"
        try:
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
                writer.write_table(rows.combine_chunks())
            size = path.stat().st_size
        except BaseException:
            path.unlink(missing_ok=True)
            self._use(-expected)
            raise
        self._use(size - expected)
        chunk = TailChunk(path=str(path), partition=partition, first=first, end=end, rows=len(rows))
        return ChunkFile(chunk=chunk, size=size)

    def merge(self, files: Sequence[ChunkFile]) -> ChunkFile:
        """One file for chunks that follow each other; these stay. Raises FullError, OSError."""
        rows = pa.concat_tables(map(_read, files))
        first, last = files[0].chunk, files[-1].chunk
        return self.write(rows, partition=first.partition, first=first.first, end=last.end)

    def remove(self, files: Iterable[ChunkFile], now: float) -> None:
        """Not at once; `now` is monotonic."""
        with self._lock:
            self._removed.extend((now, each) for each in files)

    def sweep(self, now: float) -> None:
        """Delete what was removed long enough ago."""
        while True:
            with self._lock:
                if not self._removed or self._removed[0][0] > now - self._keep_seconds:
                    return
                _, file = self._removed.popleft()
            Path(file.chunk.path).unlink(missing_ok=True)
            self._use(-file.size)

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _use(self, size: int) -> None:
        with self._lock:
            self._used += size


def _read(file: ChunkFile) -> pa.Table:
    with pa.memory_map(file.chunk.path) as source:
        return pa.ipc.open_file(source).read_all()
