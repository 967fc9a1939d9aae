"""What becomes of each query, told through the log: the compacted topic `_pipeline_status`, key = query id,
value = JSON.

The newest record of a key is how that query is now; a reader that follows the topic sees every lake batch
pass by.

Beside it the compacted topic `_spark_plans`: how Spark runs each query, as text, empty between a query's
start and Spark's first plan for it. It is apart because it is long, and asked for rarely (EXPLAIN).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from headrace.client.cluster import Cluster
from headrace.client.topics import COMPACTED
from headrace.client.writing import Outgoing, RecordWriter

STATUS_TOPIC: Final = "_pipeline_status"
PLANS_TOPIC: Final = "_spark_plans"
# A record should stay well below what a broker takes by default, 1 MiB.
LONGEST_PLAN: Final = 500_000
_WRITE_SECONDS: Final = 30.0

QueryState = Literal["WAITING", "RUNNING", "FAILED", "STOPPED"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStatus:
    """How one query is, and for the lake query what its newest batch brought."""

    query: str
    state: QueryState
    mode: str
    message: str
    at: int
    batch: int = -1
    rows: int = 0
    latency_quantiles_ms: tuple[float, ...] = ()
    # Why it runs in that mode, as far as that was a choice.
    mode_reason: str = ""
    # Task slots that it holds for good.
    slots: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkPlan:
    """Spark's plan of a query since its last start; no text as long as Spark has made none."""

    query: str
    text: str
    at: int


class StatusLog:
    """Writes statuses. A status that cannot be written is not worth stopping a query for: the next one
    follows.
    """

    def __init__(self, cluster: Cluster) -> None:
        for topic in (STATUS_TOPIC, PLANS_TOPIC):
            cluster.create_topic(topic, partitions=1, config=COMPACTED)
        self._writer = RecordWriter(cluster.bootstrap, timeout_seconds=_WRITE_SECONDS)

    def write(self, status: QueryStatus) -> None:
        self._write(STATUS_TOPIC, status.query, msgspec.json.encode(status))

    def write_plan(self, plan: SparkPlan) -> None:
        self._write(PLANS_TOPIC, plan.query, msgspec.json.encode(plan))

    def forget(self, query: str) -> None:
        """Take back what was told of a query that is gone for good."""
        for topic in (STATUS_TOPIC, PLANS_TOPIC):
            self._write(topic, query, None)

    def close(self) -> None:
        self._writer.close()

    def _write(self, topic: str, query: str, value: bytes | None) -> None:
        self._writer.write_later(Outgoing(topic=topic, key=query.encode(), value=value))
