"""How events flow: how many are accepted, in Avro, dead letters, or in the lake, and how fast.

Runs three threads: one surveys topics and the lake's version twice a second; one counts records
(`record_counting.py`); one reads the Avro topic live, and the queries' status (`flow_reader.py`). None joins
a group or commits anything. The counts go on from where any watcher has stopped, so a start costs the same
however long the topics are.

What is counted are records, never differences of offsets, which have gaps:

- `accepted`: the events in the events topic, and in its earlier incarnations (deleted and recreated) as far
  as a watcher has seen them.
- `avro`, `dead_letters`: the records of `<events>_avro` and `<events>_dlq`. Each is there once. A derived
  topic that is deleted and recreated starts over; one that does not exist counts as 0.
- `lake`: the rows of the table that gets the Avro records, at its newest Delta version, by the statistics in
  its log; no file is read. The statuses of the queries tell which table that is; 0 if there is none, or if it
  is not on this machine.
- `avro_latency`: from POST until readable in the Avro topic, for records read live, that is, after the reader
  had reached the end of the partition. What was there before is not included.
- `latency`: from POST until read by the sink (row P9), from the quantiles that the pipeline writes with each
  lake batch; of the batches before the start only the newest counts.

Counts include what retention has removed since, but nothing that it removed before it was counted.
Both latencies cover the last minute that had any; `overall_…` covers everything this watcher has seen.
Invariants: a snapshot costs microseconds and never waits for the log; topics and brokers may come and go.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.client.cluster import Cluster
from headrace.core.errors import HeadraceError
from headrace.core.histogram import Histogram, Percentiles
from headrace.lake.dead_letter_headers import dead_letter_topic
from headrace.pipeline.catalogue.status import STATUS_TOPIC, QueryStatus
from headrace.query.flow_reader import FlowReader
from headrace.query.record_counting import RecordCounter
from headrace.query.snapshots import FollowedTable

_PATIENCE_SECONDS: Final = 3.0
NO_LATENCY: Final = Histogram().percentiles()

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowNames:
    """The topics that events flow through."""

    events: str
    avro: str
    dead_letters: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSnapshot:
    """The flow at one moment. `problem` says why it is not up to date; empty if it is."""

    accepted: int
    avro: int
    dead_letters: int
    lake: int
    avro_latency: Percentiles
    latency: Percentiles
    queries: tuple[QueryStatus, ...] = ()
    overall_avro_latency: Percentiles = NO_LATENCY
    overall_latency: Percentiles = NO_LATENCY
    problem: str = ""


class FlowWatcher:
    """Watches the flow from `start` to `stop`."""

    def __init__(
        self,
        bootstrap: str,
        events_topic: str,
        *,
        status_topic: str = STATUS_TOPIC,
        survey_seconds: float = 0.5,
    ) -> None:
        self.names = FlowNames(
            events=events_topic, avro=f"{events_topic}_avro", dead_letters=dead_letter_topic(events_topic)
        )
        self._status_topic = status_topic
        self._survey_seconds = survey_seconds
        self._cluster = Cluster(bootstrap, timeout_seconds=_PATIENCE_SECONDS)
        self._table: FollowedTable | None = None
        self._table_folder = ""
        self._reader = FlowReader(bootstrap, avro=self.names.avro, status=status_topic)
        self._counter = RecordCounter(self._cluster, key=events_topic, with_earlier=[events_topic])
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._existing: frozenset[str] = frozenset()
        self._lake_rows = 0
        self._log_problem = ""
        self._lake_problem = ""

    def start(self) -> None:
        if self._thread is not None:
            raise RuntimeError("a watcher can only be started once")
        self._reader.start()
        self._counter.start()
        self._thread = threading.Thread(target=self._survey_until_stopped, name="flow-survey", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End all threads and wait for them; safe to call twice."""
        self._stopping.set()
        self._reader.stop()
        self._counter.stop()
        if self._thread is not None:
            self._thread.join()

    @property
    def stopped(self) -> bool:
        return self._stopping.is_set()

    def snapshot(self) -> FlowSnapshot:
        reading = self._reader.reading()
        with self._lock:
            existing, lake_rows = self._existing, self._lake_rows
            problem = self._log_problem or reading.problem or self._lake_problem
        names, total = self.names, self._counter.total
        return FlowSnapshot(
            accepted=total(names.events),
            avro=total(names.avro) if names.avro in existing else 0,
            dead_letters=total(names.dead_letters) if names.dead_letters in existing else 0,
            lake=lake_rows,
            avro_latency=reading.avro_latency,
            latency=reading.latency,
            queries=reading.queries,
            overall_avro_latency=reading.overall_avro_latency,
            overall_latency=reading.overall_latency,
            problem=problem or self._counter.problem,
        )

    def _survey_until_stopped(self) -> None:
        while not self._stopping.is_set():
            started = time.monotonic()
            self._survey_log()
            self._survey_lake()
            self._stopping.wait(max(0.0, self._survey_seconds - (time.monotonic() - started)))

    def _survey_log(self) -> None:
        counted = (self.names.events, self.names.avro, self.names.dead_letters)
        read = (self.names.avro, self._status_topic)
        try:
            found = self._cluster.lookup([*counted, self._status_topic])
        except HeadraceError as error:
            self._note_log_problem(str(error))
            return
        except Exception as error:
            # The thread must survive whatever a library raises: the next survey may well succeed.
            _logger.exception("The log could not be surveyed.")
            self._note_log_problem(f"The log could not be surveyed: {error}.")
            return
        self._counter.follow({name: found[name] for name in counted if name in found})
        self._reader.follow({name: found[name] for name in read if name in found})
        with self._lock:
            self._existing, self._log_problem = frozenset(found), ""

    def _survey_lake(self) -> None:
        try:
            table = self._followed_table()
            rows = table.delta.count() if table is not None and table.refresh() else 0
            problem = ""
        except Exception as error:
            # As above: the table may be readable again by the next survey.
            _logger.warning("The lake could not be surveyed: %s", error)
            rows, problem = self._lake_rows, f"The lake could not be surveyed: {error}."
        with self._lock:
            self._lake_rows, self._lake_problem = rows, problem

    def _followed_table(self) -> FollowedTable | None:
        queries = self._reader.reading().queries
        folder = next((each.table for each in queries if each.source == self.names.avro), "")
        if folder != self._table_folder:
            self._table_folder = folder
            is_local = folder and "://" not in folder
            self._table = FollowedTable(Path(folder)) if is_local else None
        return self._table

    def _note_log_problem(self, problem: str) -> None:
        with self._lock:
            if problem != self._log_problem:
                _logger.warning("%s", problem)
            self._log_problem = problem
