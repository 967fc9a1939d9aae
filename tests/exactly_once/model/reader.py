"""Stands in for the client's `PartitionReader`, so that the shipped code reads the model's log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from confluent_kafka import KafkaError

from headrace.lake.coordinates import SOURCE_HEADER
from tests.exactly_once.model.clauses import Clause
from tests.exactly_once.model.log import Log, Row


class Message:
    """A record, or the end of a partition."""

    def __init__(self, topic: str, partition: int, offset: int, row: Row | None) -> None:
        self._place = (topic, partition, offset)
        self._row = row

    def error(self) -> KafkaError | None:
        return KafkaError(KafkaError._PARTITION_EOF) if self._row is None else None

    def topic(self) -> str:
        return self._place[0]

    def partition(self) -> int:
        return self._place[1]

    def offset(self) -> int:
        return self._place[2]

    def key(self) -> bytes | None:
        return None if self._row is None else self._row.key.encode()

    def value(self) -> bytes | None:
        return None if self._row is None else self._row.value.encode()

    def headers(self) -> list[tuple[str, bytes]] | None:
        if self._row is None or not self._row.source:
            return None
        return [(SOURCE_HEADER, self._row.source.encode())]


def reader_class(log: Log, without: Clause | None, query: str) -> type:
    """`query` is the one that reads."""

    class ModelReader:
        def __init__(self, _bootstrap: str, *, only_committed: bool = True, **_: Any) -> None:
            self._only_committed = only_committed or without is Clause.READ_UNCOMMITTED
            self._messages: list[Message] = []

        def assign(self, starts: Mapping[tuple[str, int], int]) -> None:
            self._messages = []
            for (name, number), start in starts.items():
                partition = log.topics[name].partitions[number]
                end = partition.stable_end if self._only_committed else partition.end
                self._messages += [
                    Message(name, number, at, _as_seen(row)) for at, row in partition.read(start, end)
                ]
                self._messages.append(Message(name, number, max(partition.end, start), None))

        def poll(self, _timeout: float) -> list[Message]:
            messages, self._messages = self._messages, []
            return messages

        def close(self) -> None:
            pass

    def _as_seen(row: Row) -> Row:
        if without is not Clause.ONLY_ITS_OWN or not row.writer:
            return row
        return replace(row, source=row.source.replace(row.writer, query, 1))

    return ModelReader
