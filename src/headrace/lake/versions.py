"""The versions of a table: what each commit did, and how many rows the table had then.

Read from the table's log alone, as far back as it goes: Delta forgets commits after a month. Never writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.core.errors import HeadraceError
from headrace.lake.delta_log import DeltaLog, VersionChangedError
from headrace.lake.positions import Progress, progress_from_metadata
from headrace.lake.resuming import RESTORE
from headrace.lake.table_state import TableState

# Operations that only move rows between files.
_MOVES_ROWS: Final = frozenset({"OPTIMIZE", "REORG", "CLUSTER BY"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVersion:
    """One commit. `at_ms` is when it was made; `progress` is how far the topic was read, if the commit says
    so; `rows` how many rows the table had then, if its log says so. `problem` says why it cannot be read.
    """

    version: int
    at_ms: int | None = None
    operation: str = ""
    parameters: Mapping[str, Any]
    files_added: int = 0
    files_removed: int = 0
    rows_added: int | None = None
    rows: int | None = None
    progress: Progress | None = None
    problem: str = ""

    @property
    def restored(self) -> int | None:
        """The version that this one restored."""
        found = self.parameters.get("version") if self.operation == RESTORE else None
        return int(found) if found is not None and str(found).isdecimal() else None


def versions_of(log: DeltaLog, *, most: int | None = None) -> list[TableVersion]:
    """The newest first. Raises OSError."""
    known = log.versions()
    if most is not None:
        known = known[-most:]
    rows = _rows_by_version(log, known)
    return [_version(log, each, rows.get(each)) for each in reversed(known)]


def version_at(log: DeltaLog, at_ms: int) -> int:
    """The version that was the newest at that time. Raises version_not_found."""
    found = None
    for version in reversed(log.versions()):
        made = _version(log, version, None).at_ms
        if made is None:
            continue
        found = version
        if made <= at_ms:
            return version
    first = "it has none with a time" if found is None else f"version {found} is newer"
    raise HeadraceError(
        "version_not_found",
        f"The log of {log.table} has no version of that time: {first}.",
        remedy="`headrace lake history` lists the versions.",
    )


def changes_rows(log: DeltaLog, version: int) -> str:
    """The operation if the commit removed or changed rows on purpose; empty if it did not."""
    commit = log.commit(version)
    if commit is None or commit.operation in _MOVES_ROWS or commit.operation == RESTORE:
        return ""
    removes = (action["remove"] for action in log.actions(version) if "remove" in action)
    return commit.operation if any(each.get("dataChange", True) for each in removes) else ""


def _version(log: DeltaLog, version: int, rows: int | None) -> TableVersion:
    try:
        actions = log.actions(version)
    except ValueError as error:
        return TableVersion(version=version, parameters={}, problem=str(error))
    info: Mapping[str, Any] = next((each["commitInfo"] for each in actions if "commitInfo" in each), {})
    adds = [each["add"] for each in actions if "add" in each]
    added = [_rows_in(add) for add in adds]
    known = [each for each in added if each is not None]
    timestamp = info.get("timestamp")
    return TableVersion(
        version=version,
        at_ms=int(timestamp) if timestamp is not None else None,
        operation=str(info.get("operation", "")),
        parameters=info.get("operationParameters") or {},
        files_added=len(adds),
        files_removed=sum("remove" in each for each in actions),
        rows_added=sum(known) if len(known) == len(added) else None,
        rows=rows,
        progress=progress_from_metadata(info.get("userMetadata")),
    )


def _rows_in(add: Mapping[str, Any]) -> int | None:
    stats = json.loads(add["stats"]) if add.get("stats") else {}
    found = stats.get("numRecords")
    return None if found is None else int(found)


def _rows_by_version(log: DeltaLog, versions: list[int]) -> dict[int, int | None]:
    """Without those from a torn commit on: nothing newer can be trusted."""
    found: dict[int, int | None] = {}
    for version, state in _states(log, versions):
        counts = [file.rows for file in state.files.values()]
        known = [each for each in counts if each is not None]
        found[version] = sum(known) if len(known) == len(counts) else None
    return found


def _states(log: DeltaLog, versions: list[int]) -> Iterator[tuple[int, TableState]]:
    state: TableState | None = None
    for version in versions:
        try:
            if state is None:
                state = TableState(log, at=version)
            else:
                state.follow(version)
        except (FileNotFoundError, ValueError):
            # Before the oldest checkpoint, or torn.
            continue
        except VersionChangedError:
            return
        if state.version.number == version:
            yield version, state
