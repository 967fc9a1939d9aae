"""Which files a Delta table has, according to its log: read once from the newest checkpoint, then followed
commit by commit.

Invariant: the state is that of `version`, whose commit is the file that was seen. If that file is gone or
another one, because the table was repaired or replaced, following fails and the state must be read anew.
Belongs to one thread. Never writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from headrace.lake.checkpoints import checkpoint_actions
from headrace.lake.delta_log import LOG_FOLDER, DeltaLog, SeenVersion, VersionChangedError
from headrace.lake.protocol import impossible_features

# The values of the partition columns, in the order of their names; null is None.
PartitionValues = tuple[tuple[str, str | None], ...]

_NO_VERSION: Final = -1
# What a checkpoint says of the files that a table has.
_OF_STATE: Final = ("protocol", "metaData", "add")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A file of the table. `name` is relative to the table's folder, `action` what the log says of it.

    `rows` is None if the log does not say it.
    """

    name: str
    partition: PartitionValues
    size: int
    rows: int | None
    modified_ms: int
    action: Mapping[str, Any] = field(hash=False)

    @property
    def has_deletions(self) -> bool:
        """Whether some of its rows do not count any more (a deletion vector)."""
        return self.action.get("deletionVector") is not None


def data_file(add: Mapping[str, Any]) -> DataFile:
    """The file of an `add` action."""
    stats = json.loads(add["stats"]) if add.get("stats") else {}
    values = add.get("partitionValues") or {}
    return DataFile(
        name=unquote(add["path"]),
        partition=tuple(sorted((name, value or None) for name, value in values.items())),
        size=int(add["size"]),
        rows=stats.get("numRecords"),
        modified_ms=int(add.get("modificationTime") or 0),
        action=add,
    )


class TableState:
    """The files of one table. `definition` is the version that last changed columns, settings or protocol.

    If it `knows_removed`, `removed` has when files were removed, in milliseconds, as far as the log still
    says it: with a commit every second these are millions.
    """

    def __init__(self, log: DeltaLog, *, at: int | None = None, knows_removed: bool = False) -> None:
        """The newest state, or that of version `at`.

        Raises FileNotFoundError if there is no table, or if its log no longer has that version; ValueError if
        the log cannot be read.
        """
        self._log = log
        self._knows_removed = knows_removed
        self.files: dict[str, DataFile] = {}
        self.removed: dict[str, int] = {}
        self.definition = _NO_VERSION
        self.protocol: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.version = SeenVersion(number=_NO_VERSION, file=None)
        checkpoints = {
            version: files for version, files in log.checkpoints().items() if at is None or version <= at
        }
        if checkpoints:
            newest = max(checkpoints)
            self.version = log.seen(newest)
            kinds = (*_OF_STATE, "remove") if knows_removed else _OF_STATE
            names = [f"{LOG_FOLDER}/{file.name}" for file in checkpoints[newest]]
            self._apply(
                newest, [each for name in names for each in checkpoint_actions(log.files.read(name), kinds)]
            )
        self._read_on(at)
        if self.version.number == _NO_VERSION and at is None:
            raise FileNotFoundError(f"{log.table} contains no Delta log with commits")
        if at is not None and self.version.number != at:
            raise FileNotFoundError(f"the log of {log.table} does not have version {at}")

    def follow(self, to: int | None = None) -> None:
        """Take in the commits since, up to version `to` if it is given.

        Raises VersionChangedError, and ValueError if a commit is torn.
        """
        if self._log.seen(self.version.number) != self.version:
            raise VersionChangedError(f"version {self.version.number}")
        self._read_on(to)

    @property
    def unsupported(self) -> str:
        """Why files of this table may not be merged or removed; empty if they may."""
        if features := impossible_features(json.dumps({"protocol": self.protocol})):
            return f"it has features of Delta that the lake does not write: {', '.join(features)}"
        if any(file.has_deletions for file in self.files.values()):
            return "it has files with deletion vectors"
        if any("://" in file.name or file.name.startswith("/") for file in self.files.values()):
            return "it has files of another table"
        return ""

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return tuple(self.metadata.get("partitionColumns") or ())

    def partitions(self) -> dict[PartitionValues, list[DataFile]]:
        found: dict[PartitionValues, list[DataFile]] = {}
        for file in self.files.values():
            found.setdefault(file.partition, []).append(file)
        return found

    def _read_on(self, to: int | None = None) -> None:
        while to is None or self.version.number < to:
            version = self.version.number + 1
            seen = self._log.seen(version)
            if seen.file is None:
                return
            self._apply(version, self._log.actions(version))
            self.version = seen

    def _apply(self, version: int, actions: Sequence[Mapping[str, Any]]) -> None:
        # First, whatever their order: a file that gets a deletion vector is removed and added in one commit.
        for action in actions:
            if (remove := action.get("remove")) is not None:
                name = unquote(remove["path"])
                self.files.pop(name, None)
                if self._knows_removed:
                    self.removed[name] = int(remove.get("deletionTimestamp") or 0)
        for action in actions:
            if (add := action.get("add")) is not None:
                file = data_file(add)
                self.files[file.name] = file
                self.removed.pop(file.name, None)
            elif (protocol := action.get("protocol")) is not None:
                self.protocol, self.definition = dict(protocol), version
            elif (metadata := action.get("metaData")) is not None:
                self.metadata, self.definition = dict(metadata), version
