"""The log of a Delta table on the local file system: reads its commits, checks that it is whole, and adds
commits to it.

Format (Delta's protocol): `_delta_log/<version in 20 digits>.json` is one commit, a JSON object per line;
`<version>.checkpoint….parquet` stands for all commits up to that version; `_last_checkpoint` names the newest
checkpoint. Data files are relative to the table's folder, with the characters of a URL escaped.

Adding a commit: the data files are synced first, then the commit is written under a name that nobody else
uses, synced and linked to its own, which fails if there is such a commit already; then the folder is synced.
So a commit is there whole or not at all, its data files are on disk before it, and of two writers of one
version only one succeeds, even after a power failure. Delta's own writer syncs nothing. A commit only follows
the version that its writer has seen: if that was put aside, restored or replaced meanwhile, adding fails. A
crash may leave a file `.<version>.json.<id>.unfinished`, which nobody reads.

Who may call: reading, everybody; `add_commit`, the one writer of the table (`pipeline/spark/writer_lock.py`).
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

LOG_FOLDER: Final = "_delta_log"
LAST_CHECKPOINT: Final = "_last_checkpoint"

_COMMIT: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint(\..+)?\.parquet")
_PARQUET: Final = b"PAR1"
# File syncs that wait for the disk together.
_SYNCS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit: what was done, and what its writer noted.

    `changes_definition`: the table's columns, settings or protocol; `changes_files`: which files it has.
    """

    version: int
    operation: str
    parameters: Mapping[str, Any]
    user_metadata: str | None
    changes_definition: bool = False
    changes_files: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenVersion:
    """A version of the table, and its commit's file as it was seen: inode, size, time of writing.

    `file` is None if there was no such file, because the log was cleaned up.
    """

    number: int
    file: tuple[int, int, int] | None


class VersionChangedError(Exception):
    """The version that a commit was to follow is no longer the one that was seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A file because of which the table cannot be read; `version` is the commit that it belongs to."""

    version: int
    file: Path
    reason: str


