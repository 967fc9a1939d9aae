"""The pieces of a reply: buffers, and parts of files that go to the client unread.

Never reads or sends them: `log/` has the files, `broker/connection.py` sends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class FileSource(Protocol):
    """A file that stays readable while something refers to it."""

    def pread(self, size: int, position: int, /) -> bytes: ...
    def fileno(self) -> int:
        """The descriptor for the kernel to read from; negative if there is none."""


class FilePart(Protocol):
    """Bytes that go from a file to the client as they are."""

    @property
    def file(self) -> FileSource: ...
    @property
    def position(self) -> int: ...
    @property
    def size(self) -> int: ...


Piece = bytes | bytearray | memoryview | FilePart
# A whole reply, in order. None means no reply at all (acks=0).
Pieces = Sequence[Piece] | None
