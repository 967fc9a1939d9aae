"""Tables made by hand, whose data files say which rows they have: for plans that need no Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headrace.lake.delta_log import LOG_FOLDER, DeltaLog
from headrace.lake.positions import Progress, Reached
from headrace.lake.replacing import replace_files
from headrace.lake.table_state import TableState

TOPIC_ID = "topic-id"
_MARK = b"PAR1"


def schema(*names: str) -> str:
    fields = [{"name": name, "type": "string", "nullable": True, "metadata": {}} for name in names]
    return json.dumps({"type": "struct", "fields": fields})


class MadeTable:
    """Rows are numbers, which are their offsets in the one partition of the topic, too."""

    def __init__(self, folder: Path, *, partition: str = "") -> None:
        (folder / LOG_FOLDER).mkdir(parents=True)
        self.log = DeltaLog(folder)
        self.folder = folder
        self._partition = partition
        self._files = 0
        self.commit("CREATE TABLE", [self.definition("A")])

    def definition(self, *columns: str, protocol: Mapping[str, Any] | None = None) -> str:
        metadata = {
            "id": "made",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema(*columns),
            "partitionColumns": [self._partition] if self._partition else [],
            "configuration": {},
        }
        given = protocol or {"minReaderVersion": 1, "minWriterVersion": 2}
        return f"{json.dumps({'protocol': given})}\n{json.dumps({'metaData': metadata})}"

    def commit(
        self, operation: str, actions: Iterable[str], progress: Progress | None = None, **info: Any
    ) -> int:
        version = self.log.newest_version() + 1
        noted = {} if progress is None else {"userMetadata": progress.as_metadata()}
        about = {"operation": operation, "operationParameters": {}, "timestamp": 1_000 * version}
        # A definition has two lines.
        lines = [line for action in actions for line in action.splitlines()]
        self.log.add_commit(version, {**about, **noted, **info}, lines)
        return version

    def write(self, rows: Iterable[int], *, reached: int | None = None, value: str = "a") -> int:
        """A batch of ours; it has read the topic up to `reached`."""
        given = list(rows)
        end = max(given, default=-1) + 1 if reached is None else reached
        progress = Progress(positions=Reached(topic_id=TOPIC_ID, offsets={0: end}))
        return self.commit("WRITE", [self.add(given, value)] if given else [], progress)

    def add(self, rows: Iterable[int], value: str = "a") -> str:
        """A data file, and the action that adds it."""
        given = list(rows)
        self._files += 1
        folder = f"{self._partition}={value}/" if self._partition else ""
        name = f"{folder}{self._files}.parquet"
        content = _MARK + json.dumps(given).encode() + _MARK
        (self.folder / name).parent.mkdir(exist_ok=True)
        (self.folder / name).write_bytes(content)
        values = {self._partition: value} if self._partition else {}
        action = {
            "path": name,
            "partitionValues": values,
            "size": len(content),
            "modificationTime": 1,
            "dataChange": True,
            "stats": json.dumps({"numRecords": len(given)}),
        }
        return json.dumps({"add": action})

    def replace(self, operation: str, rows: Iterable[int], *, changes_data: bool = True) -> int:
        """All files by one, as a deletion or a merge does it."""
        state = TableState(self.log)
        version = replace_files(
            self.log,
            state,
            old=list(state.files.values()),
            adds=[json.loads(self.add(rows))["add"]],
            definition=state.definition,
            operation=operation,
            parameters={},
            changes_data=changes_data,
        )
        assert version is not None
        return version

    def rows(self, version: int | None = None) -> list[int]:
        state = TableState(self.log, at=version)
        found: list[int] = []
        for name in state.files:
            found += json.loads((self.folder / name).read_bytes()[4:-4])
        return sorted(found)
