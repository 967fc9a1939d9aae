"""Keeps one rollup: a step brings it from the version that it stands for to the newest one of its table.

What a step does is decided from the commits in between (`changes.py`):

- nothing, if they changed no rows. After many of them it says so in a commit without files;
- new files are grouped into one file more. When there are several small ones, they become one;
- where rows were removed, deleted, restored or written anew, the partitions concerned are read again;
- where nothing can be relied on (another table, other columns, a log that was cleaned up or repaired),
  everything is made anew from the files of the newest version.

Before each commit the groups are added up: they have as many rows as the log says of the table.

Invariants: files and the version that they stand for are one commit (`stored.py`); a step that fails or is
killed leaves the rollup as it was, or as it is to be. A rollup that cannot be read is made anew. Never
changes the table. Belongs to one thread.
"""

from __future__ import annotations

import contextlib
import shutil
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import duckdb

from headrace.core.errors import HeadraceError
from headrace.lake.delta_log import DeltaLog, VersionChangedError
from headrace.lake.rollups.changes import Changes, TableChanges, unfit
from headrace.lake.rollups.definition import RollupDefinition
from headrace.lake.rollups.grouping import Grouping
from headrace.lake.rollups.stored import NewFile, RollupVersion, StandsFor, StoredRollup, rollup_folder
from headrace.lake.table_state import DataFile, PartitionValues, TableState

# So many files of the rollup are merged.
MOST_FILES: Final = 8
# After so many commits without rows, the rollup says that it is up to date.
_MOST_BEHIND: Final = 50
# Small files are merged with the largest once they have this part of its rows.
_PART: Final = 1 / 4
_CHECKPOINT_EVERY: Final = 100
# Longer than a question may take that reads them.
_KEPT_SECONDS: Final = 15 * 60.0
_MOST_ROWS: Final = 5_000_000

