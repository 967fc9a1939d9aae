"""The maintenance of one table: merges small files, removes partitions whose date has passed, deletes files
that nobody needs any more.

One call does a limited amount of work. What others do to the table meanwhile is found in its log; if that was
repaired or replaced, it is read anew. A table with features of Delta that our commits do not support, or with
deletion vectors, is left alone. Belongs to one thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession

from headrace.lake.delta_log import DeltaLog, VersionChangedError
from headrace.lake.location import Location
from headrace.lake.merging import MergeRules, plan_merges
from headrace.lake.partition_dates import Expiry
from headrace.lake.replacing import replace_files
from headrace.lake.storage.table_files import StoredFile
from headrace.lake.table_state import TableState
from headrace.lake.vacuuming import expired_files
from headrace.pipeline.spark.lake.file_merging import FileMerging, Merged

logger = logging.getLogger(__name__)

_DELETE: Final = "DELETE"


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainedTable:
    """A table that this process writes. `codec` is that of Parquet; `expiry` says when partitions expire, and
    is None if they never do.
    """

    name: str
    location: Location
    codec: str
    expiry: Expiry | None = None


class TableMaintenance:
    """`clock_ms` is the time of day in milliseconds."""

    def __init__(
        self, spark: SparkSession, table: MaintainedTable, rules: MergeRules, *, clock_ms: Callable[[], int]
    ) -> None:
        self.table = table
        self._spark = spark
        self._rules = rules
        self._clock_ms = clock_ms
        self._log = DeltaLog(table.location)
        self._merging: FileMerging | None = None
        self._state: TableState | None = None
        self._told = ""

    def merge(self) -> Merged | None:
        """Carry out one plan; None if there is nothing to merge.

        Raises HeadraceError, OSError, ValueError.
        """
        state = self._followed()
        if state is None:
            return None
        merges = plan_merges(state.partitions(), self._rules, now_ms=self._clock_ms())
        if not merges:
            return None
        if self._merging is None:
            self._merging = FileMerging(self._spark, self.table.location, codec=self.table.codec)
        try:
            merged = self._merging.merge(state, merges)
        except Exception:
            # Whatever Delta remembers of the table may be the reason.
            self._merging = self._state = None
            raise
        if merged.version is None:
            logger.info("files of table %s were not merged: it changed meanwhile", self.table.name)
            self._merging = self._state = None
        else:
            logger.info(
                "table %s: merged %d files to %d with %d rows in version %d",
                self.table.name,
                merged.removed,
                merged.added,
                merged.rows,
                merged.version,
            )
        return merged

    def expire(self) -> int:
        """Remove the partitions whose date has passed; how many rows that were.

        Raises OSError, ValueError.
        """
        expiry = self.table.expiry
        state = self._followed() if expiry is not None else None
        if state is None or expiry is None:
            return 0
        now = self._clock_ms()
        expired = {
            partition: files
            for partition, files in state.partitions().items()
            if expiry.has_passed(dict(partition), now_ms=now)
        }
        if not expired:
            return 0
        version = replace_files(
            self._log,
            state,
            old=[file for files in expired.values() for file in files],
            definition=state.definition,
            operation=_DELETE,
            parameters={"predicate": f'["the dates of {len(expired)} partitions have passed"]'},
            changes_data=True,
        )
        if version is None:
            self._state = None
            return 0
        rows = sum(file.rows or 0 for files in expired.values() for file in files)
        logger.info("table %s: %d partitions expired, with %d rows", self.table.name, len(expired), rows)
        return rows

    def vacuum(self, retention_ms: int, *, is_dry_run: bool = False) -> list[StoredFile]:
        """Delete the files that no version within the retention has. Raises OSError, ValueError."""
        if self._followed() is None:
            return []
        before = self._clock_ms() - retention_ms
        # Listed first: whatever is committed meanwhile is in the state, which is read afterwards.
        stored = list(self._log.files.below(""))
        state = TableState(self._log, knows_removed=True)
        expired = list(
            expired_files(
                stored,
                present=state.files.keys(),
                removed=state.removed,
                partition_columns=state.partition_columns,
                before_ms=before,
            )
        )
        if expired and not is_dry_run:
            self._log.files.delete(file.name for file in expired)
            size = sum(file.size for file in expired)
            logger.info("table %s: deleted %d files with %d bytes", self.table.name, len(expired), size)
        return expired

    def _followed(self) -> TableState | None:
        """The newest state; None if there is no table, or none that may be changed."""
        try:
            if self._state is not None:
                self._state.follow()
            else:
                self._state = TableState(self._log)
        except VersionChangedError:
            self._merging, self._state = None, TableState(self._log)
        except FileNotFoundError:
            return None
        unsupported = self._state.unsupported
        if unsupported and unsupported != self._told:
            logger.warning("Table %s gets no maintenance: %s.", self.table.name, unsupported)
        self._told = unsupported
        return None if unsupported else self._state
