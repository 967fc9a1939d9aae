"""Reads output topics as they grow, each record once, and decodes them without the pipeline's own code."""

from __future__ import annotations

import io
import json
import uuid
from typing import Any

import fastavro
import httpx
from confluent_kafka import Consumer, TopicPartition

from headrace.client.cluster import Cluster
from tests.end_to_end.kills.expectations import Found
from tests.end_to_end.kills.statements import OutputTopic
from tests.running_platform import wait_for


class OutputReader:
    """All records of one topic, as far as `read` has come."""

    def __init__(self, bootstrap: str, registry_url: str, topic: OutputTopic) -> None:
        self.topic = topic
        self.records: list[Found] = []
        self._schemas: dict[int, Any] = {}
        self._registry_url = registry_url
        self._bootstrap = bootstrap
        self._consumer: Any = None
        self._positions: dict[int, int] = {}

    def read(self) -> int:
        """Read up to the end; gives how many records there are."""
        if self._consumer is None:
            self._consumer = self._assigned()
        ends = {number: self._end(number) for number in self._positions}
        wait_for(lambda: self._is_at(ends), f"the end of {self.topic.name} is read")
        return len(self.records)

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()

    def _assigned(self) -> Any:
        cluster = Cluster(self._bootstrap)
        name = self.topic.name
        found = wait_for(lambda: cluster.lookup([name]), f"the topic {name} is there")
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": uuid.uuid4().hex,
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 20,
            }
        )
        self._positions = dict.fromkeys(range(found[name].partitions), 0)
        consumer.assign([TopicPartition(name, number, 0) for number in self._positions])
        return consumer

    def _end(self, partition: int) -> int:
        _, end = self._consumer.get_watermark_offsets(TopicPartition(self.topic.name, partition), 30)
        return int(end)

    def _is_at(self, ends: dict[int, int]) -> bool:
        if all(self._positions[number] >= end for number, end in ends.items()):
            return True
        for message in self._consumer.consume(1000, 0.05):
            assert message.error() is None, message.error()
            self.records.append(self._found(message))
            self._positions[message.partition()] = message.offset() + 1
        return False

    def _found(self, message: Any) -> Found:
        raw = message.key()
        size = self.topic.window_bytes
        plain, behind = (raw[:-size], raw[-size:]) if size else (raw, b"")
        key = int.from_bytes(plain, "big") if self.topic.has_number_key else plain.decode()
        # Kafka Streams writes the end of a session before its start.
        parts = [int.from_bytes(behind[place : place + 8], "big") for place in range(0, size, 8)]
        return Found(key=key, window=tuple(reversed(parts)), value=self._value(message.value()))

    def _value(self, raw: bytes | None) -> dict[str, Any] | None:
        if raw is None:
            return None
        if self.topic.value_format == "JSON":
            decoded: dict[str, Any] = json.loads(raw)
            return decoded
        assert raw[0] == 0, raw
        schema = self._schema(int.from_bytes(raw[1:5], "big"))
        record: Any = fastavro.schemaless_reader(io.BytesIO(raw[5:]), schema, None)
        return dict(record)

    def _schema(self, number: int) -> Any:
        if number not in self._schemas:
            answer = httpx.get(f"{self._registry_url}/schemas/ids/{number}", timeout=30, trust_env=False)
            answer.raise_for_status()
            self._schemas[number] = fastavro.parse_schema(json.loads(answer.json()["schema"]))
        return self._schemas[number]
