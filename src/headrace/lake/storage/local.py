"""The files of a table in a folder of this machine.

Crash behaviour: a file is added under a name that nobody else uses, synced, and linked to its own, which
fails if there is such a file already; then the folder is synced. So it is there whole or not at all, even
after a power failure. A crash may leave a file `.<name>.<id>.unfinished`, which nobody reads.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, Final

from headrace.lake.location import Location
from headrace.lake.storage.table_files import (
    NOT_WHOLE,
    PARQUET_MARK,
    Identity,
    Publication,
    StoredFile,
)

# File syncs that wait for the disk together.
_SYNCS: Final = 16


class LocalFiles:
    def __init__(self, folder: Path) -> None:
        self._table = folder

    @property
    def location(self) -> Location:
        return Location.local(self._table)

    def check_answers(self) -> None:
        """A folder that does not exist yet is none of its flaws."""

    def names(self, folder: str) -> list[str]:
        try:
            return os.listdir(self._table / folder)  # noqa: PTH208 - twice as fast with thousands of commits
        except FileNotFoundError:
            return []

    def folders(self, folder: str) -> list[str]:
        try:
            with os.scandir(self._table / folder) as entries:
                return [entry.name for entry in entries if entry.is_dir()]
        except FileNotFoundError:
            return []

    def remove_empty(self, folder: str) -> None:
        left = [stored.name for stored in self.below(folder)]
        if all(name.rpartition("/")[2].startswith(".") for name in left):
            self.delete(left)
        below = [Path(place) for place, _, _ in os.walk(self._table / folder, topdown=False)]
        for each in (*below, self._table):
            try:
                each.rmdir()
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                    raise

    def read(self, name: str) -> bytes:
        return (self._table / name).read_bytes()

    def identity(self, name: str) -> Identity | None:
        """Inode, size, and time of writing."""
        try:
            found = (self._table / name).stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def add(self, name: str, content: bytes, *, check: Callable[[], None]) -> Identity:
        file = self._table / name
        unfinished = file.with_name(f".{file.name}.{uuid.uuid4().hex}.unfinished")
        try:
            with unfinished.open("xb") as written:
                written.write(content)
                written.flush()
                os.fsync(written.fileno())
            check()
            identity = self.identity(str(unfinished.relative_to(self._table)))
            assert identity is not None
            file.hardlink_to(unfinished)
        finally:
            unfinished.unlink(missing_ok=True)
        _sync(file.parent)
        return identity

    def flaws(self, sizes: Mapping[str, int | None]) -> dict[str, str]:
        found = ((name, self._flaw(self._table / name, size)) for name, size in sizes.items())
        return {name: flaw for name, flaw in found if flaw is not None}

    def sync(self, names: Iterable[str]) -> None:
        files = [self._table / name for name in names]
        folders = {folder for file in files for folder in file.parents if folder.is_relative_to(self._table)}
        _sync_all(files)
        _sync_all(folders)

    def sync_log(self, names: Iterable[str], folder: str) -> None:
        for name in names:
            _sync(self._table / folder / name)
        _sync(self._table / folder)

    def sync_table(self) -> None:
        for folder in (self._table, self._table.parent):
            _sync(folder)

    def move(self, name: str, folder: str) -> None:
        target = self._table / folder
        target.mkdir(exist_ok=True)
        file = self._table / name
        file.rename(_free(target / file.name))

    def below(self, folder: str) -> Iterator[StoredFile]:
        try:
            with os.scandir(self._table / folder) as entries:
                found = list(entries)
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in found:
            name = f"{folder}/{entry.name}".strip("/")
            if entry.is_dir(follow_symlinks=False):
                yield from self.below(name)
                continue
            try:
                stat = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            yield StoredFile(name=name, size=stat.st_size, modified_ms=stat.st_mtime_ns // 1_000_000)

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            (self._table / name).unlink(missing_ok=True)

    def retract(self, names: Iterable[str]) -> None:
        removed = list(names)
        self.delete(removed)
        for folder in {self._table / name for name in removed}:
            for above in folder.parents:
                if above == self._table or not _is_gone(above):
                    break

    def write(self, name: str, content: memoryview) -> None:
        file = self._table / name
        try:
            with _created(file) as written:
                written.write(content)
        except OSError as error:
            if error.filename is None:
                error.filename = str(file)
            raise

    def make_folder(self, folder: str) -> None:
        (self._table / folder).mkdir(parents=True, exist_ok=True)

    def publish(self, files: Iterable[Publication]) -> None:
        """A second name of the same file, so that it is there at once."""
        for file in files:
            target = self._table / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                target.hardlink_to(self._table / file.source)
            except FileNotFoundError:
                if not target.exists():
                    raise
            except FileExistsError:
                if target.stat().st_size != file.size:
                    raise

    def replace(self, name: str, content: bytes) -> None:
        file = self._table / name
        unfinished = file.with_name(f".{file.name}.{uuid.uuid4().hex}.unfinished")
        try:
            with unfinished.open("xb") as written:
                written.write(content)
                written.flush()
                os.fsync(written.fileno())
            unfinished.replace(file)
        finally:
            unfinished.unlink(missing_ok=True)
        _sync(file.parent)

    def remove_folder(self, folder: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._table / folder)

    @staticmethod
    def _flaw(file: Path, size: int | None) -> str | None:
        try:
            with file.open("rb") as content:
                found = os.fstat(content.fileno()).st_size
                if size is not None and found != size:
                    return f"it has {found} bytes instead of {size}"
                first = content.read(len(PARQUET_MARK))
                content.seek(max(0, found - len(PARQUET_MARK)))
                is_whole = first == PARQUET_MARK and content.read() == PARQUET_MARK
        except OSError as error:
            return (error.strerror or str(error)).lower()
        return None if is_whole else NOT_WHOLE


def _created(file: Path) -> BinaryIO:
    """The new file, open, and the folders above it: another task may be removing them, as they were empty."""
    while True:
        file.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            return file.open("xb")


def _is_gone(folder: Path) -> bool:
    """Removes the folder if it is empty."""
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _free(path: Path) -> Path:
    number = 0
    free = path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}.{number}")
    return free


def _sync_all(paths: Iterable[Path]) -> None:
    with ThreadPoolExecutor(_SYNCS) as together:
        list(together.map(_sync, paths))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
