"""What a tail has of one partition: chunks that follow each other, and what was left out of them. Pure but
for the files, which `chunk_files.py` owns.

Invariants: chunks are in the order of their offsets and do not overlap; every visible record from `begun` on
and before `end` is in a chunk, or is no row, or is counted as withheld. Its owner locks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.query.sources import TailChunk
from headrace.query.tail.chunk_files import ChunkFile

# So many neighbours become one.
FAN_IN: Final = 4
# Chunks of so many bytes of Arrow stay as they are.
_LARGE_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """Records before offset `end` that are left to the lake."""

    end: int
    count: int
    reason: str


@dataclass(slots=True)
class Stretch:
    """Of one partition. `stopped` says why nothing follows; empty if something may."""

    begun: int
    end: int
    chunks: list[ChunkFile] = field(default_factory=list)
    withheld: list[Withheld] = field(default_factory=list)
    stopped: str = ""

    def append(self, file: ChunkFile | None, *, end: int) -> None:
        if file is not None:
            self.chunks.append(file)
        self.end = end

    def withhold(self, count: int, *, end: int, reason: str) -> None:
        if self.withheld and self.withheld[-1].reason == reason and len(self.withheld) > 1_000:
            # Counts are about right: many small ones become one.
            count += self.withheld.pop().count
        self.withheld.append(Withheld(end=end, count=count, reason=reason))

    def from_offset(self, start: int) -> tuple[TailChunk, ...]:
        return tuple(each.chunk for each in self.chunks if each.chunk.end > start)

    def withheld_from(self, start: int) -> Sequence[Withheld]:
        return [each for each in self.withheld if each.end > start]

    def evict(self, before: int) -> list[ChunkFile]:
        """The chunks that are wholly before the offset, which are not in it any more."""
        gone = [each for each in self.chunks if each.chunk.end <= before]
        if gone:
            self.chunks = self.chunks[len(gone) :]
            self.begun = max(self.begun, gone[-1].chunk.end)
        self.withheld = [each for each in self.withheld if each.end > before]
        return gone

    def jump(self, to: int) -> list[ChunkFile]:
        """Begin anew at an offset further on; the chunks that are not in it any more."""
        gone, self.chunks, self.withheld, self.stopped = self.chunks, [], [], ""
        self.begun = self.end = to
        return gone

    def mergeable(self) -> list[ChunkFile]:
        """Neighbours that should be one chunk; empty if there are none.

        None weighs more than the others together: so each time that a row is written again, its chunk becomes
        twice as large or more.
        """
        for at in range(len(self.chunks) - FAN_IN + 1):
            found = self.chunks[at : at + FAN_IN]
            heaviest = max(each.weight for each in found)
            if heaviest < _LARGE_BYTES and 2 * heaviest <= sum(each.weight for each in found):
                return found
        return []

    def replace(self, old: Sequence[ChunkFile], new: ChunkFile) -> bool:
        """False if some of them were evicted meanwhile; then nothing changes."""
        places = [at for at, each in enumerate(self.chunks) if each in old]
        if len(places) != len(old):
            return False
        self.chunks[places[0] : places[-1] + 1] = [new]
        return True
