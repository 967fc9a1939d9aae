"""Goes back to an older version of a table, with the positions that the table had then.

A restore is one commit, the very next version: it adds the files of the older version that the table no
longer has, removes those that it got since, and has the columns of that version. It carries what the older
version says of the topic (`positions.py`), so the table goes on there: what came later is read again from the
topic, as far as the topic still has it. A version that does not say how far it had read is refused: the topic
would be read from its beginning, and rows that were deleted would come back.

- Rows that were deleted, by somebody or because their date has passed, before the restored version stay
  deleted: they lie before its positions.
- Rows that were deleted after it are back: those that it has, and from the topic those that came later.
  Whoever asks is told (`Restore.deletions`).

Nothing is lost for good: until files are vacuumed, a restore of the version before undoes it. If a data file
of the older version was vacuumed, nothing is done. Crash behaviour: one commit or none.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import headrace
from headrace.core.errors import HeadraceError
from headrace.lake.delta_log import Commit, DeltaLog, SeenVersion, VersionChangedError
from headrace.lake.positions import Offsets, Progress
from headrace.lake.replacing import action_line, remove_action
from headrace.lake.resuming import RESTORE, history
from headrace.lake.table_state import DataFile, TableState
from headrace.lake.versions import changes_rows

# The parameter of the commit that names the order for it.
_ORDER: Final = "order"
_HISTORY: Final = "`headrace lake history {}` lists the versions."


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """A commit that removed or changed rows on purpose."""

    version: int
    operation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """A plan. `before` is the newest version, which the commit follows; `metadata` is that of the restored
    version, if it is another. `progress` is what that version says, `former` what the newest one does.
    `is_doubtful`: others had added rows before the restored version, so these must become bounds.
    """

    version: int
    before: SeenVersion
    added: tuple[DataFile, ...]
    removed: tuple[DataFile, ...]
    metadata: Mapping[str, Any] | None
    progress: Progress
    former: Progress
    is_doubtful: bool
    deletions: tuple[Deletion, ...]

    @property
    def changes_nothing(self) -> bool:
        has_same_rows = not self.added and not self.removed and self.metadata is None
        return has_same_rows and self.progress.positions == self.former.positions


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """What a table reads again after a restore: partition, first offset, end. `expired` was removed from the
    topic; it comes back only by undoing the restore. `is_another_topic`: the topic was recreated since, so
    all that it has is read, and every row is looked up in the table.
    """

    again: tuple[tuple[int, int, int], ...] = ()
    expired: tuple[tuple[int, int, int], ...] = ()
    is_another_topic: bool = False


def plan_restore(log: DeltaLog, version: int, *, name: str) -> Restore:
    """Raises no_such_table, version_not_found, lake_damaged, lake_unsupported; OSError."""
    try:
        now = TableState(log)
    except FileNotFoundError as error:
        raise HeadraceError("no_such_table", f"There is no table {name} at {log.table}.") from error
    except ValueError as error:
        raise _unreadable(name, error) from error
    if not 0 <= version < now.version.number:
        raise HeadraceError(
            "version_not_found",
            f"Table {name} has no older version {version}: its newest one is {now.version.number}.",
            remedy=_HISTORY.format(name),
        )
    then = _state_at(log, version, name)
    for state in (now, then):
        if state.unsupported:
            raise HeadraceError(
                "lake_unsupported",
                f"Table {name} cannot be restored to version {version}: {state.unsupported}.",
                remedy="Restore it with Spark: RESTORE TABLE. The connector then goes on from there.",
            )
    said = next(history(log, version), None)
    if said is None:
        raise HeadraceError(
            "lake_unsupported",
            f"Version {version} of table {name} does not say how far it had read its topic. "
            "The table would read it from the beginning, and rows that were deleted would come back.",
            remedy=f"Choose a version that the connector wrote. {_HISTORY.format(name)}",
        )
    added = tuple(file for file in then.files.values() if file.name not in now.files)
    _refuse_what_is_gone(log, added, version, name)
    former = next(history(log, now.version.number), None)
    return Restore(
        version=version,
        before=now.version,
        added=added,
        removed=tuple(file for file in now.files.values() if file.name not in then.files),
        metadata=then.metadata if _definition(then) != _definition(now) else None,
        progress=said.progress,
        former=former.progress if former is not None else Progress(),
        is_doubtful=said.is_doubtful,
        deletions=tuple(_deletions(log, version, now.version.number)),
    )


def returning(plan: Restore, *, topic_id: str, starts: Offsets) -> Return:
    """What comes back. `topic_id` and `starts` are those of the topic as it is now."""
    then, now = plan.progress.positions, plan.former.positions
    reached = now.of(topic_id)
    is_another = then.topic_id not in ("", topic_id)
    again: list[tuple[int, int, int]] = []
    expired: list[tuple[int, int, int]] = []
    for number, end in sorted(reached.items()):
        start = starts.get(number, 0)
        first = start if is_another else then.of(topic_id).get(number, 0)
        if first < min(start, end):
            expired.append((number, first, min(start, end)))
        if max(first, start) < end:
            again.append((number, max(first, start), end))
    return Return(again=tuple(again), expired=tuple(expired), is_another_topic=is_another)


def commit_restore(log: DeltaLog, plan: Restore, *, progress: Progress, order: str) -> int | None:
    """The version of the commit; None if the table has changed since the plan. Raises OSError.

    `progress` is that of the plan, with bounds if the plan is doubtful.
    """
    now = time.time_ns() // 1_000_000
    info = {
        "timestamp": now,
        "operation": RESTORE,
        "operationParameters": {"version": plan.version, "timestamp": None, _ORDER: order},
        "readVersion": plan.before.number,
        "isolationLevel": "Serializable",
        "isBlindAppend": False,
        "operationMetrics": {
            "numRestoredFiles": str(len(plan.added)),
            "restoredFilesSize": str(sum(file.size for file in plan.added)),
            "numRemovedFiles": str(len(plan.removed)),
            "removedFilesSize": str(sum(file.size for file in plan.removed)),
        },
        "userMetadata": progress.as_metadata(),
        "engineInfo": f"Headrace/{headrace.__version__}",
    }
    actions = [
        *([action_line("metaData", plan.metadata)] if plan.metadata is not None else []),
        *(action_line("remove", remove_action(file, now, changes_data=True)) for file in plan.removed),
        *(action_line("add", {**file.action, "dataChange": True}) for file in plan.added),
    ]
    version = plan.before.number + 1
    try:
        log.add_commit(version, info, actions, after=plan.before)
    except (FileExistsError, VersionChangedError):
        return None
    return version


def restored_by(log: DeltaLog, order: str, *, most: int = 1_000) -> Commit | None:
    """The commit that an order led to, among the newest."""
    for version in log.versions()[-most:][::-1]:
        commit = log.commit(version)
        if commit is not None and commit.operation == RESTORE and commit.parameters.get(_ORDER) == order:
            return commit
    return None


def _state_at(log: DeltaLog, version: int, name: str) -> TableState:
    try:
        return TableState(log, at=version)
    except FileNotFoundError as error:
        raise HeadraceError(
            "version_not_found",
            f"The log of table {name} no longer has version {version}: Delta forgets commits after a month.",
            remedy=_HISTORY.format(name),
        ) from error
    except ValueError as error:
        raise _unreadable(name, error) from error


def _refuse_what_is_gone(log: DeltaLog, added: Sequence[DataFile], version: int, name: str) -> None:
    flaws = log.files.flaws({file.name: file.size for file in added})
    for file, reason in sorted(flaws.items()):
        raise HeadraceError(
            "version_not_found",
            f"Version {version} of table {name} cannot be restored: {len(flaws)} of its files were vacuumed "
            f"or damaged, among them {log.table / file}: {reason}.",
            remedy="Choose a newer version. The setting lake_vacuum_hours says how long files stay.",
        )


def _definition(state: TableState) -> list[Any]:
    """What counts of the metadata; a checkpoint has the rest in another form than a commit."""
    return [
        state.metadata.get(name) or None for name in ("schemaString", "partitionColumns", "configuration")
    ]


def _deletions(log: DeltaLog, after: int, newest: int) -> Iterable[Deletion]:
    for version in range(after + 1, newest + 1):
        operation = changes_rows(log, version)
        if operation:
            yield Deletion(version=version, operation=operation)


def _unreadable(name: str, error: Exception) -> HeadraceError:
    return HeadraceError(
        "lake_damaged",
        f"Table {name} cannot be read: {error}.",
        remedy=f"Run `headrace lake repair {name}`.",
    )
