"""How file connectors open files: in the folders that the platform allows, or, standalone, wherever the user
who started the worker may.

Invariants: only regular files are opened, and opening never blocks; a file that is new is in its folder after
a power failure, too.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO, Final, Protocol

_FLAGS: Final = os.O_CLOEXEC | os.O_NONBLOCK
_NEW_FILE_MODE: Final = 0o666


class Files(Protocol):
    """Both raise HeadraceError where a path is not allowed, and OSErrors. `AllowedFolders` is one."""

    def resolved(self, path: str) -> Path:
        """Where the path leads. Raises path_not_allowed."""

    def open_reading(self, path: str) -> BinaryIO: ...

    def open_appending(self, path: str) -> BinaryIO: ...


class AnyFile:
    """Relative paths are relative to the folder in which the worker was started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def resolved(self, path: str) -> Path:
        return self._folder / path

    def open_reading(self, path: str) -> BinaryIO:
        return os.fdopen(self._opened(path, os.O_RDONLY), "rb")

    def open_appending(self, path: str) -> BinaryIO:
        file = self._opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        folder = os.open((self._folder / path).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        except BaseException:
            os.close(file)
            raise
        finally:
            os.close(folder)
        return os.fdopen(file, "ab")

    def _opened(self, path: str, flags: int) -> int:
        file = os.open(self._folder / path, flags | _FLAGS, _NEW_FILE_MODE)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise OSError(f"{path} is not a regular file")
        os.set_blocking(file, True)
        return file