Did = Literal["nothing", "followed", "appended", "merged", "changed", "built"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a step did, and what the rollup is now. `reason` says why it was built, if it was."""

    did: Did
    version: int
    rows: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """Which files are read, and which are replaced. `without` are partitions whose groups are dropped."""

    did: Did
    data: tuple[DataFile, ...] = ()
    merged: tuple[DataFile, ...] = ()
    without: Collection[PartitionValues] = ()
    reason: str = ""


class _WrongTotalError(Exception):
    """The groups have not as many rows as the table."""


class RollupMaintainer:
    """Of one rollup. Close it."""

    def __init__(
        self,
        lake_dir: Path,
        definition: RollupDefinition,
        *,
        clock: Callable[[], float] = time.time,
        at_step: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`at_step` is told before each step that leaves a trace: for tests that stop there."""
        self.definition = definition
        self._clock = clock
        self._at_step = at_step
        self._table = lake_dir / definition.table
        self._log = DeltaLog(self._table)
        self._changes = TableChanges(self._log)
        self._state: TableState | None = None
        self._stored = StoredRollup(rollup_folder(lake_dir, definition))
        self._grouping: Grouping | None = None

    def close(self) -> None:
        if self._grouping is not None:
            self._grouping.close()
            self._grouping = None

    def step(self) -> Step:
        """Raises no_such_table, lake_unsupported, lake_damaged, OSError."""
        state = self._followed()
        version = state.version.number
        mark = self._changes.mark(version, state.version)
        if not mark:
            raise _damaged(self.definition, f"it has no commit of version {version}")
        stored = self._stored.follow()
        plan = self._plan(stored, state)
        if plan.did == "nothing":
            assert stored is not None
            return Step(did="nothing", version=stored.stands_for.version, rows=stored.rows)
        try:
            self._carry_out(plan, StandsFor(table_id=_id(state), version=version, mark=mark))
        except (duckdb.Error, _WrongTotalError) as error:
            if plan.did == "built":
                raise _damaged(self.definition, str(error)) from error
            # A file was merged away and vacuumed, or one of the rollup is damaged: the table has all rows.
            self._stored.forget()
            plan = _built(state, str(error))
            self._stored.follow()
            try:
                self._carry_out(plan, StandsFor(table_id=_id(state), version=version, mark=mark))
            except (duckdb.Error, _WrongTotalError) as again:
                raise _damaged(self.definition, str(again)) from again
        now = self._stored.follow()
        if now is None:
            raise OSError(f"the rollup in {self._stored.folder} cannot be read")
        return Step(did=plan.did, version=now.stands_for.version, rows=now.rows, reason=plan.reason)

    def _followed(self) -> TableState:
        try:
            if self._state is None:
                self._state = TableState(self._log)
            else:
                self._state.follow()
        except VersionChangedError:
            self._state = None
            return self._followed()
        except FileNotFoundError as error:
            self._state = None
            raise HeadraceError(
                "no_such_table",
                f"There is no table {self.definition.table} in the lake.",
                remedy="The rollup is kept once there is one. DROP ROLLUP removes it.",
            ) from error
        except ValueError as error:
            self._state = None
            raise _damaged(self.definition, str(error)) from error
        why = self._state.unsupported or unfit(self._state.metadata, self.definition)
        if why:
            raise HeadraceError(
                "lake_unsupported",
                f"Rollup {self.definition.name} of table {self.definition.table} cannot be kept: {why}.",
                remedy="Drop the rollup, and create it again if the table is as it is meant to be.",
            )
        return self._state

    def _plan(self, stored: RollupVersion | None, state: TableState) -> _Plan:
        if stored is None:
            return _built(state, "there is none")
        if stored.definition != self.definition:
            return _built(state, "it was defined anew")
        stands_for, version = stored.stands_for, state.version.number
        if stands_for.table_id != _id(state) or stands_for.version > version:
            return _built(state, "the table is another one, or went back")
        if self._changes.mark(stands_for.version) != stands_for.mark:
            return _built(state, f"the log no longer has version {stands_for.version} as it was")
        changes = self._changes.between(
            stands_for.version, version, self.definition, table_id=stands_for.table_id
        )
        return self._next(changes, state, behind=version - stands_for.version)

    def _next(self, changes: Changes, state: TableState, *, behind: int) -> _Plan:
        assert self._stored.state is not None
        files = tuple(self._stored.state.files.values())
        if changes.reason:
            return _built(state, changes.reason)
        if any(not self._table.joinpath(file.name).exists() for file in changes.added):
            # Merged into others and vacuumed before it was seen.
            gone = {file.partition for file in changes.added if not self._table.joinpath(file.name).exists()}
            changes = Changes(
                added=tuple(file for file in changes.added if file.partition not in gone),
                changed=changes.changed | gone,
            )
        if changes.changed:
            again = [file for file in state.files.values() if file.partition in changes.changed]
            return _Plan(did="changed", data=(*again, *changes.added), merged=files, without=changes.changed)
        if changes.added:
            if len(files) < MOST_FILES:
                return _Plan(did="appended", data=changes.added)
            return _Plan(did="merged", data=changes.added, merged=_light(files))
        return _Plan(did="followed" if behind > _MOST_BEHIND else "nothing")

    def _carry_out(self, plan: _Plan, stands_for: StandsFor) -> None:
        if self._grouping is None:
            self._grouping = Grouping(self.definition, self._table)
        folder = self._stored.folder
        self._at_step("write")
        new = self._grouping.write(
            folder,
            data_files=[file.name for file in plan.data],
            rollup_files=[str(folder / file.name) for file in plan.merged],
            without=plan.without,
        )
        state = self._stored.state
        removed: Sequence[DataFile] = plan.merged
        if plan.did == "built" and state is not None:
            removed = tuple(state.files.values())
        if plan.did == "built" and (state is None or self._has_another_definition()):
            self._put_aside(new)
            removed = ()
        self._check_size(new, removed)
        self._check_total(new, removed)
        self._at_step("commit")
        self._stored.commit(self.definition, stands_for, added=() if new is None else (new,), removed=removed)
        self._at_step("tidy")
        with contextlib.suppress(OSError):
            self._tidy()

    def _check_size(self, new: NewFile | None, removed: Sequence[DataFile]) -> None:
        state = self._stored.state
        before = 0 if state is None else sum(file.rows or 0 for file in state.files.values())
        rows = before - sum(file.rows or 0 for file in removed) + (0 if new is None else new.rows)
        if rows > _MOST_ROWS:
            if new is not None:
                self._stored.log.files.delete([new.name])
            raise HeadraceError(
                "lake_unsupported",
                f"Rollup {self.definition.name} has {rows} groups, more than {_MOST_ROWS}.",
                remedy="Use wider buckets or fewer dimensions.",
            )

    def _check_total(self, new: NewFile | None, removed: Sequence[DataFile]) -> None:
        """Every row of the table is in one group, whatever the way to here was."""
        assert self._grouping is not None
        assert self._state is not None
        counts = [file.rows for file in self._state.files.values()]
        known = [rows for rows in counts if rows is not None]
        stored = self._stored.state
        gone = {file.name for file in removed}
        names = [name for name in (stored.files if stored is not None else ()) if name not in gone]
        names += [] if new is None else [new.name]
        total = self._grouping.total([str(self._stored.folder / name) for name in names])
        if len(known) == len(counts) and total != sum(known):
            if new is not None:
                self._stored.log.files.delete([new.name])
            raise _WrongTotalError(f"the groups have {total} rows, and its log says {sum(known)}")

    def _has_another_definition(self) -> bool:
        found = self._stored.follow()
        return found is None or found.definition != self.definition

    def _put_aside(self, new: NewFile | None) -> None:
        """Begin with an empty folder, in which only the new file is: whatever is there cannot be read."""
        folder = self._stored.folder
        if not (folder / self._stored.log.log_folder).exists():
            return
        aside = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
        folder.rename(aside)
        self._at_step("aside")
        folder.mkdir()
        if new is not None:
            (aside / new.name).rename(folder / new.name)
        self._stored.forget()
        shutil.rmtree(aside, ignore_errors=True)

    def _tidy(self) -> None:
        """Remove files that no question can read any more, and shorten the log."""
        found = self._stored.follow()
        state = self._stored.state
        if found is None or state is None:
            return
        before_ms = (self._clock() - _KEPT_SECONDS) * 1000
        log = self._stored.log
        expired = [
            stored.name
            for stored in log.files.below("")
            if stored.name.endswith(".parquet")
            and "/" not in stored.name
            and stored.name not in state.files
            and stored.modified_ms < before_ms
        ]
        log.files.delete(expired)
        if state.version.number and state.version.number % _CHECKPOINT_EVERY == 0:
            self._shorten_log(state.version.number, before_ms)

    def _shorten_log(self, version: int, before_ms: float) -> None:
        # Imported here: it is needed once in a hundred commits.
        from deltalake import DeltaTable  # noqa: PLC0415

        log = self._stored.log
        DeltaTable(self._stored.folder).create_checkpoint()
        log.sync_checkpoint(version)
        old = [
            stored.name
            for stored in log.files.below(log.log_folder)
            if stored.name.endswith((".json", ".parquet"))
            and stored.name.rpartition("/")[2][:20].isdigit()
            and int(stored.name.rpartition("/")[2][:20]) < version
            and stored.modified_ms < before_ms
        ]
        log.files.delete(old)


def remove_rollup(folder: Path) -> None:
    """Remove a rollup's folder, so that readers see all of it or nothing."""
    aside = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    try:
        folder.rename(aside)
    except FileNotFoundError:
        return
    shutil.rmtree(aside, ignore_errors=True)


def _built(state: TableState, reason: str) -> _Plan:
    return _Plan(did="built", data=tuple(state.files.values()), reason=reason)


def _light(files: Sequence[DataFile]) -> tuple[DataFile, ...]:
    """All but the largest, unless they have become a good part of it."""
    by_rows = sorted(files, key=lambda file: file.rows or 0)
    *small, largest = by_rows
    if sum(file.rows or 0 for file in small) < _PART * (largest.rows or 0):
        return tuple(small)
    return tuple(by_rows)


def _id(state: TableState) -> str:
    return str(state.metadata.get("id", ""))


def _damaged(definition: RollupDefinition, why: str) -> HeadraceError:
    return HeadraceError(
        "lake_damaged",
        f"Table {definition.table} of rollup {definition.name} cannot be read: {why}.",
        remedy=f"Run `headrace lake repair {definition.table}`.",
    )
