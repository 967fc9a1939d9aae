"""The table that a rollup is kept in: a Delta table with few files, whose commits say what they stand for.

It is in `<lake folder>/@rollups/<name>.<id>`; no topic has a name with `@`, so no table is in the way. Its
property `headrace.rollup` has the definition. A commit's `userMetadata` has, as JSON:

    {"headrace_rollup": 1, "table_id": "…", "version": 1234, "mark": "…", "rows": 4711}

The rows of the rollup are those of the table with that id at that version, grouped. `mark` is a hash of that
version's commit: a table whose newest versions were put aside and written anew has other commits under the
same numbers. Files and this are one commit, so a rollup never stands for another version than it says.

Crash behaviour: as of `delta_log.py`. Files of a commit that never came about belong to nobody, and are
deleted later. Anybody may read; one thread of the pipeline process writes.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import headrace
from headrace.lake.delta_log import DeltaLog, VersionChangedError
from headrace.lake.delta_schema import schema_of
from headrace.lake.replacing import action_line, remove_action
from headrace.lake.rollups.definition import RollupDefinition, rollup_from_json
from headrace.lake.table_state import DataFile, TableState
from headrace.lake.types import Field, Simple, Struct

FOLDER: Final = "@rollups"
DEFINITION: Final = "headrace.rollup"
_FORMAT: Final = 1
# A question may have begun with a version that is not the newest any more.
_MOST_REMEMBERED: Final = 8
_LOG_KEPT: Final = "interval 1 hours"


@dataclass(frozen=True, slots=True, kw_only=True)
class StandsFor:
    """The table, its version, and the mark of that version's commit."""

    table_id: str
    version: int
    mark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupVersion:
    """A rollup at one version of its own. `files` are paths; `rows` is how many they have."""

    definition: RollupDefinition
    stands_for: StandsFor
    version: int
    folder: Path
    files: tuple[str, ...]
    rows: int


def rollup_folder(lake_dir: Path, definition: RollupDefinition) -> Path:
    return lake_dir / FOLDER / f"{definition.name}.{definition.id}"


class StoredRollup:
    """The rollup in a folder, followed. Belongs to one thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = DeltaLog(folder)
        self.state: TableState | None = None
        self._versions: deque[RollupVersion] = deque(maxlen=_MOST_REMEMBERED)

    def follow(self) -> RollupVersion | None:
        """The newest version; None if there is none, or none that can be read."""
        before = self.state.version.number if self.state is not None else -1
        try:
            if self.state is None:
                self.state = TableState(self.log)
            else:
                self.state.follow()
        except VersionChangedError:
            self.forget()
            return self.follow()
        except (OSError, ValueError):
            self.forget()
            return None
        if self.state.version.number != before or not self._versions:
            found = self._read(self.state)
            if found is None:
                self.forget()
                return None
            self._versions.append(found)
        return self._versions[-1]

    def remembered(self) -> tuple[RollupVersion, ...]:
        """Those that were followed, the newest first."""
        return tuple(reversed(self._versions))

    def forget(self) -> None:
        self.state = None
        self._versions.clear()

    def commit(
        self,
        definition: RollupDefinition,
        stands_for: StandsFor,
        *,
        added: Sequence[NewFile],
        removed: Iterable[DataFile],
    ) -> None:
        """The very next version. Raises FileExistsError if somebody else has made it, OSError."""
        removed = tuple(removed)
        now = time.time_ns() // 1_000_000
        state = self.state
        kept = 0 if state is None else sum(file.rows or 0 for file in state.files.values())
        rows = kept - sum(file.rows or 0 for file in removed) + sum(file.rows for file in added)
        said = {
            "headrace_rollup": _FORMAT,
            "table_id": stands_for.table_id,
            "version": stands_for.version,
            "mark": stands_for.mark,
            "rows": rows,
        }
        info = {
            "timestamp": now,
            "operation": "WRITE",
            "operationParameters": {"mode": "Append" if not removed else "Overwrite"},
            "isBlindAppend": False,
            "engineInfo": f"Headrace/{headrace.__version__}",
            "userMetadata": json.dumps(said, separators=(",", ":")),
        }
        lines = [
            *(() if state is not None else _definition_lines(definition, now)),
            *(action_line("remove", remove_action(file, now, changes_data=True)) for file in removed),
            *(action_line("add", file.action(now)) for file in added),
        ]
        self.folder.joinpath(self.log.log_folder).mkdir(parents=True, exist_ok=True)
        version = 0 if state is None else state.version.number + 1
        self.log.add_commit(version, info, lines, after=None if state is None else state.version)

    def _read(self, state: TableState) -> RollupVersion | None:
        commit = self.log.commit(state.version.number)
        said = _said(commit.user_metadata if commit is not None else None)
        text = (state.metadata.get("configuration") or {}).get(DEFINITION)
        if said is None or text is None:
            return None
        try:
            definition = rollup_from_json(text)
        except ValueError:
            return None
        return RollupVersion(
            definition=definition,
            stands_for=said,
            version=state.version.number,
            folder=self.folder,
            files=tuple(str(self.folder / name) for name in state.files),
            rows=sum(file.rows or 0 for file in state.files.values()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A file that was written for the next commit."""

    name: str
    size: int
    rows: int

    def action(self, now: int) -> dict[str, Any]:
        return {
            "path": self.name,
            "partitionValues": {},
            "size": self.size,
            "modificationTime": now,
            "dataChange": True,
            "stats": json.dumps({"numRecords": self.rows}),
        }


def _definition_lines(definition: RollupDefinition, now: int) -> tuple[str, str]:
    columns = Struct(fields=tuple(Field(name=each.name, type=each.type) for each in definition.columns))
    metadata = {
        "id": str(uuid.uuid4()),
        "name": definition.name,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema_of(columns),
        "partitionColumns": [],
        "configuration": {
            DEFINITION: definition.as_json(),
            "delta.logRetentionDuration": _LOG_KEPT,
            "delta.deletedFileRetentionDuration": _LOG_KEPT,
        },
        "createdTime": now,
    }
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
    if any(each.type is Simple.TIMESTAMP_NTZ for each in definition.columns):
        features = ["timestampNtz"]
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
        protocol |= {"readerFeatures": features, "writerFeatures": features}
    return action_line("protocol", protocol), action_line("metaData", metadata)


def _said(text: str | None) -> StandsFor | None:
    try:
        content = json.loads(text or "")
        if content["headrace_rollup"] != _FORMAT:
            return None
        return StandsFor(
            table_id=str(content["table_id"]), version=int(content["version"]), mark=str(content["mark"])
        )
    except (KeyError, TypeError, ValueError):
        return None
