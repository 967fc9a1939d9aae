"""A topic that a query writes, on a real log."""

from __future__ import annotations

import uuid

from confluent_kafka import Producer

from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.pipeline.runs.reading_back import ReadBack, read_back
from headrace.pipeline.runs.witnesses import has_records

SOURCE = "3Zk0c9mDQ8uJ1x5vX0qg5A"


class Sink:
    """A topic of two partitions."""

    def __init__(self, bootstrap: str) -> None:
        self.cluster = Cluster(bootstrap)
        name = f"sink_{uuid.uuid4().hex[:8]}"
        self.cluster.create_topic(name, partitions=2)
        self.topic: TopicIdentity = self.cluster.lookup([name])[name]
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})

    def reconnect(self, bootstrap: str) -> None:
        """The log was restarted."""
        self.cluster = Cluster(bootstrap)
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})

    def write(self, partition: int, *identities: str, producer: Producer | None = None) -> None:
        used = producer or self._producer
        for identity in identities:
            used.produce(
                self.topic.name,
                b"row",
                partition=partition,
                headers=[("other", b"1"), ("headrace-source", identity.encode())],
            )
        assert used.flush(120) == 0

    def read_back(self, *, sinks_from: dict[int, int], positions: dict[int, int]) -> ReadBack:
        return read_back(
            self.cluster.bootstrap,
            query="Q",
            sinks=[self.topic],
            sinks_from={self.topic.topic_id: sinks_from},
            ends=self.cluster.latest([self.topic]),
            positions={SOURCE: positions},
        )

    def has(self, partition: int, offset: int) -> bool:
        offsets = {self.topic.topic_id: {partition: offset}}
        return has_records(self.cluster.bootstrap, [self.topic], offsets)
