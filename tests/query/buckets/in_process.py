"""Questions answered in this process, on a table that a worker takes for one in a bucket: its bytes come from
the folder of the same table, without a server between.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headrace.lake.delta_log import DeltaLog
from headrace.lake.location import Location
from headrace.lake.sink import S3Storage
from headrace.lake.table_state import TableState
from headrace.query.buckets.log_snapshot import FileBounds, bucket_snapshot
from headrace.query.questions import NamedTables, Question, QuestionLimits, TablePlan
from headrace.query.result_formats import ROWS, unpickled
from headrace.query.snapshots import LakeTables
from headrace.query.table_snapshot import BucketSnapshot
from headrace.query.workers.answering import Answering, AskAgainError
from headrace.query.workers.parts import Output

PLACE = Location(storage=S3Storage(bucket="none", region="none"), key="topics/stored")


class InProcess:
    """Knows the table `local` in a folder, and the same one as `stored`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lake = LakeTables(folder / "lake")
        (folder / "own").mkdir()
        self._answering = Answering(folder / "lake", QuestionLimits(threads=1), folder / "own")
        self._answering.bucket_files.send = self._read
        self._snapshot: BucketSnapshot | None = None
        self._widened: set[str] = set()
        # The files that a question has read.
        self.read: set[str] = set()

    def close(self) -> None:
        self._answering.close()

    def look(self) -> None:
        """Take the table as it is now."""
        state = TableState(DeltaLog(self._folder / "lake" / "local"))
        self._snapshot = bucket_snapshot("stored", PLACE, state, FileBounds())
        self._widened = set()

    def ask(self, sql: str, parameters: tuple[object, ...] = ()) -> Any:
        """Columns, types and rows; or what was refused."""
        self.read.clear()
        question = Question(sql=sql, parameters=parameters, answer_format=ROWS)
        while True:
            try:
                return self._ask(question)
            except AskAgainError as error:
                if not set(error.widen) - self._widened:
                    raise
                self._widened |= set(error.widen)
            except Exception as error:  # the same refusals, too
                return type(error).__name__, str(error).partition("\n")[0][:60].replace("local", "stored")
            finally:
                self._answering.free()

    def _ask(self, question: Question) -> Any:
        found: dict[str, Any] = {}
        parts: list[bytes] = []

        def columns(names: Any, types: Any) -> None:
            found.update(columns=list(names), types=list(types))

        output = Output(columns=columns, data=lambda data: parts.append(bytes(data)))
        self._answering.answer(question, ("local", "stored"), self._tables, output)
        return found["columns"], found["types"], repr(unpickled(b"".join(parts)))

    def _tables(self, named: NamedTables) -> list[TablePlan]:
        assert self._snapshot is not None
        snapshots = {**self._lake.current(), "stored": self._snapshot}
        return [
            TablePlan(name=name, snapshot=snapshot, widened=name in self._widened)
            for name, snapshot in snapshots.items()
            if name in named.names
        ]

    def _read(self, payload: bytes) -> None:
        request = json.loads(payload)
        assert self._snapshot is not None
        name, size = self._snapshot.objects[request["file"]]
        self.read.add(name)
        answer = {"path": str(self._folder / "lake" / "local" / name), "start": 0, "end": size}
        reply = json.dumps({"number": request["number"], **answer}).encode()
        self._answering.bucket_files.answered(reply)
