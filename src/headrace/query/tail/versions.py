"""What the log of a table says about each of its versions: columns, folders, files, and our commits.

Commits are read once each, and again after the table was repaired: then other commits have the numbers of
those that were put aside (`lake/repairing.py`). The newest one that was read tells, since a repair puts aside
all commits behind the damaged one. Invariant: everything is of the table with the id that was asked for,
never of another one in its place. Safe for several threads. Never writes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.lake.delta_log import Commit, DeltaLog, SeenVersion, VersionChangedError
from headrace.lake.delta_schema import struct_of
from headrace.lake.location import Location
from headrace.lake.new_partitions import NO_VALUE, Partition
from headrace.lake.positions import progress_from_metadata
from headrace.lake.resuming import RESTORE, keeps_positions
from headrace.lake.table_state import DataFile, TableState
from headrace.lake.types import Struct

_MOST_VERSIONS: Final = 64
_MOST_COMMITS: Final = 10_000
# Commits that move rows between files, and so change nothing that a reader sees.
_MOVES_ROWS: Final = frozenset({"OPTIMIZE", "VACUUM START", "VACUUM END", "REORG", "CLUSTER BY"})


class TableChangedError(Exception):
    """The table, or the version, is not there any more; says what is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAt:
    """A table at one version. `partitions` has the time of the oldest file of each, in seconds since 1970."""

    version: int
    columns: Struct
    partition_columns: tuple[str, ...]
    partitions: Mapping[Partition, float]


class CommitsUpTo:
    """The commits of a table as if one version were its newest: for `lake/resuming.py`."""

    def __init__(self, versions: TableVersions, version: int) -> None:
        self._versions = versions
        self._version = version

    def newest_version(self) -> int:
        return self._version

    def commit(self, version: int) -> Commit | None:
        return self._versions.commit(version)


class TableVersions:
    """Of the table with this id at a location."""

    def __init__(self, location: Location, table_id: str) -> None:
        self.location = location
        self._table_id = table_id
        self._log = DeltaLog(location)
        self._lock = threading.Lock()
        self._state: TableState | None = None
        self._found: OrderedDict[int, TableAt] = OrderedDict()
        self._commits: OrderedDict[int, Commit | None] = OrderedDict()
        self._newest_read: SeenVersion | None = None
        self._repairs = 0

    def repairs(self) -> int:
        """How often the log was found to have other commits than before: what is known of versions counts
        only as long as this is the same. Raises OSError.
        """
        with self._lock:
            newest = self._newest_read
            if newest is not None and self._log.seen(newest.number) != newest:
                self._newest_read = None
                self._repairs += 1
                self._forget()
            return self._repairs

    def at(self, version: int) -> TableAt:
        """Raises TableChangedError, OSError, and lake_unsupported for types that the lake does not write."""
        with self._lock:
            found = self._found.get(version)
            if found is None:
                found = self._found[version] = self._described(self._state_at(version))
                if len(self._found) > _MOST_VERSIONS:
                    self._found.popitem(last=False)
            return found

    def files(self, version: int) -> tuple[DataFile, ...]:
        """Raises TableChangedError, OSError."""
        with self._lock:
            return tuple(self._state_at(version).files.values())

    def commit(self, version: int) -> Commit | None:
        """As `DeltaLog.commit`."""
        with self._lock:
            if version not in self._commits:
                self._note(self._log.seen(version))
                self._commits[version] = self._log.commit(version)
                if len(self._commits) > _MOST_COMMITS:
                    self._commits.popitem(last=False)
            return self._commits[version]

    def keeps_rows(self, since: int, to: int) -> bool:
        """Whether the later of two versions has all rows of the earlier one, and more only of records behind
        its positions.
        """
        for version in range(since + 1, to + 1):
            commit = self.commit(version)
            if commit is None:
                return False
            is_ours = progress_from_metadata(commit.user_metadata) is not None and commit.operation != RESTORE
            if not is_ours and not (commit.operation in _MOVES_ROWS and keeps_positions(commit)):
                return False
        return since <= to

    def _state_at(self, version: int) -> TableState:
        state = self._state
        try:
            if state is not None and state.version.number <= version:
                state.follow(version)
            elif state is not None:
                state = TableState(self._log, at=version)
                self._check(state, version)
                self._note(state.version)
                return state
        except (VersionChangedError, FileNotFoundError):
            # Repaired or replaced: nothing that was read of it counts.
            self._forget()
            state = None
        except ValueError as error:
            self._forget()
            raise TableChangedError(f"its log cannot be read: {error}") from error
        if state is None:
            try:
                state = TableState(self._log, at=version)
            except (FileNotFoundError, ValueError) as error:
                raise TableChangedError(str(error)) from error
        self._check(state, version)
        self._note(state.version)
        self._state = state
        return state

    def _note(self, seen: SeenVersion) -> None:
        """Never another commit with the number of the newest one: `repairs` must find that out."""
        if seen.file is not None and (self._newest_read is None or seen.number > self._newest_read.number):
            self._newest_read = seen

    def _check(self, state: TableState, version: int) -> None:
        if state.version.number != version:
            raise TableChangedError(f"it has no version {version}")
        if str(state.metadata.get("id", "")) != self._table_id:
            self._forget()
            raise TableChangedError("another table is in its place")

    def _forget(self) -> None:
        self._state = None
        self._found.clear()
        self._commits.clear()

    def _described(self, state: TableState) -> TableAt:
        names = state.partition_columns
        partitions: dict[Partition, float] = {}
        for file in state.files.values():
            values = dict(file.partition)
            partition = tuple(values.get(name) or NO_VALUE for name in names)
            since = file.modified_ms / 1_000
            partitions[partition] = min(partitions.get(partition, since), since)
        return TableAt(
            version=state.version.number,
            columns=struct_of(state.metadata["schemaString"], table=self.location.name),
            partition_columns=names,
            partitions=partitions,
        )
