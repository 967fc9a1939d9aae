"""The thread that maintains the tables of this process, one after the other.

It looks at each table every few seconds: reading what was committed since costs a few file reads. A merge
waits for a moment in which no batch of the lake is late (`turns.py`), runs with one task in a pool without a
share, and is followed by a pause of several times its duration, so that it takes a small part of the machine;
if merges get rarer, each of them merges more. Only tables whose writer's lock this process has are touched.

A table whose maintenance fails is left alone for a minute; its query goes on. A stop waits some seconds for
the work that is going on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Final, Protocol, Self

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.lake.location import Location
from headrace.lake.merging import MergeRules
from headrace.lake.partition_dates import expiry_of
from headrace.lake.sink import LakeSink, TableFormat
from headrace.pipeline.spark.fair_turns import MAINTENANCE_POOL, in_pool
from headrace.pipeline.spark.lake.table_maintenance import MaintainedTable, TableMaintenance
from headrace.pipeline.spark.short_errors import first_line
from headrace.pipeline.spark.turns import Turns
from headrace.pipeline.spark.writer_lock import is_held, lock_of

logger = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 2.0
# A merge is followed by a pause of so many times its duration.
_REST: Final = 6.0
# So long a merge waits for a calm moment.
_PATIENCE_SECONDS: Final = 20.0
_BACK_OFF_SECONDS: Final = 60.0
_EXPIRE_SECONDS: Final = 3600.0
_VACUUM_SECONDS: Final = 6 * 3600.0
# After the start, when everything else has caught up.
_FIRST_VACUUM_SECONDS: Final = 600.0
_HOUR_MS: Final = 3_600_000
_STOP_SECONDS: Final = 5.0


class WrittenTable(Protocol):
    """What a query into the lake says of its table."""

    @property
    def location(self) -> Location: ...

    @property
    def sink(self) -> LakeSink: ...


class Maintenance:
    """Runs within its block, unless the setting `lake_maintenance` is off."""

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        *,
        turns: Turns,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._tables: frozenset[MaintainedTable] = frozenset()
        self._turns = turns
        self._clock_ms = clock_ms
        target = settings.lake_file_megabytes * 1024 * 1024
        self._rules = MergeRules(
            target_bytes=target, least_files=settings.lake_merge_files, most_bytes=target
        )
        self._retention_ms = settings.lake_vacuum_hours * _HOUR_MS
        self._known: dict[MaintainedTable, _Known] = {}
        self._at_work = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lake-maintenance", daemon=True)

    def __enter__(self) -> Self:
        if self._settings.lake_maintenance == "on":
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._turns.look_again()
        if self._thread.is_alive():
            # What is not committed by then is not part of any table.
            self._thread.join(_STOP_SECONDS)

    def alone(self) -> AbstractContextManager[object]:
        """Within it no table is maintained; entering waits for the work that is going on. For orders."""
        return self._at_work

    def tell(self, written: Iterable[WrittenTable]) -> None:
        """Which tables there are now; for the thread of the process's loop."""
        self._tables = frozenset(
            MaintainedTable(
                name=each.location.name,
                location=each.location,
                codec=each.sink.codec,
                expiry=expiry_of(each.sink.partitioning, self._settings.lake_retention_days),
            )
            for each in written
            # Plain files stay as they were written.
            if each.sink.table_format is TableFormat.DELTA
        )

    def _run(self) -> None:
        pause = _LOOK_SECONDS
        while not self._stopping.wait(pause):
            pause = max(_LOOK_SECONDS, self.look() * _REST)

    def look(self) -> float:
        """Look at each table once; how many seconds the work took."""
        folder = self._settings.data_dir
        wanted = {table for table in self._tables if is_held(lock_of(table.location, data_dir=folder))}
        for gone in self._known.keys() - wanted:
            del self._known[gone]
        seconds = 0.0
        for table in sorted(wanted, key=lambda each: str(each.location)):
            if self._stopping.is_set():
                break
            if table not in self._known:
                self._known[table] = _Known(
                    TableMaintenance(self._spark, table, self._rules, clock_ms=self._clock_ms),
                    time.monotonic(),
                )
            seconds += self._maintain(self._known[table])
        return seconds

    def _maintain(self, known: _Known) -> float:
        now = time.monotonic()
        if now < known.not_before:
            return 0.0
        self._turns.wait_for_calm(_PATIENCE_SECONDS, self._stopping.is_set)
        began = time.monotonic()
        try:
            with self._at_work, in_pool(self._spark, MAINTENANCE_POOL):
                is_busy = known.maintenance.merge() is not None
                if now >= known.expire_at:
                    known.expire_at = now + _EXPIRE_SECONDS
                    known.maintenance.expire()
                if now >= known.vacuum_at:
                    known.vacuum_at = now + _VACUUM_SECONDS
                    is_busy = bool(known.maintenance.vacuum(self._retention_ms)) or is_busy
        except (HeadraceError, PySparkException, Py4JError, OSError, ValueError) as error:
            known.not_before = time.monotonic() + _BACK_OFF_SECONDS
            if not self._stopping.is_set():
                name = known.maintenance.table.name
                logger.warning("Maintenance of table %s failed: %s", name, first_line(str(error)))
            return 0.0
        return time.monotonic() - began if is_busy else 0.0


class _Known:
    """A table, and when what is due; times are monotonic."""

    def __init__(self, maintenance: TableMaintenance, now: float) -> None:
        self.maintenance = maintenance
        self.not_before = now
        self.expire_at = now
        self.vacuum_at = now + _FIRST_VACUUM_SECONDS
