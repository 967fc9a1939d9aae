"""What becomes of each query, told through the log: the compacted topic `_pipeline_status`, key = query id,
value = JSON.

The newest record of a key is how that query is now; a reader that follows the topic sees every lake batch
pass by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import msgspec
from confluent_kafka import Producer

from headrace.pipeline.topics import TopicDirectory

STATUS_TOPIC: Final = "_pipeline_status"

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


class StatusLog:
    """Writes statuses. A status that cannot be written is not worth stopping a query for: the next one
    follows.
    """

    def __init__(self, bootstrap: str, topics: TopicDirectory) -> None:
        topics.ensure(STATUS_TOPIC, partitions=1, config={"cleanup.policy": "compact"})
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 5, "message.timeout.ms": 30_000}
        )

    def write(self, status: QueryStatus) -> None:
        self._producer.produce(STATUS_TOPIC, key=status.query, value=msgspec.json.encode(status))
        self._producer.poll(0)

    def close(self) -> None:
        self._producer.flush(5.0)
