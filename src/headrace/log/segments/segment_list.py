"""The segments of one partition log in order, and the offsets that they span.

Invariants: there is at least one segment; the last one, `active`, receives all appends. Each segment covers
the offsets up to the beginning of the next. Records before `start_offset` do not count, even if the first
segment still contains them; `start_offset` never goes back. `bases` are the segments' base offsets, for
bisecting. Only methods here change the list; others read it.

Byte format and crash behaviour: those of `segment`; nothing is written here. Who may call: the partition log
and its parts, from one thread. Never decides which segments to add or remove.
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
    """`path` is the partition's folder; its last part, `<topic>-<partition>`, is the `name` of the log."""

    __slots__ = ("_all", "active", "bases", "config", "files", "filesystem", "name", "path", "start_offset")

    def __init__(self, path: str, files: SegmentFiles, config: LogConfig) -> None:
        """Create an empty list; `fill` it before use."""
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
        """All segments except the last."""
        return self._all[:-1]

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.active.end_offset

    @property
    def size_bytes(self) -> int:
        return sum([segment.size for segment in self._all])

    def number_of(self, offset: int) -> int:
        """The number of the segment that covers an offset; -1 for an offset before the first segment."""
        return bisect_right(self.bases, offset) - 1

    def configure(self, config: LogConfig) -> None:
        """Use other settings from now on."""
        self.config = config
        for segment in self._all:
            segment.configure(config)

    def new(self, base_offset: int, *, now_ms: int, size: int = 0) -> Segment:
        """Create a segment that is not part of the list yet."""
        return Segment(self.path, base_offset, self.files, self.config, size=size, now_ms=now_ms)

    def fill(self, sizes: Mapping[int, int], start_offset: int, now_ms: int) -> None:
        """Fill the list with existing segments, given as sizes by base offset, or with one empty segment.

        The end of the last segment is not known yet; `end_at` sets it.
        """
        self.bases = sorted(sizes) or [start_offset]
        self._all = [self.new(base, now_ms=now_ms, size=sizes.get(base, 0)) for base in self.bases]
        for segment, following in zip(self._all, self.bases[1:], strict=False):
            segment.ends_at(following)
        self.start_offset = max(start_offset, self.bases[0])

    def end_at(self, end_offset: int) -> None:
        """Let the log end at this offset in its last segment, but not before its start."""
        self.active = self._all[-1]
        self.active.become_last(max(end_offset, self.start_offset))

    def append(self, segment: Segment) -> None:
        """Add an empty segment at the end; the one before it is closed."""
        self.active.end_appends()
        self._all.append(segment)
        self.bases.append(segment.base_offset)
        self.active = segment
        segment.become_last(segment.base_offset)

    def move_start(self, offset: int) -> bool:
        """Exclude the records before an offset. Return whether that changed anything."""
        if offset <= self.start_offset:
            return False
        self.start_offset = offset
        return True

    def drop_first(self) -> None:
        """Remove the first segment; it must not be the last."""
        del self._all[0], self.bases[0]

    def drop_from(self, number: int) -> None:
        """Remove all segments from a number on; call `end_at` next."""
        del self._all[number:], self.bases[number:]

    def replace(self, first: int, last: int, segment: Segment) -> list[Segment]:
        """Replace the segments from `first` to before `last`. Return the replaced ones."""
        replaced = self._all[first:last]
        segment.ends_at(replaced[-1].end_offset)
        self._all[first:last] = [segment]
        self.bases[first:last] = [segment.base_offset]
        return replaced
