"""What the lake needs of the place where the files of a table are.

Names are relative to the table, with slashes between folders: `_delta_log/00000000000000000007.json`. Errors
are OSErrors: FileNotFoundError, FileExistsError, or `StorageError` for a storage that cannot be used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from headrace.lake.location import Location

# What a Parquet file begins and ends with.
PARQUET_MARK: Final = b"PAR1"
NOT_WHOLE: Final = "it is not a whole Parquet file"

# Equal as long as a file is the same. Nothing else may be told from it.
Identity = tuple[int | str, ...]


class StorageError(OSError):
    """The storage did not do what it was asked for. The text has the reason, and no credentials."""

    def __str__(self) -> str:
        return str(self.strerror)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file that is there, whoever wrote it."""

    name: str
    size: int
    modified_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A file that is to appear under the name that readers look for."""

    source: str
    name: str
    size: int


class TableFiles(Protocol):
    """The files of one table. May be used by several threads."""

    @property
    def location(self) -> Location: ...

    def check_answers(self) -> None:
        """Raise an error, within seconds, if the storage does not answer or cannot be used."""
        ...

    def names(self, folder: str) -> list[str]:
        """The names of what is directly in the folder, without the folder's; nothing if there is none."""
        ...

    def folders(self, folder: str) -> list[str]:
        """The names of the folders directly in the folder ("" is the table's own)."""
        ...

    def remove_empty(self, folder: str) -> None:
        """Remove this folder, and the table's own, if nothing is in them: folders without files, objects that
        stand for folders, hidden files that somebody did not finish. Otherwise they stay.
        """
        ...

    def read(self, name: str) -> bytes: ...

    def identity(self, name: str) -> Identity | None:
        """None if there is no such file."""
        ...

    def add(self, name: str, content: bytes, *, check: Callable[[], None]) -> Identity:
        """Add a file, whole or not at all, which is durable then. `check` is called just before and may
        refuse.

        Of several that add the same name, one succeeds; the others get FileExistsError. The content must be
        one that nobody else adds. After any other error the file may be there, or appear later.
        """
        ...

    def flaws(self, sizes: Mapping[str, int | None]) -> dict[str, str]:
        """Of these Parquet files, with their sizes if they are known: those that are not whole, and why."""
        ...

    def sync(self, names: Iterable[str]) -> None:
        """Make files, and the folders above them within the table, durable."""
        ...

    def sync_log(self, names: Iterable[str], folder: str) -> None:
        """Make files in this folder durable, and the folder after them."""
        ...

    def sync_table(self) -> None:
        """Make the table's folder, and its name, durable."""
        ...

    def move(self, name: str, folder: str) -> None:
        """Move a file to this folder of the table, where it gets a free name."""
        ...

    def below(self, folder: str) -> Iterator[StoredFile]:
        """All files in the folder ("" is the table's own) and in those below it."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Remove these files; one that is not there is no error. Folders that become empty may stay."""
        ...

    def retract(self, names: Iterable[str]) -> None:
        """Remove files as if they had not been written: with the folders that become empty."""
        ...

    def write(self, name: str, content: memoryview) -> None:
        """Write a file under a name that is new, and make the folders above it. Durable after `sync`."""
        ...

    def make_folder(self, folder: str) -> None:
        """Make the folder, and those above it, where folders exist by themselves."""
        ...

    def publish(self, files: Iterable[Publication]) -> None:
        """Let each file appear under its name, whole; the source stays. May be repeated: the source may be
        gone if the file is there.

        Raises FileExistsError if another file has the name, FileNotFoundError if there is neither.
        """
        ...

    def replace(self, name: str, content: bytes) -> None:
        """Write a file, in place of one with this name if there is one, whole or not at all; durable then."""
        ...

    def remove_folder(self, folder: str) -> None:
        """Remove the folder and everything in it; none is no error."""
        ...
