"""Stands in for the client's readers, so that the shipped code reads the model's log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from confluent_kafka import KafkaError

from headrace.client.topics import Partition as Place
from headrace.client.topics import TopicIdentity
from headrace.lake.coordinates import SOURCE_HEADER
from headrace.wire.record_batch import BatchHeader
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


class ModelCluster:
    """What `witnesses.py` asks of a cluster."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def earliest(self, topics: Iterable[TopicIdentity]) -> dict[Place, int]:
        return {
            (topic.name, number): partition.start
            for topic in topics
            for number, partition in enumerate(self._log.topics[topic.name].partitions)
        }

    def close(self) -> None:
        pass


def batch_reader_class(log: Log, without: Clause | None) -> type:
    class ModelBatchReader:
        def __init__(self, _cluster: ModelCluster, *, only_committed: bool) -> None:
            assert not only_committed

        def headers(self, topic: TopicIdentity, number: int, offset: int) -> list[BatchHeader]:
            return [
                _header(first, last, 0 if without is Clause.GAPS_WITHIN_AN_EPOCH else epoch, is_hole=is_hole)
                for first, last, epoch, is_hole in log.topics[topic.name].partitions[number].batches(offset)
            ]

        def close(self) -> None:
            pass

    return ModelBatchReader


def _header(first: int, last: int, epoch: int, *, is_hole: bool) -> BatchHeader:
    return BatchHeader(
        base_offset=first,
        length=0,
        leader_epoch=epoch,
        magic=2,
        crc=0,
        attributes=0,
        last_offset_delta=last - first,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=-1 if is_hole else 7,
        producer_epoch=0,
        base_sequence=0,
        record_count=0 if is_hole else 1,
    )
