"""Writes files of a table again as fewer, and replaces them in one commit (`lake/merging.py` has the plan).

Rows stay as they are: the new files have the rows of the old ones, in the same partitions, with the same
columns and statistics, as Delta's own OPTIMIZE would write them. Before the commit the rows are counted three
times, as they are read, as they are written, and as the log says of the old files, for each partition by
itself; if there is any difference, nothing is committed.

Writers and readers go on meanwhile. The commit is ours (`lake/delta_log.py`), as the very next version; if
others have committed since the files were chosen, it follows them, as long as the table still has all these
files and the same columns. It does not concern the positions (`lake/resuming.py`). Old files stay where they
are for those who read older versions, until they are vacuumed (`lake/vacuuming.py`).

Crash behaviour: before the commit nothing is visible, and new files belong to nobody until they are vacuumed.
Uses classes of Delta that are not part of its interface, as `delta_files.py` does. Belongs to one thread.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headrace.core.errors import HeadraceError
from headrace.lake.delta_log import DeltaLog
from headrace.lake.location import Location
from headrace.lake.merging import Merge
from headrace.lake.replacing import replace_files
from headrace.lake.sink import S3Storage
from headrace.lake.table_state import DataFile, PartitionValues, TableState, data_file
from headrace.pipeline.spark.s3a import use_storage

_OPERATION: Final = "OPTIMIZE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What became of a plan. `version` is None if the table changed meanwhile, and nothing was committed."""

    version: int | None
    removed: int
    added: int
    rows: int
    size: int


class FileMerging:
    """Merges files of one table, with a session of its own. `codec` is that of Parquet."""

    def __init__(self, spark: SparkSession, table: Location, *, codec: str) -> None:
        self._spark = spark.newSession()
        self._spark.conf.set("spark.sql.parquet.compression.codec", codec)
        jvm = self._spark._jvm
        assert jvm is not None
        self._jvm = jvm
        self._none = jvm.scala.Option.empty()
        self._table = table
        self._log = DeltaLog(table)
        # Delta's log and snapshot, as of the definition of the table that they were made for.
        self._opened: tuple[int, Any, Any] | None = None

    def merge(self, state: TableState, merges: Sequence[Merge]) -> Merged:
        """Carry out the plan, which is not empty. `state` is what it was made from; it is followed up to the
        commit.

        Raises HeadraceError if the new files do not have the rows of the old ones, OSError if the storage
        fails.
        """
        assert merges
        definition = state.definition
        old = [file for merge in merges for file in merge.files]
        rows, adds = self._rewritten(state, old)
        new = [data_file(add) for add in adds]
        self._check(old, new, rows)
        version = replace_files(
            self._log,
            state,
            old=old,
            adds=adds,
            definition=definition,
            operation=_OPERATION,
            parameters={"predicate": "[]", "zOrderBy": "[]", "auto": True},
            changes_data=False,
        )
        if version is None:
            self._log.files.delete(file.name for file in new)
        return Merged(
            version=version,
            removed=len(old),
            added=len(new),
            rows=rows,
            size=sum(file.size for file in new),
        )

    def _rewritten(self, state: TableState, old: Sequence[DataFile]) -> tuple[int, list[dict[str, Any]]]:
        """How many rows were read, and the `add` actions of the new files."""
        jvm, session = self._jvm, self._spark._jsparkSession
        if isinstance(self._table.storage, S3Storage):
            use_storage(self._spark, self._table.storage)
        jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session)
        log, snapshot = self._opened_at(state.definition)
        from_json = jvm.org.apache.spark.sql.delta.actions.Action.fromJson
        files = jvm.java.util.ArrayList()
        for file in old:
            files.add(from_json(json.dumps({"add": dict(file.action)})))
        chosen = jvm.org.apache.spark.api.python.PythonUtils.toSeq(files)
        frame = log.createDataFrame(snapshot, chosen, False, jvm.scala.Option.apply("Optimize"))
        seen = Observation()
        counted = DataFrame(frame, self._spark).observe(seen, F.count(F.lit(1)).alias("rows"))
        # One task, so that each partition gets one file and half of a small machine stays free.
        data = counted.coalesce(1)._jdf
        transaction = log.startTransaction(self._none, jvm.scala.Option.apply(snapshot))
        actions = transaction.writeFiles(data)
        adds = [json.loads(str(actions.apply(number).json()))["add"] for number in range(actions.size())]
        return int(seen.get["rows"]), adds

    def _opened_at(self, definition: int) -> tuple[Any, Any]:
        """Only its columns and settings are used, so it may be older than the newest commit."""
        if self._opened is None or self._opened[0] != definition:
            jvm, session = self._jvm, self._spark._jsparkSession
            log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session, self._table.uri)
            self._opened = (definition, log, log.update(False, self._none, self._none))
        return self._opened[1], self._opened[2]

    def _check(self, old: Sequence[DataFile], new: Sequence[DataFile], rows: int) -> None:
        before, after = _rows_by_partition(old), _rows_by_partition(new)
        is_known = all(file.rows is not None for file in old)
        is_same = before == after if is_known else before.keys() == after.keys()
        if is_same and rows == after.total():
            return
        self._log.files.delete(file.name for file in new)
        raise HeadraceError(
            "lake_damaged",
            f"Files of {self._table} were not merged: the new files have {after.total()} rows in "
            f"{len(after)} partitions, the old ones {rows} in {len(before)}, {before.total()} according to "
            "the log.",
            remedy="The table is as it was. Check its data files: `headrace reconcile` compares its rows "
            "with the topic.",
        )


def _rows_by_partition(files: Iterable[DataFile]) -> Counter[PartitionValues]:
    rows: Counter[PartitionValues] = Counter()
    for file in files:
        rows[file.partition] += file.rows or 0
    return rows
