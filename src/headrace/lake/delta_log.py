"""The log of a Delta table: reads its commits, checks that it is whole, and adds commits to it.

Format (Delta's protocol): `_delta_log/<version in 20 digits>.json` is one commit, a JSON object per line;
`<version>.checkpoint….parquet` stands for all commits up to that version; `_last_checkpoint` names the newest
checkpoint. Data files are relative to the table's folder, with the characters of a URL escaped.

Adding a commit: the data files are durable first, then the commit is added, which fails if there is one of
that version already (`storage/` says how). So a commit is there whole or not at all, its data files are there
before it, and of two writers of one version only one succeeds, even after a power failure. Delta's own writer
syncs nothing. A commit only follows the version that its writer has seen: if that was put aside, restored or
replaced meanwhile, adding fails. Each commit has an id of its own (`txnId`), so that its writer can tell it
from another's if the answer to adding it was lost. If adding fails for another reason than those, the commit
may be there or appear later: the writer must look at the table again before it goes on.

Who may call: reading, everybody; `add_commit`, the process that is the one writer of the table
(`pipeline/spark/writer_lock.py`), from any thread.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import unquote

from headrace.lake.commit_turn import commit_turn
from headrace.lake.location import Location, located
from headrace.lake.storage.opening import files_at
from headrace.lake.storage.table_files import Identity, TableFiles

LOG_FOLDER: Final = "_delta_log"
LAST_CHECKPOINT: Final = "_last_checkpoint"

_VERSION: Final = re.compile(r"\d{20}")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint(\..+)?\.parquet")


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
    """A version of the table, and its commit's file as it was seen.

    `file` is None if there was no such file, because the log was cleaned up.
    """

    number: int
    file: Identity | None


class VersionChangedError(Exception):
    """The version that a commit was to follow is no longer the one that was seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A file because of which the table cannot be read; `version` is the commit that it belongs to."""

    version: int
    file: Location
    reason: str


class DeltaLog:
    """The log of the table at a location. `opens` opens the storage that it is in."""

    # A table of plain files has the same log in other files (`plain_log.py`).
    log_folder: ClassVar[str] = LOG_FOLDER
    commit_ending: ClassVar[str] = ".json"

    def __init__(self, table: Path | Location, *, opens: Callable[[Location], TableFiles] = files_at) -> None:
        self.table = located(table)
        self.files = opens(self.table)
        self.folder = self.table / self.log_folder

    @property
    def exists(self) -> bool:
        return self.newest_version() >= 0

    def versions(self) -> list[int]:
        """The versions that have a commit file, in order."""
        return self._versions(self._names())

    def checkpoints(self) -> dict[int, list[Location]]:
        """The files of the checkpoints, by version."""
        return _checkpoints(self.folder, self._names())

    def newest_version(self) -> int:
        """-1 if there is none."""
        names = self._names()
        return max([*self._versions(names), *_checkpoints(self.folder, names)], default=-1)

    def seen(self, version: int) -> SeenVersion:
        """The version as it is now. To be asked before its commit is read."""
        return SeenVersion(number=version, file=self.files.identity(self._commit_name(version)))

    def commit_file(self, version: int) -> Location:
        return self.table / self._commit_name(version)

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
        text = self.files.read(self._commit_name(version))
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
        names = self._names()
        versions, checkpoints = self._versions(names), _checkpoints(self.folder, names)
        checkpoint = max(checkpoints, default=-1)
        of_checkpoint = {f"{self.log_folder}/{file.name}": None for file in checkpoints.get(checkpoint, [])}
        for name, reason in self.files.flaws(of_checkpoint).items():
            return Damage(version=checkpoint, file=self.table / name, reason=reason)
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
                    added[unquote(add["path"])] = (version, add["size"])
                if (remove := action.get("remove")) is not None:
                    added.pop(unquote(remove["path"]), None)
        flaws = self.files.flaws({name: size for name, (_, size) in added.items()})
        damages = (
            Damage(version=added[name][0], file=self.table / name, reason=reason)
            for name, reason in flaws.items()
        )
        return min(damages, key=lambda each: each.version, default=None)

    def add_commit(
        self,
        version: int,
        info: Mapping[str, Any],
        actions: Sequence[str],
        *,
        after: SeenVersion | None = None,
    ) -> SeenVersion:
        """Commit these actions, `add` and `remove`, given as JSON.

        Raises FileExistsError if the version exists already, VersionChangedError if the version before it is
        not what it was when the writer saw it.
        """
        self._sync_files(_added_paths(map(json.loads, actions)))
        return self._add_synced(version, info, actions, after=after)

    def _add_synced(
        self, version: int, info: Mapping[str, Any], actions: Sequence[str], *, after: SeenVersion | None
    ) -> SeenVersion:
        info = {"txnId": str(uuid.uuid4()), **info}
        lines = [json.dumps({"commitInfo": info}, separators=(",", ":")), *actions]

        def check() -> None:
            if after is not None and self.seen(after.number) != after:
                raise VersionChangedError(f"version {after.number}")

        content = "".join(f"{line}\n" for line in lines).encode()
        with commit_turn(self.table):
            file = self.files.add(self._commit_name(version), content, check=check)
        return SeenVersion(number=version, file=file)

    def sync_commit(self, version: int) -> None:
        """Make durable a commit that Delta wrote, its data files, and the folders above them."""
        self._sync_files(_added_paths(self.actions(version)))
        self.files.sync_log([self.commit_file(version).name], self.log_folder)
        self.files.sync_table()

    def sync_checkpoint(self, version: int) -> None:
        """Make durable a checkpoint that Delta wrote: a torn one would stop the table until its repair."""
        names = self._names()
        files = [file.name for file in _checkpoints(self.folder, names).get(version, ())]
        self.files.sync_log([*files, *({LAST_CHECKPOINT} & set(names))], self.log_folder)

    def _sync_files(self, paths: Iterable[str]) -> None:
        self.files.sync(unquote(path) for path in paths)

    def _names(self) -> list[str]:
        return self.files.names(self.log_folder)

    def _commit_name(self, version: int) -> str:
        return f"{self.log_folder}/{version:020d}{self.commit_ending}"

    def _versions(self, names: Iterable[str]) -> list[int]:
        stems = (name.removesuffix(self.commit_ending) for name in names if name.endswith(self.commit_ending))
        return sorted(int(stem) for stem in stems if _VERSION.fullmatch(stem))


def _added_paths(actions: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    return (action["add"]["path"] for action in actions if "add" in action)


def _checkpoints(folder: Location, names: Iterable[str]) -> dict[int, list[Location]]:
    found: dict[int, list[Location]] = {}
    for name in names:
        if match := _CHECKPOINT.fullmatch(name):
            found.setdefault(int(match[1]), []).append(folder / name)
    return found


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return str(error)
