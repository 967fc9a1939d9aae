"""Files in buckets as a worker's DuckDB sees them: `stored://…`, read through the query process.

A worker knows no bucket and no credentials. For a range of a file it asks the query process, which answers
with the name of a local file that has the range at the same offset (`buckets/reading.py`), if the file is one
of the question's tables. Invariants: only files of the current plan can be opened; what is read is complete,
or an error; a read that waits ends when the question is interrupted. Why a read failed is in `failure`, since
DuckDB makes a text of every error. Several threads of DuckDB read at once. Never writes.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from fsspec import AbstractFileSystem

from headrace.query.table_snapshot import STORED

# Files never change, so they all may have one time.
_MODIFIED: Final = datetime(2000, 1, 1, tzinfo=UTC)
_MOST_OPEN: Final = 256
# So many files behind the one that is read are made ready.
_AHEAD: Final = 8
_MOST_ATTEMPTS: Final = 10
_LOOK_SECONDS: Final = 0.05


class FileGoneError(Exception):
    """A file of the plan is not in the bucket any more."""


class BucketReadError(Exception):
    """The bucket could not be read; says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Extent:
    """An open local file, and which bytes it has. It is closed when nobody reads it any more."""

    file: io.FileIO
    start: int
    end: int


class BucketFiles:
    """The files of the plan. `send` sends a request; `is_interrupted` says if the question was stopped."""

    def __init__(self) -> None:
        self.send: Callable[[bytes], None] = lambda _: None
        self.is_interrupted: Callable[[], bool] = lambda: False
        self.failure: Exception | None = None
        self._sizes: dict[str, int] = {}
        # The files that will be read, in order, and their places in it.
        self._orders: list[Sequence[str]] = []
        self._places: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()
        self._extents: OrderedDict[str, _Extent] = OrderedDict()
        self._numbers = itertools.count()
        self._waiting: dict[int, queue.SimpleQueue[Mapping[str, Any]]] = {}

    def admit(self, sizes: Mapping[str, int]) -> None:
        """These files can be read."""
        self._sizes.update(sizes)

    def expect(self, files: Sequence[str]) -> None:
        """These files of a table will be read, in this order."""
        number = len(self._orders)
        self._orders.append(files)
        self._places.update((file, (number, place)) for place, file in enumerate(files))

    def begin(self) -> None:
        """A new question: only what it plans can be read."""
        self._sizes.clear()
        self._orders.clear()
        self._places.clear()
        self.failure = None

    def size(self, path: str) -> int:
        if path not in self._sizes:
            raise FileNotFoundError(path)
        return self._sizes[path]

    def answered(self, payload: bytes) -> None:
        """The answer to a request has come."""
        answer = json.loads(payload)
        with self._lock:
            waiting = self._waiting.get(answer["number"])
        if waiting is not None:
            waiting.put(answer)

    def read(self, path: str, start: int, length: int) -> bytes:
        end = min(start + length, self.size(path))
        if end <= start:
            return b""
        try:
            for _ in range(_MOST_ATTEMPTS):
                content = _content(self._extents.get(path), start, end)
                if content is not None:
                    return content
                self._keep(path, self._asked(path, start, end))
        except Exception as error:
            self.failure = self.failure or error
            raise
        self.failure = BucketReadError("other questions leave no room in the cache")
        raise self.failure

    def _asked(self, path: str, start: int, end: int) -> Mapping[str, Any]:
        number = next(self._numbers)
        waiting: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
        with self._lock:
            self._waiting[number] = waiting
        try:
            request = {"number": number, "file": path, "start": start, "end": end, "ahead": self._ahead(path)}
            self.send(json.dumps(request).encode())
            while True:
                if self.is_interrupted():
                    raise BucketReadError("the question was stopped")
                try:
                    answer = waiting.get(timeout=_LOOK_SECONDS)
                    break
                except queue.Empty:
                    continue
        finally:
            with self._lock:
                del self._waiting[number]
        if answer.get("gone"):
            raise FileGoneError(answer["gone"])
        if answer.get("failure"):
            raise BucketReadError(answer["failure"])
        return answer

    def _ahead(self, path: str) -> list[str]:
        """The files behind this one, the first time that it is asked for."""
        order, place = self._places.pop(path, (None, 0))
        return [] if order is None else list(self._orders[order][place + 1 : place + 1 + _AHEAD])

    def _keep(self, path: str, answer: Mapping[str, Any]) -> None:
        try:
            file = io.FileIO(answer["path"])
        except FileNotFoundError:
            # It had to go for another one: ask again.
            return
        with self._lock:
            self._extents[path] = _Extent(file=file, start=answer["start"], end=answer["end"])
            self._extents.move_to_end(path)
            while len(self._extents) > _MOST_OPEN:
                self._extents.popitem(last=False)


class BucketFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """What DuckDB asks of a file system."""

    protocol = STORED.removesuffix("://")
    cachable = False

    def __init__(self, files: BucketFiles) -> None:
        super().__init__()
        self._files = files

    def open(self, path: str, mode: str = "rb", **_: Any) -> BucketFile:
        if mode != "rb":
            raise PermissionError(path)
        return BucketFile(self._files, path)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        return {"name": path, "size": self._files.size(path), "type": "file"}

    def exists(self, path: str, **_: Any) -> bool:
        try:
            return self._files.size(path) >= 0
        except FileNotFoundError:
            return False

    def isfile(self, path: str) -> bool:
        return self.exists(path)

    def glob(self, path: str, **_: Any) -> list[str]:
        """No patterns: a name is a name."""
        return [path] if self.exists(path) else []

    def modified(self, _: str) -> datetime:
        return _MODIFIED


class BucketFile(io.RawIOBase):
    """An open file. DuckDB sets the position and reads, in several threads: each has its own position."""

    def __init__(self, files: BucketFiles, path: str) -> None:
        super().__init__()
        self._files = files
        self._path = path
        self._size = files.size(path)
        self._own = threading.local()

    @property
    def size(self) -> int:
        return self._size

    def read(self, size: int = -1) -> bytes:
        at = self.tell()
        content = self._files.read(self._path, at, self._size - at if size < 0 else size)
        self._own.at = at + len(content)
        return content

    def readinto(self, buffer: Any) -> int:
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: self._size}[whence]
        self._own.at = base + offset
        return self.tell()

    def tell(self) -> int:
        return int(getattr(self._own, "at", 0))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def _content(extent: _Extent | None, start: int, end: int) -> bytes | None:
    """None if it is not there, or not any more."""
    if extent is None or start < extent.start or end > extent.end:
        return None
    descriptor = extent.file.fileno()
    content = os.pread(descriptor, end - start, start)
    while len(content) < end - start:
        more = os.pread(descriptor, end - start - len(content), start + len(content))
        if not more:
            # It was cut, to make room.
            return None
        content += more
    return content
