"""What a reply is made of: buffers, and parts of files that nobody looks at on their way to the client.

Never reads or sends any of it: `log/` has the files, `broker/connection.py` sends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class FileSource(Protocol):
    """A file that stays readable for as long as somebody holds it."""

    def pread(self, size: int, position: int, /) -> bytes: ...
    def fileno(self) -> int:
        """For the kernel to read from; negative if it cannot."""


class FilePart(Protocol):
    """Bytes that go from a file to the client as they are."""

    @property
    def file(self) -> FileSource: ...
    @property
    def position(self) -> int: ...
    @property
    def size(self) -> int: ...


Piece = bytes | bytearray | memoryview | FilePart
# A whole reply, in order. None is no reply at all (acks=0).
Pieces = Sequence[Piece] | None
