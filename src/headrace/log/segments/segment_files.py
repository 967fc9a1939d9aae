"""Open segment files: how many may be open, and who keeps one open.

A `SegmentFile` closes when the last reference to it goes, so a range of a file on its way to a socket stays
readable after its segment was deleted, rolled or evicted. `SegmentFiles` keeps the files of recently used
segments open and releases the others, so that thousands of segments do not exhaust the process's descriptors;
it limits the memory for indexes of closed segments in the same way.

Byte format: none. Crash behaviour: nothing is buffered here. Who may call: `log/`, from one thread; any
thread may read a `FileRange` or sync a `SegmentFile`. Invariant: a segment has a `file` exactly if it is
counted here.
"""

from __future__ import annotations

import resource
import threading
from collections import OrderedDict
from typing import Final, NamedTuple, Protocol

from headrace.log.filesystem import FileSystem

# Leave the rest for connections and everything else that needs descriptors.
_SHARE_OF_DESCRIPTORS: Final = 2
_MOST_FILES: Final = 4096
_FEWEST_FILES: Final = 16
# For indexes of closed segments; a full segment with default settings has up to 5 MB of them.
_MOST_INDEX_BYTES: Final = 16 << 20


class SegmentFile:
    """A descriptor that closes itself. Whoever syncs it holds `syncing`."""

    __slots__ = ("__weakref__", "descriptor", "filesystem", "path", "syncing")

    def __init__(
        self, filesystem: FileSystem, path: str, *, write: bool = True, create: bool = False
    ) -> None:
        self.descriptor = -1
        self.filesystem = filesystem
        self.path = path
        self.syncing = threading.Lock()
        self.descriptor = filesystem.open(path, write=write, create=create)

    def pread(self, size: int, position: int) -> bytes:
        return self.filesystem.pread(self.descriptor, size, position)

    def fileno(self) -> int:
        return self.descriptor

    def __del__(self) -> None:
        if self.descriptor >= 0:
            self.filesystem.close(self.descriptor)
            self.descriptor = -1


class FileRange(NamedTuple):
    """Bytes of a segment; they stay readable as long as this value exists."""

    file: SegmentFile
    position: int
    size: int

    def read(self) -> bytes:
        return self.file.pread(self.size, self.position)


class HoldsFile(Protocol):
    """What `SegmentFiles` needs from a segment. Only `SegmentFiles` sets `file`."""

    file: SegmentFile | None
    used: bool

    @property
    def log_path(self) -> str: ...


class HoldsIndexes(HoldsFile, Protocol):
    """A segment that may hold its indexes in memory."""

    def drop_indexes(self) -> None: ...


class SegmentFiles:
    """The segments with open files, oldest first; those used since the last check get a second chance."""

    def __init__(self, filesystem: FileSystem) -> None:
        self.filesystem: Final = filesystem
        self.limit = default_limit()
        self._open: OrderedDict[HoldsFile, None] = OrderedDict()
        self._index_sizes: OrderedDict[HoldsIndexes, int] = OrderedDict()
        self._index_bytes = 0

    def __len__(self) -> int:
        return len(self._open)

    def open(self, segment: HoldsFile, *, create: bool = False) -> SegmentFile:
        """The file of a segment; open it if necessary. Raises OSError."""
        file = segment.file
        segment.used = True
        if file is None:
            file = SegmentFile(self.filesystem, segment.log_path, create=create)
            while len(self._open) >= self.limit:
                self._let_go_of_one()
            segment.file = file
            self._open[segment] = None
        return file

    def forget(self, segment: HoldsIndexes) -> None:
        """The segment is gone or closed: its file closes with the last reader."""
        segment.file = None
        self._open.pop(segment, None)
        self._index_bytes -= self._index_sizes.pop(segment, 0)

    def index_loaded(self, segment: HoldsIndexes, size: int) -> None:
        """A closed segment has loaded its indexes: drop the oldest ones if memory exceeds the limit."""
        self._index_bytes += size - self._index_sizes.pop(segment, 0)
        self._index_sizes[segment] = size
        while self._index_bytes > _MOST_INDEX_BYTES and len(self._index_sizes) > 1:
            dropped, freed = self._index_sizes.popitem(last=False)
            self._index_bytes -= freed
            dropped.drop_indexes()

    def _let_go_of_one(self) -> None:
        while True:
            segment, _ = self._open.popitem(last=False)
            if not segment.used:
                segment.file = None
                return
            segment.used = False
            self._open[segment] = None


def default_limit() -> int:
    """Half of the descriptors that the process may open."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return _MOST_FILES
    return max(_FEWEST_FILES, min(_MOST_FILES, allowed // _SHARE_OF_DESCRIPTORS))
