"""A disk that fails on demand and that loses unsynced data on a power loss: for tests of storage.

It works on real files, so that everything that can be done with a descriptor can be done here. It records
what a disk would still have to do, and `power_loss` undoes that:

* data written to a file since its last sync: none, all or some of it survives, possibly with holes and with
  torn writes;
* changes to names (files created, renamed, removed) since the last sync of their directory: a prefix of the
  list survives, since file systems preserve the order of such changes.

After a power loss every call except `close` fails; a new object is the rebooted machine, with another boot
id. An object with the same boot id on the same files is a machine whose process was killed.

Invariants: without faults it behaves like the operating system, except that syncs cost nothing. Who may use
it: tests, from several threads.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

from headrace.log.filesystem import Data, OperatingSystem

Survivors = Literal["none", "some", "all"]


class _Inode:
    """A file: what the disk has of it, and the writes and truncations (None) it has yet to receive."""

    def __init__(self, path: str) -> None:
        # Our own: no one else needs to have it open, and its number is not reused for another file.
        self.descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self.disk = bytearray(os.pread(self.descriptor, os.fstat(self.descriptor).st_size, 0))
        self.pending: list[tuple[int, bytes | None]] = []

    def reach_disk(self, position: int, content: bytes | None) -> None:
        if content is None:
            del self.disk[position:]
            return
        if position > len(self.disk):
            self.disk.extend(bytes(position - len(self.disk)))
        self.disk[position : position + len(content)] = content

    def sync(self) -> None:
        for position, content in self.pending:
            self.reach_disk(position, content)
        self.pending.clear()

    def revert(self) -> None:
        """Reset the file to what the disk has."""
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, self.disk, 0)


class FaultyFileSystem:
    """A `FileSystem`; see the attributes and methods under "Faults"."""

    def __init__(self, *, boot: str | None = None, seed: int = 0) -> None:
        self.boot: Final = boot or uuid.uuid4().hex
        self.random: Final = random.Random(seed)
        # Faults
        self.short_writes: int | None = None
        """The most bytes that a write accepts."""
        self.room: int | None = None
        """How many bytes files may still grow before the disk is full."""
        self.refuse_truncate = False
        self.refuse_sync = False
        self.writes = 0
        self.syncs = 0
        self.changes = 0
        self._failing_write: tuple[int, int, int] | None = None
        self._failing_sync: int | None = None
        self._broken_from: int | None = None
        self._system: Final = OperatingSystem()
        self._guard: Final = threading.RLock()
        self._dead = False
        self._inode_of: dict[int, tuple[int, int]] = {}
        self._inodes: dict[tuple[int, int], _Inode] = {}
        # Directory, and how to undo what was done to a name in it.
        self._names: list[tuple[str, Callable[[], object]]] = []
        self._locks: set[int] = set()

    # Faults

    def fail_write(self, nth: int = 1, *, keep: int = 0, code: int = errno.EIO) -> None:
        """Make the nth write from now fail after `keep` of its bytes."""
        self._failing_write = (self.writes + nth, keep, code)

    def fail_sync(self, nth: int = 1) -> None:
        """Make the nth file sync from now fail, and lose what it should have written to disk."""
        self._failing_sync = self.syncs + nth

    def fail_from(self, nth: int | None) -> None:
        """Make the nth change from now and all later ones fail: the process has ended. None: stop failing."""
        self._broken_from = None if nth is None else self.changes + nth

    def _change(self) -> None:
        self._alive()
        self.changes += 1
        if self._broken_from is not None and self.changes >= self._broken_from:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def power_loss(self, survivors: Survivors = "none") -> None:
        """Leave on disk what a power loss might leave, and stop working."""
        with self._guard:
            self._dead = True
            self._close_all()
            if survivors == "all":
                kept = len(self._names)
            else:
                kept = 0 if survivors == "none" else self.random.randint(0, len(self._names))
            for inode in self._inodes.values():
                self._lose(inode, survivors)
            for _directory, undo in reversed(self._names[kept:]):
                undo()
            self._forget()

    def kill(self) -> FaultyFileSystem:
        """End the process but not the machine: all writes are still there. Returns the next file system."""
        with self._guard:
            self._dead = True
            self._close_all()
            following = FaultyFileSystem(boot=self.boot, seed=self.random.randrange(2**32))
            following._inodes, self._inodes = self._inodes, {}
            following._names, self._names = self._names, []
            return following

    def _lose(self, inode: _Inode, survivors: Survivors) -> None:
        for position, content in inode.pending:
            fate = 0.0 if survivors == "all" else 1.0 if survivors == "none" else self.random.random()
            if fate < 0.4:
                inode.reach_disk(position, content)
            elif fate < 0.7 and content:
                inode.reach_disk(position, content[: self.random.randrange(len(content))])
        inode.revert()

    def end(self) -> None:
        """End the process with all written; many objects in one test would need too many descriptors."""
        with self._guard:
            self._dead = True
            self._close_all()
            self._forget()

    def _close_all(self) -> None:
        """What the system does for a process that has ended."""
        for descriptor in (*self._locks, *self._inode_of):
            self.close(descriptor)

    def _forget(self) -> None:
        for inode in self._inodes.values():
            os.close(inode.descriptor)
        self._inodes.clear()
        self._names.clear()

    def __del__(self) -> None:
        self._forget()

    def _alive(self) -> None:
        if self._dead:
            raise OSError(errno.EIO, "the power is off")

    # Files

    def open(self, path: str, *, write: bool = False, create: bool = False) -> int:
        with self._guard:
            self._alive()
            new = create and not Path(path).exists()
            if new:
                self._change()
            if new and self.room is not None and self.room <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            descriptor = self._system.open(path, write=write, create=create)
            self._inode_of[descriptor] = self._inode(path, os.fstat(descriptor))[0]
            if new:
                self._names.append((_parent(path), lambda: Path(path).unlink(missing_ok=True)))
            return descriptor

    def close(self, descriptor: int) -> None:
        with self._guard:
            # Those of a killed process are already closed, and their numbers may have been reused.
            if self._inode_of.pop(descriptor, None) is not None or descriptor in self._locks:
                self._locks.discard(descriptor)
                os.close(descriptor)

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        self._alive()
        return os.pread(descriptor, size, position)

    def pwrite(self, descriptor: int, data: Data, position: int) -> int:
        with self._guard:
            self._change()
            self.writes += 1
            content = bytes(data)
            if self._failing_write is not None and self.writes == self._failing_write[0]:
                _nth, keep, code = self._failing_write
                self._failing_write = None
                self._write(descriptor, content[:keep], position)
                raise OSError(code, os.strerror(code))
            if self.short_writes is not None:
                content = content[: self.short_writes]
            growth = position + len(content) - os.fstat(descriptor).st_size
            if self.room is not None and growth > 0:
                if growth > self.room:
                    content = content[: len(content) - growth + self.room]
                    growth = self.room
                if not content:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                self.room -= growth
            self._write(descriptor, content, position)
            return len(content)

    def _write(self, descriptor: int, content: bytes, position: int) -> None:
        self._inodes[self._inode_of[descriptor]].pending.append((position, content))
        os.pwrite(descriptor, content, position)

    def fdatasync(self, descriptor: int) -> None:
        with self._guard:
            self._change()
            self.syncs += 1
            inode = self._inodes[self._inode_of[descriptor]]
            if self.refuse_sync or self.syncs == self._failing_sync:
                # As on Linux: the pages now count as clean, although the disk never got them.
                inode.pending.clear()
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            inode.sync()

    def truncate(self, descriptor: int, size: int) -> None:
        with self._guard:
            self._change()
            if self.refuse_truncate:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            self._inodes[self._inode_of[descriptor]].pending.append((size, None))
            os.ftruncate(descriptor, size)

    def size(self, descriptor: int) -> int:
        self._alive()
        return self._system.size(descriptor)

    # Names

    def rename(self, source: str, target: str) -> None:
        with self._guard:
            self._change()
            replaced = self._keep(target)
            self._system.rename(source, target)

            def undo() -> None:
                if Path(target).exists():
                    Path(target).rename(source)
                if replaced is not None:
                    _put_back(target, replaced)

            self._names.append((_parent(target), undo))

    def unlink(self, path: str) -> None:
        with self._guard:
            self._change()
            kept = self._keep(path)
            self._system.unlink(path)
            if kept is not None:
                self._names.append((_parent(path), lambda: _put_back(path, kept)))

    def _keep(self, path: str) -> _Inode | None:
        """The file that is about to lose its name."""
        if not Path(path).is_file():
            return None
        return self._inode(path, Path(path).stat())[1]

    def _inode(self, path: str, status: os.stat_result) -> tuple[tuple[int, int], _Inode]:
        key = (status.st_dev, status.st_ino)
        if key not in self._inodes:
            self._inodes[key] = _Inode(path)
        return key, self._inodes[key]

    def mkdirs(self, path: str) -> None:
        with self._guard:
            self._alive()
            if not Path(path).exists():
                self._change()
                self._system.mkdirs(path)
                self._names.append((_parent(path), lambda: shutil.rmtree(path)))

    def rmdir(self, path: str) -> None:
        with self._guard:
            self._change()
            self._system.rmdir(path)
            self._names.append((_parent(path), lambda: Path(path).mkdir()))

    def sync_directory(self, path: str) -> None:
        with self._guard:
            self._change()
            if self.refuse_sync:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            self._names = [(directory, undo) for directory, undo in self._names if directory != path]

    def files(self, folder: str) -> dict[str, int]:
        self._alive()
        return self._system.files(folder)

    def folders(self, folder: str) -> list[str]:
        self._alive()
        return self._system.folders(folder)

    def modified_ms(self, path: str) -> int:
        self._alive()
        return self._system.modified_ms(path)

    def set_modified_ms(self, path: str, time_ms: int) -> None:
        self._change()
        self._system.set_modified_ms(path, time_ms)

    def lock(self, path: str) -> int | None:
        with self._guard:
            self._alive()
            descriptor = self._system.lock(path)
            if descriptor is not None:
                self._locks.add(descriptor)
            return descriptor

    def boot_id(self) -> str:
        return self.boot


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _put_back(path: str, inode: _Inode) -> None:
    """Restore a file's name, unless its folder is permanently gone."""
    if Path(path).parent.is_dir():
        Path(path).write_bytes(inode.disk)
