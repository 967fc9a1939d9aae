"""The files of all tails in one folder, and how many bytes they may take.

`<number>.arrow` is an uncompressed Arrow IPC file with one record batch: written and read at once. Of a
megabyte and more, a chunk is the folder `<number>` with data files (`data_files.py`), which questions read
faster. A number is used once. A chunk is whole before anybody learns its name, and never changes. One that is
not needed any more stays for a while, because a question may be about to open it; who has mapped or linked it
keeps it. The folder belongs to this process alone and is emptied at the start: crash behaviour is that
nothing of it counts. Safe for several threads.
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

from headrace.lake.columns.folders import FolderColumn
from headrace.query.sources import TailChunk
from headrace.query.tail.data_files import DataFile, read_data_files, write_data_files

# Schema and footer of a file, beside its rows.
_FRAME_BYTES: Final = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Worthwhile:
    """Which chunks become data files: those with so many bytes of Arrow, and so many rows a file.

    Opening a file costs as much as scanning a thousand rows.
    """

    bytes: int = 1024 * 1024
    rows_of_file: int = 1_000


WORTHWHILE: Final = Worthwhile()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkFile:
    """A chunk, how many bytes it takes on the disk, and how many bytes of Arrow it is."""

    chunk: TailChunk
    size: int
    weight: int
    files: tuple[DataFile, ...] = ()


class FullError(Exception):
    """No more bytes are allowed."""


class ChunkFiles:
    """`most_bytes` bounds all files, also those that stay for a while: `keep_seconds`."""

    def __init__(
        self, folder: Path, *, most_bytes: int, keep_seconds: float, worthwhile: Worthwhile = WORTHWHILE
    ) -> None:
        self._folder = folder
        self._worthwhile = worthwhile
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

    def write(
        self,
        rows: pa.Table,
        *,
        partition: int,
        first: int,
        end: int,
        folders: Sequence[FolderColumn] | None = None,
    ) -> ChunkFile:
        """`folders` are the partition columns of the table; None if the rows may only be Arrow.

        Raises FullError, OSError.
        """
        expected = rows.nbytes + _FRAME_BYTES
        with self._lock:
            if self._used + expected > self._most_bytes:
                raise FullError
            self._used += expected
            path = self._folder / str(next(self._numbers))
        files: tuple[DataFile, ...] = ()
        try:
            if folders is not None and rows.nbytes >= self._worthwhile.bytes:
                files = write_data_files(path, rows, folders, fewest_rows=self._worthwhile.rows_of_file)
            if not files:
                path = path.with_suffix(".arrow")
                _write(path, rows)
            size = sum((path / each.name).stat().st_size for each in files) or path.stat().st_size
        except BaseException:
            _delete(path)
            self._use(-expected)
            raise
        self._use(size - expected)
        chunk = TailChunk(
            path=str(path),
            partition=partition,
            first=first,
            end=end,
            rows=len(rows),
            files=tuple(each.name for each in files),
        )
        return ChunkFile(chunk=chunk, size=size, weight=rows.nbytes, files=files)

    def merge(
        self, files: Sequence[ChunkFile], schema: pa.Schema, folders: Sequence[FolderColumn] | None = None
    ) -> ChunkFile:
        """One for chunks that follow each other; these stay. Raises FullError, OSError."""
        rows = pa.concat_tables([_read(each, schema, folders or ()) for each in files])
        first, last = files[0].chunk, files[-1].chunk
        return self.write(rows, partition=first.partition, first=first.first, end=last.end, folders=folders)

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
            _delete(Path(file.chunk.path))
            self._use(-file.size)

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _use(self, size: int) -> None:
        with self._lock:
            self._used += size


def _write(path: Path, rows: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())


def _read(file: ChunkFile, schema: pa.Schema, folders: Sequence[FolderColumn]) -> pa.Table:
    path = Path(file.chunk.path)
    if file.files:
        return read_data_files(path, file.files, folders, schema)
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).read_all()


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
