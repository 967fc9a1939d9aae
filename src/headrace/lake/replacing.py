"""Replaces files of a table by others, or by nothing, in one commit, while the table's writer goes on.

The commit is the very next version after a state that was read. If others have committed meanwhile, it
follows them, as long as the table still has all files that it removes and the same columns. Otherwise nothing
is committed. Such a commit has no positions of its own: its operation must be one that leaves them as they
are (`resuming.py`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import headrace
from headrace.lake.delta_log import DeltaLog, VersionChangedError
from headrace.lake.table_state import DataFile, TableState


def replace_files(
    log: DeltaLog,
    state: TableState,
    *,
    old: Sequence[DataFile],
    adds: Sequence[Mapping[str, Any]] = (),
    definition: int,
    operation: str,
    parameters: Mapping[str, Any],
    changes_data: bool,
) -> int | None:
    """The version of the commit; None if the table changed so that it cannot be made.

    `adds` are `add` actions, whose files are written; `definition` is that of the state for which they were
    chosen. The state is followed up to the commit. Raises OSError.
    """
    while True:
        now = time.time_ns() // 1_000_000
        version = state.version.number + 1
        if not _has_all(state, definition, old):
            return None
        info = {
            "timestamp": now,
            "operation": operation,
            "operationParameters": dict(parameters),
            "readVersion": state.version.number,
            "isolationLevel": "Serializable" if changes_data else "SnapshotIsolation",
            "isBlindAppend": False,
            "operationMetrics": _metrics(old, adds),
            "engineInfo": f"Headrace/{headrace.__version__}",
        }
        try:
            log.add_commit(
                version,
                info,
                [
                    *(
                        action_line("remove", remove_action(file, now, changes_data=changes_data))
                        for file in old
                    ),
                    *(action_line("add", {**add, "dataChange": changes_data}) for add in adds),
                ],
                after=state.version,
            )
            state.follow()
        except FileExistsError:
            try:
                state.follow()
            except VersionChangedError:
                return None
            continue
        except VersionChangedError:
            return None
        return version


def _has_all(state: TableState, definition: int, old: Iterable[DataFile]) -> bool:
    return state.definition == definition and all(state.files.get(file.name) == file for file in old)


def _metrics(old: Sequence[DataFile], adds: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {
        "numRemovedFiles": str(len(old)),
        "numRemovedBytes": str(sum(file.size for file in old)),
        "numAddedFiles": str(len(adds)),
        "numAddedBytes": str(sum(int(add["size"]) for add in adds)),
    }


def remove_action(file: DataFile, now: int, *, changes_data: bool) -> dict[str, Any]:
    """The `remove` action of a file; `now` in milliseconds."""
    return {
        "path": file.action["path"],
        "deletionTimestamp": now,
        "dataChange": changes_data,
        "extendedFileMetadata": True,
        "partitionValues": file.action.get("partitionValues") or {},
        "size": file.size,
    }


def action_line(kind: str, action: Mapping[str, Any]) -> str:
    """A line of a commit."""
    return json.dumps({kind: action}, separators=(",", ":"))
