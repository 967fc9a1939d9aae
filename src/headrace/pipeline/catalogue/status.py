"""The status of each query, in the compacted topic `_pipeline_status`: key = query id, value = JSON.

The newest record of a key is the current status of that query; a reader that follows the topic sees every
batch of the lake. A record repeats what still holds from the earlier ones (`StatusLog`), so the newest is
complete. Progress is written every few seconds while a query advances or falls behind.

The compacted topic `_spark_plans` has Spark's plan of each query as text, which is empty between a query's
start and Spark's first plan for it. It is a separate topic because plans are long and rarely read (EXPLAIN).
"""

from __future__ import annotations

import dataclasses
import threading
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from headrace.client.cluster import Cluster
from headrace.client.topics import COMPACTED_SOON
from headrace.client.writing import Outgoing, RecordWriter

STATUS_TOPIC: Final = "_pipeline_status"
PLANS_TOPIC: Final = "_spark_plans"
# Well below the largest record that a broker accepts by default, 1 MiB.
LONGEST_PLAN: Final = 500_000
_WRITE_SECONDS: Final = 30.0

QueryState = Literal["WAITING", "RUNNING", "FAILED", "STOPPED"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Offsets of a source that expired before the query read them, from `first` up to, but without, `end`.

    `at` is when the query noticed, in milliseconds.
    """

    topic: str
    topic_id: str
    partition: int
    first: int
    end: int
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryProgress:
    """How far a running query is. Times in ms; `advanced_at` since the epoch."""

    # The next offset to read, by topic and partition; as of the last batch that ended.
    positions: dict[str, dict[int, int]]
    # At most so many records wait: offsets can have holes.
    behind_records: int
    # How long the oldest of them has waited, as far back as this pipeline process has watched.
    behind_ms: int
    advanced_at: int
    # Why it gets no turn although records wait; empty if it does.
    starved: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStatus:
    """The status of one query; for a query into the lake, also its newest batch."""

    query: str
    state: QueryState
    mode: str
    message: str
    at: int
    batch: int = -1
    rows: int = 0
    latency_quantiles_ms: tuple[float, ...] = ()
    # Why it runs in that mode, if there was a choice.
    mode_reason: str = ""
    # Task slots that it holds permanently.
    slots: int = 0
    # How often it has failed in a row; the message says why. One that runs well for a minute starts at 0.
    failures: int = 0
    # Why its newest commits are not in the log, although it runs; empty if they are.
    uncommitted: str = ""
    # Its newest gaps, the newest last.
    gaps: tuple[Gap, ...] = ()
    progress: QueryProgress | None = None
    # Of a query into the lake: the topic that it reads, and where its table is.
    source: str = ""
    table: str = ""

    @property
    def is_failing(self) -> bool:
        """Also between two failures, when it has just been restarted."""
        return self.state == "FAILED" or self.failures > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkPlan:
    """Spark's plan of a query since its last start; the text is empty until Spark has made one."""

    query: str
    text: str
    at: int


class StatusLog:
    """Writes statuses. Failing to write one does not stop a query: the next one follows. Safe for several
    threads.
    """

    def __init__(self, cluster: Cluster) -> None:
        for topic in (STATUS_TOPIC, PLANS_TOPIC):
            # Whoever starts reads these topics as a whole.
            if not cluster.create_topic(topic, partitions=1, config=COMPACTED_SOON):
                cluster.configure_topic(topic, COMPACTED_SOON)
        self._writer = RecordWriter(cluster.bootstrap, timeout_seconds=_WRITE_SECONDS)
        self._lock = threading.Lock()
        # By query; without latencies, which belong to one record: readers add them up.
        self._newest: dict[str, QueryStatus] = {}

    def write(self, status: QueryStatus) -> None:
        """A change of state, or a batch of the lake."""
        with self._lock:
            known = self._newest.get(status.query)
            if known is not None and status.state == "RUNNING":
                status = dataclasses.replace(status, progress=known.progress, gaps=status.gaps or known.gaps)
            self._keep(status)

    def write_batch(
        self, query: str, *, batch: int, rows: int, latency_quantiles_ms: tuple[float, ...], at: int
    ) -> None:
        """A batch of a query that runs."""
        with self._lock:
            known = self._newest.get(query)
            if known is not None:
                self._keep(
                    dataclasses.replace(
                        known, batch=batch, rows=rows, latency_quantiles_ms=latency_quantiles_ms, at=at
                    )
                )

    def write_progress(self, query: str, progress: QueryProgress, *, at: int) -> None:
        """The progress of a query that runs."""
        with self._lock:
            known = self._newest.get(query)
            if known is not None:
                self._keep(dataclasses.replace(known, progress=progress, at=at))

    def _keep(self, status: QueryStatus) -> None:
        self._newest[status.query] = dataclasses.replace(status, latency_quantiles_ms=())
        self._write(STATUS_TOPIC, status.query, msgspec.json.encode(status))

    def write_plan(self, plan: SparkPlan) -> None:
        self._write(PLANS_TOPIC, plan.query, msgspec.json.encode(plan))

    def forget(self, query: str) -> None:
        """Remove the status and the plan of a query that has been removed."""
        with self._lock:
            self._newest.pop(query, None)
        for topic in (STATUS_TOPIC, PLANS_TOPIC):
            self._write(topic, query, None)

    def close(self) -> None:
        self._writer.close()

    def _write(self, topic: str, query: str, value: bytes | None) -> None:
        self._writer.write_later(Outgoing(topic=topic, key=query.encode(), value=value))
