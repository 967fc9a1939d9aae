"""Removes large files without waiting for the system to free their space.

The system frees a file's space when its name and its last descriptor are gone. This takes about half a
millisecond for each cached megabyte. So a large file is opened before its name is removed, and a thread
closes it.

Invariants: the name is gone when `unlink` returns. There is at most one thread, and only while there is
something to close. Byte format: none. Crash behaviour: the system closes open files. Who may call:
`filesystem`.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import Final

LARGE: Final = 4 << 20

_waiting: Final[deque[int]] = deque()
_lock: Final = threading.Lock()
_thread: threading.Thread | None = None


def unlink(path: str) -> None:
    """Remove a file. Raises OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        # Removing may still work; if not, this error says why.
        os.unlink(path)  # noqa: PTH108 - paths are text here
        return
    try:
        os.unlink(path)  # noqa: PTH108
        large = os.fstat(descriptor).st_size >= LARGE
    except BaseException:
        os.close(descriptor)
        raise
    if large:
        _close_later(descriptor)
    else:
        os.close(descriptor)


def _close_later(descriptor: int) -> None:
    global _thread  # noqa: PLW0603 - one thread for the whole process
    with _lock:
        _waiting.append(descriptor)
        if _thread is None:
            _thread = threading.Thread(target=_close_all, name="freeing files", daemon=True)
            _thread.start()


def _close_all() -> None:
    global _thread  # noqa: PLW0603
    while True:
        with _lock:
            if not _waiting:
                _thread = None
                return
            descriptor = _waiting.popleft()
        os.close(descriptor)
