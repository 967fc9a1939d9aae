"""Reads output topics as they grow, each record once, and decodes them without the pipeline's own code."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import httpx

from headrace.client.cluster import Cluster
from headrace.client.errors import is_end
from headrace.client.reading import BEGINNING, PartitionReader
from tests.end_to_end.kills.expectations import Found
from tests.end_to_end.kills.statements import OutputTopic
from tests.running_platform import wait_for


class OutputReader:
    """All records of one topic, as far as `read` has come. Of no use once the topic has lost records."""

    def __init__(self, cluster: Cluster, registry_url: str, topic: OutputTopic) -> None:
        self.topic = topic
        self.records: list[Found] = []
        self._schemas: dict[int, Any] = {}
        self._registry_url = registry_url
        self._cluster = cluster
        # Where the next record of each partition would be, which a hole moves, too.
        self._positions = dict.fromkeys(cluster.end_offsets(topic.name), 0)
        self._reader = PartitionReader(cluster.bootstrap)
        self._reader.assign({(topic.name, number): BEGINNING for number in self._positions})

    def read(self) -> None:
        """Read up to the end."""
        ends = self._cluster.end_offsets(self.topic.name)
        wait_for(lambda: self._is_at(ends), f"the end of {self.topic.name} is read")

    def close(self) -> None:
        self._reader.close()

    def _is_at(self, ends: dict[int, int]) -> bool:
        while any(self._positions[number] < end for number, end in ends.items()):
            messages = self._reader.poll(1.0)
            if not messages:
                return False
            for message in messages:
                error, partition, offset = message.error(), message.partition() or 0, message.offset() or 0
                if error is None:
                    self.records.append(self._found(message))
                    self._positions[partition] = offset + 1
                else:
                    assert is_end(error), error
                    self._positions[partition] = max(offset, self._positions[partition])
        return True

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
