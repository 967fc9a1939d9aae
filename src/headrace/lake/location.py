"""Where something of the lake is: a folder or file of this machine, or a prefix or object in a bucket.

A value, never a connection: `storage/` reads and writes what is there. Two locations are equal if they name
the same place in the same words. The text of a location is for people and logs; it has no credentials.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from headrace.core.errors import HeadraceError
from headrace.lake.sink import LocalStorage, S3Storage, Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """`key` is the name within the bucket, without slashes at its ends; empty in a local storage, whose root
    is the whole path.
    """

    storage: Storage
    key: str = ""

    @classmethod
    def local(cls, path: Path) -> Location:
        return cls(storage=LocalStorage(root=path))

    @property
    def path(self) -> Path:
        """The path on this machine. Raises lake_unsupported if it is in a bucket."""
        if isinstance(self.storage, LocalStorage):
            return self.storage.root
        raise HeadraceError(
            "lake_unsupported",
            f"{self} is not a folder of this machine.",
            remedy="This works for tables in the data folder only.",
        )

    @property
    def is_local(self) -> bool:
        return isinstance(self.storage, LocalStorage)

    @property
    def uri(self) -> str:
        """As Spark and Hadoop name it."""
        if isinstance(self.storage, LocalStorage):
            return str(self.storage.root)
        return f"s3a://{self.storage.bucket}/{self.key}"

    @property
    def name(self) -> str:
        return self._pure.name

    @property
    def parent(self) -> Location:
        if isinstance(self.storage, LocalStorage):
            return Location.local(self.storage.root.parent)
        parent = str(self._pure.parent)
        return Location(storage=self.storage, key="" if parent == "." else parent)

    @property
    def _pure(self) -> PurePosixPath:
        return PurePosixPath(self.storage.root if isinstance(self.storage, LocalStorage) else self.key)

    def __truediv__(self, name: str) -> Location:
        if isinstance(self.storage, LocalStorage):
            return Location.local(self.storage.root / name)
        return Location(storage=self.storage, key=f"{self.key}/{name}".strip("/"))

    def __str__(self) -> str:
        if isinstance(self.storage, LocalStorage):
            return str(self.storage.root)
        return f"s3://{self.storage.bucket}/{self.key}"

    def __fspath__(self) -> str:
        return str(self.path)


def located(where: Path | Location | Storage) -> Location:
    """The location of a path, or of everything in a storage."""
    match where:
        case Location():
            return where
        case LocalStorage():
            return Location(storage=where)
        case S3Storage():
            return Location(storage=where)
        case _:
            return Location.local(where)
