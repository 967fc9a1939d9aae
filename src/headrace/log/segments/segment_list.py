"""The segments of one partition log in their order, and the offsets that they span.

Invariants: there is at least one segment; the last one, `active`, is the one that is written to. Each segment
covers the offsets up to where the next begins. Records before `start_offset` do not count, even if the first
segment still has them; `start_offset` never goes back. `bases` are the segments' base offsets, for bisecting.
Only methods here change the list; others read it.

Byte format and crash behaviour: those of `segment`; nothing is written here. Who may call: the partition log
and its parts, from one thread. Never decides what goes or comes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from headrace.log.segments.segment import Segment

if TYPE_CHECKING:
    from headrace.log.config import LogConfig
    from headrace.log.filesystem import FileSystem
    from headrace.log.segments.segment_files import SegmentFiles


class SegmentList:
    """`path` is the folder of the partition, its last part the `name` of the log: `<topic>-<partition>`."""

    __slots__ = ("_all", "active", "bases", "config", "files", "filesystem", "name", "path", "start_offset")

    def __init__(self, path: str, files: SegmentFiles, config: LogConfig) -> None:
        """Empty: `fill` it."""
        self.path: Final = path
        self.name: Final = path.rpartition("/")[2]
        self.files: Final = files
        self.filesystem: Final[FileSystem] = files.filesystem
        self.config = config
        self.start_offset = 0
        self.bases: list[int] = []
        self.active: Segment
        self._all: list[Segment] = []

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._all)

    def __getitem__(self, number: int) -> Segment:
        return self._all[number]

    @property
    def closed(self) -> list[Segment]:
        """All but the last."""
        return self._all[:-1]

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.active.end_offset

    @property
    def size_bytes(self) -> int:
        return sum([segment.size for segment in self._all])

    def number_of(self, offset: int) -> int:
        """The number of the segment that covers an offset, or the last; -1 if it lies before all."""
        return bisect_right(self.bases, offset) - 1

    def configure(self, config: LogConfig) -> None:
        """Other settings from now on."""
        self.config = config
        for segment in self._all:
            segment.configure(config)

    def new(self, base_offset: int, *, now_ms: int, size: int = 0) -> Segment:
        """A segment that is not part of the list yet."""
        return Segment(self.path, base_offset, self.files, self.config, size=size, now_ms=now_ms)

    def fill(self, sizes: Mapping[int, int], start_offset: int, now_ms: int) -> None:
        """Begin with the segments that were found: sizes by base offset. An empty one if there are none.

        Where the last one ends is not known yet; `end_at` says it.
        """
        self.bases = sorted(sizes) or [start_offset]
        self._all = [self.new(base, now_ms=now_ms, size=sizes.get(base, 0)) for base in self.bases]
        for segment, following in zip(self._all, self.bases[1:], strict=False):
            segment.ends_at(following)
        self.start_offset = max(start_offset, self.bases[0])

    def end_at(self, end_offset: int) -> None:
        """The log ends with the last segment, at this offset or at its start."""
        self.active = self._all[-1]
        self.active.become_last(max(end_offset, self.start_offset))

    def append(self, segment: Segment) -> None:
        """Begin a segment at the end of the log: the last one so far is closed."""
        self.active.end_appends()
        self._all.append(segment)
        self.bases.append(segment.base_offset)
        self.active = segment
        segment.become_last(segment.base_offset)

    def move_start(self, offset: int) -> bool:
        """Let records before an offset not count any more; whether that changed anything."""
        if offset <= self.start_offset:
            return False
        self.start_offset = offset
        return True

    def drop_first(self) -> None:
        """Take the first segment out; another one must follow."""
        del self._all[0], self.bases[0]

    def drop_from(self, number: int) -> None:
        """Take out the segments from this number on; `end_at` has to follow."""
        del self._all[number:], self.bases[number:]

    def drop_last(self) -> None:
        """Take the last segment out: the log ends with the one before it. Raises StorageError."""
        self.drop_from(len(self._all) - 1)
        self.active = self._all[-1]
        self.active.begin_appends()

    def replace(self, first: int, last: int, segment: Segment) -> list[Segment]:
        """Put a segment in the place of those from number `first` to before `last`, which it gives back."""
        replaced = self._all[first:last]
        segment.ends_at(replaced[-1].end_offset)
        self._all[first:last] = [segment]
        self.bases[first:last] = [segment.base_offset]
        return replaced
