"""How each query stands, from its newest status in the log and from what the supervisor says of the pipeline.

A status that is older than the pipeline process says nothing about now: the process that wrote it is gone,
and the query has not been started again. Follows the status topic from the first question on. Safe for
several threads.
"""

from __future__ import annotations

import threading
import time
from typing import Final

import msgspec
import psutil

from headrace.assembly.platform_state import ProcessState, read_state
from headrace.client.cluster import Cluster
from headrace.client.followed import FollowedTopic
from headrace.client.reading import Record
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.pipeline.catalogue.status import STATUS_TOPIC, QueryStatus
from headrace.query.upstream import Standing

_PIPELINE: Final = "pipeline"
_LOOK_SECONDS: Final = 0.5
_STATE_SECONDS: Final = 0.1
_PATIENCE_SECONDS: Final = 3.0


class QueryStandings:
    """Of one platform."""

    def __init__(self, settings: Settings, cluster: Cluster) -> None:
        self._settings = settings
        self._cluster = cluster
        self._lock = threading.Lock()
        self._statuses: dict[str, QueryStatus] = {}
        self._topic: FollowedTopic | None = None
        self._looked = -_LOOK_SECONDS
        self._read = -_STATE_SECONDS
        self._pipeline: ProcessState | None = None
        # When the process with this pid began, in milliseconds.
        self._began: tuple[int, float] = (0, 0.0)

    def close(self) -> None:
        with self._lock:
            if self._topic is not None:
                self._topic.stop()

    def of(self, query: str) -> Standing:
        """Raises log_unavailable."""
        with self._lock:
            pipeline = self._newest_state()
            topic = self._followed()
        if pipeline is not None and pipeline.state != "running":
            return Standing(problem=f"the pipeline process is {pipeline.state}")
        if topic is None:
            return Standing(problem="it has not been started yet")
        with topic.progress:
            status = self._statuses.get(query)
        if status is None or (pipeline is not None and status.at < self._began_ms(pipeline)):
            return Standing(problem="it has not been started yet")
        if status.state != "RUNNING":
            message = f": {status.message}" if status.message else ""
            return Standing(problem=f"it is {status.state}{message}")
        return Standing(behind=status.progress.behind_records if status.progress is not None else 0)

    def _newest_state(self) -> ProcessState | None:
        """None if nobody supervises the pipeline: then what its queries have said last holds."""
        now = time.monotonic()
        if now >= self._read + _STATE_SECONDS:
            self._read = now
            state = read_state(self._settings)
            processes = state.processes if state is not None else ()
            self._pipeline = next((each for each in processes if each.name == _PIPELINE), None)
        return self._pipeline

    def _began_ms(self, pipeline: ProcessState) -> float:
        pid = pipeline.pid
        if pid is None:
            return 0.0
        known, began = self._began
        if known != pid:
            try:
                began = psutil.Process(pid).create_time() * 1000
            except psutil.Error:
                # It has just ended; the supervisor will say so.
                return time.time() * 1000
            self._began = (pid, began)
        return began

    def _followed(self) -> FollowedTopic | None:
        now = time.monotonic()
        if self._topic is None and now >= self._looked + _LOOK_SECONDS:
            self._looked = now
            # Following it would create it.
            if self._cluster.topic(STATUS_TOPIC) is not None:
                ends = self._cluster.end_offsets(STATUS_TOPIC)
                topic = FollowedTopic(self._settings.bootstrap, STATUS_TOPIC, self._fold)
                topic.start()
                if not topic.wait_until_read(ends, _PATIENCE_SECONDS):
                    topic.stop()
                    raise HeadraceError(
                        "log_unavailable",
                        f"The topic {STATUS_TOPIC} could not be read within {_PATIENCE_SECONDS:g} s.",
                        remedy="Ask again. `headrace status` shows whether the log runs.",
                    )
                self._topic = topic
        return self._topic

    def _fold(self, record: Record) -> None:
        key = (record.key() or b"").decode("utf-8", "replace")
        value = record.value()
        if value is None:
            self._statuses.pop(key, None)
            return
        try:
            self._statuses[key] = msgspec.json.decode(value, type=QueryStatus)
        except msgspec.DecodeError:
            # Of another version: as if it had said nothing.
            self._statuses.pop(key, None)
