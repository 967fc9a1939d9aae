"""Whether a log has its folder, is open, and has changed since its last checkpoint.

Byte format: none. Crash behaviour: nothing is written here. Who may call: the partition log and its parts.
Invariant: the owner of the log is told about the first change after each checkpoint, and about no other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final


class LogStatus:
    """The status of one log. `make_folder` creates its folder; None if that exists."""

    __slots__ = ("_tell", "closed", "dirty", "make_folder")

    def __init__(self, make_folder: Callable[[], None] | None, tell: Callable[[], None]) -> None:
        """`tell` is called for the first change after a checkpoint."""
        self.make_folder = make_folder
        self._tell: Final = tell
        self.closed = False
        self.dirty = False

    def changed(self) -> None:
        """Ask the next checkpoint to include this log."""
        if not self.dirty:
            self.dirty = True
            self._tell()

    def checkpointed(self) -> None:
        """A checkpoint includes all changes so far."""
        self.dirty = False

    def close(self) -> None:
        """Allow no more appends or flushes."""
        self.closed = True

    def folder_made(self) -> None:
        """The folder exists, with the files that belong to every log."""
        self.make_folder = None
