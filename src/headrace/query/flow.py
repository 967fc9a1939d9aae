"""How events flow: how many are accepted, in Avro, dead letters, or in the lake, and how fast.

Runs two threads: one surveys topics, offsets and the lake's version twice a second; the other reads the
derived topics and the queries' status from the beginning and then live. It joins no group and commits
nothing; after a restart it counts from scratch.

What is counted:

- `accepted`: the events in the events topic, by its latest offsets. Of an earlier incarnation of the topic
  (deleted and recreated), the events that derived records name as their source, so that accepted = avro +
  dead letters still holds once everything is processed.
- `avro`, `dead_letters`: distinct source coordinates in `<events>_avro` and `<events>_dlq`; see
  `derived_counts.py`. A derived topic that is deleted and recreated starts over; one that does not exist
  counts as 0.
- `lake`: the rows of the table's newest Delta version, by the statistics in its log; no file is read.
- `avro_latency`: from POST until readable in the Avro topic, for records read live, that is, after the reader
  had reached the end of the partition. The backlog read at startup is not included.
- `latency`: from POST until read by the sink (row P9), from the quantiles that the pipeline writes with each
  lake batch.

Both latencies cover the last minute that had any; `overall_…` covers everything this watcher has seen.
Invariants: a snapshot costs microseconds and never waits for the log; topics and brokers may come and go.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.core.histogram import Histogram, Percentiles
from headrace.lake.dead_letter_headers import dead_letter_topic
from headrace.pipeline.catalogue.status import STATUS_TOPIC, QueryStatus
from headrace.query.flow_reader import FlowReader
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
        lake_dir: Path,
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
        self._table = FollowedTable(lake_dir.absolute() / events_topic)
        self._reader = FlowReader(
            bootstrap, avro=self.names.avro, dead_letters=self.names.dead_letters, status=status_topic
        )
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._events: TopicIdentity | None = None
        self._offsets: Mapping[tuple[str, int], int] = {}
        self._lake_rows = 0
        self._log_problem = ""
        self._lake_problem = ""

    def start(self) -> None:
        if self._thread is not None:
            raise RuntimeError("a watcher can only be started once")
        self._reader.start()
        self._thread = threading.Thread(target=self._survey_until_stopped, name="flow-survey", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End both threads and wait for them; safe to call twice."""
        self._stopping.set()
        self._reader.stop()
        if self._thread is not None:
            self._thread.join()

    @property
    def stopped(self) -> bool:
        return self._stopping.is_set()

    def snapshot(self) -> FlowSnapshot:
        reading = self._reader.reading()
        with self._lock:
            accepted = _accepted(self._events, self._offsets, reading.source_ends)
            lake_rows = self._lake_rows
            problem = self._log_problem or reading.problem or self._lake_problem
        return FlowSnapshot(
            accepted=accepted,
            avro=reading.avro,
            dead_letters=reading.dead_letters,
            lake=lake_rows,
            avro_latency=reading.avro_latency,
            latency=reading.latency,
            queries=reading.queries,
            overall_avro_latency=reading.overall_avro_latency,
            overall_latency=reading.overall_latency,
            problem=problem,
        )

    def _survey_until_stopped(self) -> None:
        while not self._stopping.is_set():
            started = time.monotonic()
            self._survey_log()
            self._survey_lake()
            self._stopping.wait(max(0.0, self._survey_seconds - (time.monotonic() - started)))

    def _survey_log(self) -> None:
        derived = (self.names.avro, self.names.dead_letters, self._status_topic)
        try:
            found = self._cluster.lookup([self.names.events, *derived])
            events = found.pop(self.names.events, None)
            self._reader.follow(found)
            offsets = self._cluster.latest([events]) if events is not None else {}
        except HeadraceError as error:
            self._note_log_problem(str(error))
            return
        except Exception as error:
            # The thread must survive whatever a library raises: the next survey may well succeed.
            _logger.exception("The log could not be surveyed.")
            self._note_log_problem(f"The log could not be surveyed: {error}.")
            return
        with self._lock:
            self._events, self._offsets, self._log_problem = events, offsets, ""

    def _survey_lake(self) -> None:
        try:
            rows = self._table.delta.count() if self._table.refresh() else 0
            problem = ""
        except Exception as error:
            # As above: the table may be readable again by the next survey.
            _logger.warning("The lake could not be surveyed: %s", error)
            rows, problem = self._lake_rows, f"The lake could not be surveyed: {error}."
        with self._lock:
            self._lake_rows, self._lake_problem = rows, problem

    def _note_log_problem(self, problem: str) -> None:
        with self._lock:
            if problem != self._log_problem:
                _logger.warning("%s", problem)
            self._log_problem = problem


def _accepted(
    events: TopicIdentity | None,
    offsets: Mapping[tuple[str, int], int],
    source_ends: Mapping[tuple[str, int], int],
) -> int:
    """The sum of the end offsets of all source partitions, from the log or, if higher, a derived record."""
    ends = dict(source_ends)
    if events is not None:
        for (_, partition), offset in offsets.items():
            place = (events.topic_id, partition)
            ends[place] = max(ends.get(place, 0), offset)
    return sum(ends.values())
