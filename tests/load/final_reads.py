"""What the log says in the end: all partitions at both isolation levels, all groups' committed offsets."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from headrace.testing.history import CommittedOffsetsRead, FinalRead, HistoryWriter, now, partition_name

CLIENT = "final reader"
READ_SECONDS = 120.0


def read_everything(
    history: HistoryWriter,
    bootstrap: str,
    topic: str,
    partitions: int,
    groups: Iterable[str],
    *,
    settle_seconds: float,
) -> None:
    """Waits so long for open transactions to end; what is open then is in the history, as a committed read
    that ends early."""
    ends: dict[int, int] = {}
    for read_committed in (False, True):
        logs = _read(bootstrap, topic, partitions, ends, settle_seconds, read_committed=read_committed)
        for number, (records, end) in logs.items():
            ends[number] = end
            history.write(
                FinalRead(
                    client=CLIENT,
                    partition=partition_name(topic, number),
                    read_committed=read_committed,
                    start=0,
                    end=end,
                    records=tuple(records),
                )
            )
    for group in groups:
        asked = now()
        offsets = committed_offsets(bootstrap, topic, partitions, group)
        history.write(CommittedOffsetsRead(client=CLIENT, group=group, offsets=offsets, asked=asked))


def committed_offsets(bootstrap: str, topic: str, partitions: int, group: str) -> dict[str, int | None]:
    consumer = _consumer(bootstrap, group, read_committed=True)
    try:
        found = {}
        for each in consumer.committed([TopicPartition(topic, number) for number in range(partitions)], 30):
            if each.error is not None:
                raise KafkaException(each.error)
            found[partition_name(topic, each.partition)] = each.offset if each.offset >= 0 else None
        return found
    finally:
        consumer.close()


def _read(
    bootstrap: str,
    topic: str,
    partitions: int,
    ends: dict[int, int],
    settle_seconds: float,
    *,
    read_committed: bool,
) -> dict[int, tuple[list[tuple[int, str]], int]]:
    """Per partition its records and its end: as far as `ends` or, if that is not to be had, as far as it
    goes."""
    consumer = _consumer(bootstrap, "nobody", read_committed=read_committed)
    records: dict[int, list[tuple[int, str]]] = {number: [] for number in range(partitions)}
    found: dict[int, int] = {}
    deadline = time.monotonic() + READ_SECONDS
    settled = time.monotonic() + settle_seconds
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        while len(found) < partitions or (
            time.monotonic() < settled and any(found[number] < end for number, end in ends.items())
        ):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the log cannot be read to its end, only {found}")
            for message in consumer.consume(1_000, 0.1):
                number, error = message.partition(), message.error()
                if error is None:
                    records[number].append((message.offset(), message.value().decode()))
                elif error.code() == KafkaError._PARTITION_EOF:
                    found[number] = message.offset()
                else:
                    raise KafkaException(error)
        return {number: (records[number], found[number]) for number in found}
    finally:
        consumer.close()


def _consumer(bootstrap: str, group: str, *, read_committed: bool) -> Any:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed" if read_committed else "read_uncommitted",
            "log_level": 0,
        }
    )
