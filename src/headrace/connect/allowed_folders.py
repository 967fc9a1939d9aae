"""The folders that file connectors may use, and opening files in them.

A connector's configuration arrives over HTTP, so a path in it is somebody's wish, not the operator's word.
`resolved` follows `..` and symbolic links and says where a path really leads; the two `open_…` methods open
exactly that place. They walk down from the allowed folder, one directory at a time and without following
links, so a link that appears between the check and the opening is refused, not followed.

Invariants: every file opened is a regular file below an allowed folder, and has no other name (a hard link
may lead anywhere); one that is created is in its folder after a power failure, too; the platform's own data
is never opened, even if an allowed folder contains the data folder: of the data folder, connectors see only
allowed folders inside it; opening never blocks (on a pipe, say). Never creates a folder outside the data
folder: one that is missing may be a disk that is not mounted.

Spark opens files itself, so for its paths there is only `resolved`: whoever can create links in an allowed
folder can still redirect Spark.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, Self

from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings

SETTING: Final = "file_connector_folders"

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
# Without O_NONBLOCK, opening a named pipe would wait until its other end is opened.
_FILE: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_READING: Final = os.O_RDONLY | _FILE
_APPENDING: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _FILE
# The user's umask applies.
_NEW_FILE_MODE: Final = 0o666
# What the flags above report for links, for folders and for pipes that nobody reads.
_NOT_A_FILE: Final = frozenset({errno.ELOOP, errno.EMLINK, errno.ENOTDIR, errno.EISDIR, errno.ENXIO})


class AllowedFolders:
    """Relative paths are relative to the first folder."""

    def __init__(self, folders: Sequence[Path], *, data_dir: Path) -> None:
        if not folders:
            raise ValueError("file connectors need at least one folder")
        self._folders = tuple(folders)
        self._data_dir = data_dir

    @classmethod
    def of(cls, settings: Settings) -> Self:
        names = (name.strip() for name in settings.file_connector_folders.split(","))
        return cls([settings.data_dir / name for name in names if name], data_dir=settings.data_dir)

    def resolved(self, path: str) -> Path:
        """Where the path leads, without links. The file need not exist. Raises path_not_allowed."""
        _, place = self._located(path)
        return place

    def open_reading(self, path: str) -> BinaryIO:
        """Raises path_not_allowed; FileNotFoundError and other OSErrors pass through."""
        return os.fdopen(self._opened(path, _READING), "rb")

    def open_appending(self, path: str) -> BinaryIO:
        """Creates the file if it is missing, but no folder. Raises like `open_reading`."""
        return os.fdopen(self._opened(path, _APPENDING), "ab")

    def _located(self, path: str) -> tuple[Path, Path]:
        """The innermost allowed folder that contains the path, and where it leads; both without links."""
        if not path:
            raise _refused(path, "it is empty")
        try:
            place = _real(self._folders[0] / path)
        except (OSError, ValueError) as error:
            raise _refused(path, f"it leads nowhere ({error})") from error
        data_dir = _real(self._data_dir)
        around = [folder for folder in map(_real, self._folders) if folder in place.parents]
        if not around:
            raise _refused(path, f"{place} is not in an allowed folder ({self._shown()})")
        root = max(around, key=lambda folder: len(folder.parts))
        if place.is_relative_to(data_dir) and data_dir not in root.parents:
            raise _refused(path, f"{place} belongs to the platform's own data")
        return root, place

    def _opened(self, path: str, flags: int) -> int:
        root, place = self._located(path)
        is_inside_data_dir = _real(self._data_dir) in root.parents
        if is_inside_data_dir:
            root.mkdir(parents=True, exist_ok=True)
        # By identity, not by name: another spelling or a bind mount may lead there too.
        forbidden = None if is_inside_data_dir else _identity(self._data_dir)
        try:
            with _folder_of(root, place, forbidden) as folder:
                if folder is None:
                    raise _refused(path, f"{place} belongs to the platform's own data")
                file = os.open(place.name, flags, _NEW_FILE_MODE, dir_fd=folder)
                if flags & os.O_CREAT:
                    os.fsync(folder)
        except OSError as error:
            if error.errno in _NOT_A_FILE:
                raise _refused(path, f"{place} is not a regular file in plain folders") from error
            raise
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise _refused(path, f"{place} is not a regular file")
            if found.st_nlink > 1:
                raise _refused(path, f"{place} has other names (hard links), which may be anywhere")
            os.set_blocking(file, True)
        except BaseException:
            os.close(file)
            raise
        return file

    def _shown(self) -> str:
        return ", ".join(str(folder) for folder in self._folders)


@contextmanager
def _folder_of(root: Path, place: Path, forbidden: tuple[int, int] | None) -> Iterator[int | None]:
    """The open folder that contains the place, reached from the root one step at a time; None if the way
    leads through the forbidden folder.
    """
    folder = os.open(root, _DIRECTORY)
    try:
        for name in place.relative_to(root).parts[:-1]:
            if _identity(folder) == forbidden:
                break
            inner = os.open(name, _DIRECTORY, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield None if _identity(folder) == forbidden else folder
    finally:
        os.close(folder)


def _identity(folder: Path | int) -> tuple[int, int] | None:
    try:
        found = os.fstat(folder) if isinstance(folder, int) else folder.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _real(path: Path) -> Path:
    # Not `Path.resolve`, which fails on links that lead in a circle: the walk refuses them.
    return Path(os.path.realpath(path))


def _refused(path: str, reason: str) -> HeadraceError:
    return HeadraceError(
        "path_not_allowed",
        f"A file connector may not use {path!r}: {reason}.",
        remedy=f"Use a file in an allowed folder, or add its folder to the setting `{SETTING}`.",
    )
