"""Whether a log has its folder, is open, and has changed since its last checkpoint.

Byte format: none. Crash behaviour: nothing is written here. Who may call: the partition log and its parts.
Invariant: whoever remembers how far logs are is told of the first change after each checkpoint, and of no
other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final


class LogStatus:
    """The status of one log. `make_folder` if nothing was written to it yet."""

    __slots__ = ("_make_folder", "_tell", "closed", "dirty")

    def __init__(self, make_folder: Callable[[], None] | None, tell: Callable[[], None]) -> None:
        """`tell` is called with the first change after a checkpoint."""
        self._make_folder = make_folder
        self._tell: Final = tell
        self.closed = False
        self.dirty = False

    def changed(self) -> None:
        """Ask for the next checkpoint to look at this log."""
        if not self.dirty:
            self.dirty = True
            self._tell()

    def checkpointed(self) -> None:
        """All changes so far are remembered."""
        self.dirty = False

    def close(self) -> None:
        """No more appends, and no more flushes."""
        self.closed = True

    @property
    def has_folder(self) -> bool:
        return self._make_folder is None

    def make_folder(self) -> None:
        """Make the folder if it is not there yet. Raises OSError, and then it has to be made again."""
        if self._make_folder is not None:
            self._make_folder()
            self._make_folder = None
