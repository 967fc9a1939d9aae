"""The few file operations that the log needs, as a protocol, so that tests can pass in a failing disk.

Owns the only way to replace a small file (`write_atomically`). Byte format: none. Crash behaviour: written
data survives the end of the process; only contents after `fdatasync` and names after `sync_directory` survive
a power loss. Who may call: `log/` only. Never catches an OSError: callers know what it means. Never retries a
short write; `write_fully` does.

`headrace.testing.faulty_filesystem` is the test double that fails, tears writes and forgets them.
"""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from headrace.log import freeing

Data = bytes | bytearray | memoryview

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@runtime_checkable
class FileSystem(Protocol):
    """Descriptors are the operating system's, so that a socket can send from them."""

    def open(self, path: str, *, write: bool = False, create: bool = False) -> int: ...
    def close(self, descriptor: int) -> None: ...
    def pread(self, descriptor: int, size: int, position: int) -> bytes: ...
    def pwrite(self, descriptor: int, data: Data, position: int) -> int: ...
    def fdatasync(self, descriptor: int) -> None: ...
    def truncate(self, descriptor: int, size: int) -> None: ...
    def size(self, descriptor: int) -> int: ...
    def rename(self, source: str, target: str) -> None: ...
    def unlink(self, path: str) -> None: ...
    def mkdirs(self, path: str) -> None: ...
    def rmdir(self, path: str) -> None: ...
    def sync_directory(self, path: str) -> None: ...
    def files(self, folder: str) -> dict[str, int]:
        """Names and sizes of the files in a folder."""
        ...

    def folders(self, folder: str) -> list[str]:
        """Names of the folders in a folder."""
        ...

    def modified_ms(self, path: str) -> int: ...
    def set_modified_ms(self, path: str, time_ms: int) -> None: ...
    def lock(self, path: str) -> int | None:
        """Lock a file for this process. Return its descriptor, or None if another process holds the lock."""
        ...

    def boot_id(self) -> str:
        """An id that changes with each boot of the machine; empty where the system has none."""
        ...


class OperatingSystem:
    """The real file system. Static functions, so that the hot path calls `os.pwrite` directly."""

    pread: Final = staticmethod(os.pread)
    pwrite: Final = staticmethod(os.pwrite)
    close: Final = staticmethod(os.close)
    truncate: Final = staticmethod(os.ftruncate)
    rename: Final = staticmethod(os.replace)
    unlink: Final = staticmethod(freeing.unlink)
    rmdir: Final = staticmethod(os.rmdir)
    # macOS has no fdatasync; fsync does at least as much.
    fdatasync: Final = staticmethod(getattr(os, "fdatasync", os.fsync))

    def open(self, path: str, *, write: bool = False, create: bool = False) -> int:
        flags = os.O_CLOEXEC | (os.O_RDWR if write else os.O_RDONLY) | (os.O_CREAT if create else 0)
        return os.open(path, flags, 0o644)

    def size(self, descriptor: int) -> int:
        return os.fstat(descriptor).st_size

    def mkdirs(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)  # noqa: PTH103 - paths are text here: a Path costs more than the call

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def files(self, folder: str) -> dict[str, int]:
        found = {}
        with os.scandir(folder) as entries:
            for entry in entries:
                status = entry.stat()
                if stat.S_ISREG(status.st_mode):
                    found[entry.name] = status.st_size
        return found

    def folders(self, folder: str) -> list[str]:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000  # noqa: PTH116 - as above

    def set_modified_ms(self, path: str, time_ms: int) -> None:
        os.utime(path, ns=(time_ms * 1_000_000, time_ms * 1_000_000))

    def lock(self, path: str) -> int | None:
        descriptor = self.open(path, write=True, create=True)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor

    def boot_id(self) -> str:
        try:
            return _BOOT_ID.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return ""  # not Linux


def write_fully(filesystem: FileSystem, descriptor: int, data: Data, position: int) -> None:
    """Write all the data, even if the system accepts it in several parts."""
    written = filesystem.pwrite(descriptor, data, position)
    if written == len(data):
        return
    with memoryview(data) as view:
        while written < len(view):
            written += filesystem.pwrite(descriptor, view[written:], position + written)


def read_file(filesystem: FileSystem, path: str) -> bytes:
    """Read a whole file, even if the system returns it in several parts."""
    descriptor = filesystem.open(path)
    try:
        size = filesystem.size(descriptor)
        parts = []
        position = 0
        while position < size:
            part = filesystem.pread(descriptor, size - position, position)
            if not part:
                break
            parts.append(part)
            position += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)
    finally:
        filesystem.close(descriptor)


def write_atomically(filesystem: FileSystem, path: str, data: Data, *, sync: bool) -> None:
    """Replace a file: readers, also after a crash, see either the old content or the new.

    With `sync` the content is on disk before the name; the caller still has to sync the directory to make the
    name durable. Without `sync` a power loss may leave any content, and the reader has to notice.
    """
    temporary = path + ".tmp"
    descriptor = filesystem.open(temporary, write=True, create=True)
    try:
        try:
            filesystem.truncate(descriptor, 0)
            write_fully(filesystem, descriptor, data, 0)
            if sync:
                filesystem.fdatasync(descriptor)
        finally:
            filesystem.close(descriptor)
        filesystem.rename(temporary, path)
    except OSError:
        # A half-written file must not take space on a full disk.
        remove_file(filesystem, temporary)
        raise


def remove_file(filesystem: FileSystem, path: str) -> bool:
    """Remove a file if it exists. Return whether it did."""
    try:
        filesystem.unlink(path)
    except FileNotFoundError:
        return False
    return True
