"""A storage in memory that crashes when it is told to, after any of its steps: publishing two files is two
steps, and so is removing them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from headrace.lake.location import Location
from headrace.lake.storage.table_files import Identity, Publication, StoredFile


class CrashError(Exception):
    """The process has ended here."""


@dataclass
class MadeStorage:
    """Files by their whole names. `steps` is how many may be done until it crashes; None for all.

    If it `loses_answers`, a crash while a commit is added leaves that commit to appear later, by `arrive`.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    steps: int | None = None
    loses_answers: bool = False
    late: dict[str, bytes] = field(default_factory=dict)
    watch: Callable[[], None] = lambda: None

    def step(self) -> None:
        """Before something changes."""
        if self.steps is not None:
            if self.steps == 0:
                raise CrashError
            self.steps -= 1

    def put(self, name: str, content: bytes) -> None:
        self.step()
        self.files[name] = content
        self.watch()

    def remove(self, name: str) -> None:
        if name in self.files:
            self.step()
            del self.files[name]
            self.watch()

    def arrive(self) -> None:
        """What was on its way, unless another was first."""
        for name, content in self.late.items():
            self.files.setdefault(name, content)
        self.late.clear()

    def opens(self, location: Location) -> MadeFiles:
        return MadeFiles(self, location)


class MadeFiles:
    """The files of one location."""

    def __init__(self, storage: MadeStorage, location: Location) -> None:
        self._storage = storage
        self._location = location

    @property
    def location(self) -> Location:
        return self._location

    def names(self, folder: str) -> list[str]:
        return [name for name in self._in(folder) if "/" not in name]

    def folders(self, folder: str) -> list[str]:
        return sorted({name.partition("/")[0] for name in self._in(folder) if "/" in name})

    def read(self, name: str) -> bytes:
        try:
            return self._storage.files[self._whole(name)]
        except KeyError:
            raise FileNotFoundError(name) from None

    def identity(self, name: str) -> Identity | None:
        found = self._storage.files.get(self._whole(name))
        return None if found is None else (hash(found),)

    def add(self, name: str, content: bytes, *, check: Callable[[], None]) -> Identity:
        whole = self._whole(name)
        check()
        if whole in self._storage.files:
            raise FileExistsError(name)
        try:
            self._storage.put(whole, content)
        except CrashError:
            if self._storage.loses_answers:
                self._storage.late[whole] = content
            raise
        return (hash(content),)

    def flaws(self, sizes: Mapping[str, int | None]) -> dict[str, str]:
        raise NotImplementedError(sizes)

    def sync(self, names: Iterable[str]) -> None:
        for name in names:
            assert self._whole(name) in self._storage.files

    def sync_log(self, names: Iterable[str], folder: str) -> None:
        self.sync(f"{folder}/{name}" for name in names)

    def sync_table(self) -> None:
        """Nothing is lost here."""

    def move(self, name: str, folder: str) -> None:
        raise NotImplementedError(name, folder)

    def below(self, folder: str) -> Iterator[StoredFile]:
        for name in self._in(folder):
            whole = f"{folder}/{name}".strip("/")
            size = len(self._storage.files[self._whole(whole)])
            yield StoredFile(name=whole, size=size, modified_ms=0)

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self._storage.remove(self._whole(name))

    def make_folder(self, folder: str) -> None:
        """A folder is there as long as it has files."""

    def publish(self, files: Iterable[Publication]) -> None:
        for file in files:
            found = self._storage.files.get(self._whole(file.name))
            if found is None:
                self._storage.put(self._whole(file.name), self.read(file.source))
            elif len(found) != file.size:
                raise FileExistsError(file.name)

    def replace(self, name: str, content: bytes) -> None:
        self._storage.put(self._whole(name), content)

    def remove_folder(self, folder: str) -> None:
        self.delete([file.name for file in list(self.below(folder))])

    def _in(self, folder: str) -> list[str]:
        prefix = f"{self._whole(folder)}/"
        return [name.removeprefix(prefix) for name in sorted(self._storage.files) if name.startswith(prefix)]

    def _whole(self, name: str) -> str:
        return str(self._location / name if name else self._location)