class DeltaLog:
    """The log of the table in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._table = folder
        self.folder = folder / LOG_FOLDER

    @property
    def exists(self) -> bool:
        return self.folder.is_dir() and bool(self.versions() or self.checkpoints())

    def versions(self) -> list[int]:
        """The versions that have a commit file, in order."""
        return sorted(int(match[1]) for name in self._names() if (match := _COMMIT.fullmatch(name)))

    def checkpoints(self) -> dict[int, list[Path]]:
        """The files of the checkpoints, by version."""
        found: dict[int, list[Path]] = {}
        for name in self._names():
            if match := _CHECKPOINT.fullmatch(name):
                found.setdefault(int(match[1]), []).append(self.folder / name)
        return found

    def newest_version(self) -> int:
        """-1 if there is none."""
        return max([*self.versions(), *self.checkpoints()], default=-1)

    def seen(self, version: int) -> SeenVersion:
        """The version as it is now. To be asked before its commit is read."""
        return SeenVersion(number=version, file=_identity(self.commit_file(version)))

    def commit_file(self, version: int) -> Path:
        return self.folder / f"{version:020d}.json"

    def commit(self, version: int) -> Commit | None:
        """None if it was cleaned up, is torn behind a checkpoint, or has no information about itself."""
        try:
            actions = self.actions(version)
        except (FileNotFoundError, ValueError):
            return None
        kinds = {kind for action in actions for kind in action}
        for action in actions:
            if (info := action.get("commitInfo")) is not None:
                return Commit(
                    version=version,
                    operation=str(info.get("operation", "")),
                    parameters=info.get("operationParameters") or {},
                    user_metadata=info.get("userMetadata"),
                    changes_definition=not kinds.isdisjoint({"metaData", "protocol"}),
                    changes_files=not kinds.isdisjoint({"add", "remove"}),
                )
        return None

    def actions(self, version: int) -> list[dict[str, Any]]:
        """Raises ValueError if the commit is torn."""
        text = self.commit_file(version).read_bytes()
        if not text.strip():
            raise ValueError("the file is empty")
        actions: list[dict[str, Any]] = []
        for number, line in enumerate(text.splitlines(), start=1):
            try:
                action = json.loads(line)
            except ValueError as error:
                raise ValueError(f"line {number} is not whole JSON") from error
            if not isinstance(action, dict):
                raise ValueError(f"line {number} is not a JSON object")
            actions.append(action)
        return actions

    def damage(self) -> Damage | None:
        """The oldest damage, of which nothing newer can be trusted; None if the log can be read.

        Looks at everything that a reader needs: the newest checkpoint, all commits after it, and their data
        files.
        """
        versions = self.versions()
        checkpoint = max(self.checkpoints(), default=-1)
        for file in self.checkpoints().get(checkpoint, []):
            if not _is_whole_parquet(file):
                return Damage(version=checkpoint, file=file, reason="it is not a whole Parquet file")
        needed = [version for version in versions if version > checkpoint]
        newest = max([*needed, checkpoint])
        added: dict[str, tuple[int, int]] = {}
        for version in range(checkpoint + 1, newest + 1):
            file = self.commit_file(version)
            try:
                actions = self.actions(version)
            except FileNotFoundError:
                return Damage(version=version, file=file, reason="it does not exist, but newer commits do")
            except (ValueError, OSError) as error:
                return Damage(version=version, file=file, reason=_reason(error))
            for action in actions:
                if (add := action.get("add")) is not None:
                    added[add["path"]] = (version, add["size"])
                if (remove := action.get("remove")) is not None:
                    added.pop(remove["path"], None)
        damaged = (found for path, what in added.items() if (found := self._damaged(path, *what)))
        return min(damaged, key=lambda each: each.version, default=None)

    def add_commit(
        self, version: int, info: Mapping[str, Any], adds: Sequence[str], *, after: SeenVersion | None = None
    ) -> SeenVersion:
        """Commit these `add` actions, given as JSON.

        Raises FileExistsError if the version exists already, VersionChangedError if the version before it is
        not what it was when the writer saw it.
        """
        self._sync_files(json.loads(text)["add"]["path"] for text in adds)
        lines = [json.dumps({"commitInfo": info}, separators=(",", ":")), *adds]
        unfinished = self.folder / f".{version:020d}.json.{uuid.uuid4().hex}.unfinished"
        try:
            with unfinished.open("xb") as file:
                file.write("".join(f"{line}\n" for line in lines).encode())
                file.flush()
                os.fsync(file.fileno())
            if after is not None and self.seen(after.number) != after:
                raise VersionChangedError(f"version {after.number}")
            committed = SeenVersion(number=version, file=_identity(unfinished))
            self.commit_file(version).hardlink_to(unfinished)
        finally:
            unfinished.unlink(missing_ok=True)
        _sync(self.folder)
        return committed

    def sync_commit(self, version: int) -> None:
        """Sync a commit that Delta wrote, its data files, and the folders above them."""
        self._sync_files(action["add"]["path"] for action in self.actions(version) if "add" in action)
        for path in (self.commit_file(version), self.folder, self._table, self._table.parent):
            _sync(path)

    def sync_checkpoint(self, version: int) -> None:
        """Sync a checkpoint that Delta wrote: a torn one would stop the table until it is repaired."""
        last = self.folder / LAST_CHECKPOINT
        for path in (*self.checkpoints().get(version, ()), *([last] if last.exists() else []), self.folder):
            _sync(path)

    def _sync_files(self, paths: Iterable[str]) -> None:
        files = [self._local(path) for path in paths]
        folders = {folder for file in files for folder in file.parents if folder.is_relative_to(self._table)}
        _sync_all(files)
        _sync_all(folders)

    def _damaged(self, path: str, version: int, size: int) -> Damage | None:
        file = self._local(path)
        try:
            found = file.stat().st_size
        except OSError as error:
            return Damage(version=version, file=file, reason=_reason(error))
        if found != size:
            return Damage(version=version, file=file, reason=f"it has {found} bytes instead of {size}")
        if not _is_whole_parquet(file):
            return Damage(version=version, file=file, reason="it is not a whole Parquet file")
        return None

    def _local(self, path: str) -> Path:
        return self._table / unquote(path)

    def _names(self) -> list[str]:
        try:
            return os.listdir(self.folder)  # noqa: PTH208 - twice as fast with thousands of commits
        except FileNotFoundError:
            return []


def _identity(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _sync_all(paths: Iterable[Path]) -> None:
    with ThreadPoolExecutor(_SYNCS) as together:
        list(together.map(_sync, paths))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_whole_parquet(file: Path) -> bool:
    try:
        with file.open("rb") as content:
            first = content.read(len(_PARQUET))
            content.seek(-len(_PARQUET), os.SEEK_END)
            return first == _PARQUET and content.read() == _PARQUET
    except OSError:
        return False


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return str(error)
