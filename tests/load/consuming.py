"""A consumer: on its own with seeks, or a member of a group of either protocol that commits what it has read.

A member asks for the committed offset of every partition that it is given and begins there, so that the
history says where it should have begun. Records are taken one by one: a rebalance happens inside of a poll,
and what was given before it must be written down before it.
"""

from __future__ import annotations

import time
from typing import Any, Literal

from confluent_kafka import Consumer, KafkaException, TopicPartition

from headrace.testing.history import (
    Assigned,
    CommittedOffsetsRead,
    ConsumerStarted,
    OffsetCommitEnded,
    OffsetCommitInvoked,
    Polled,
    Revoked,
    Sought,
    now,
    partition_name,
)
from tests.load.client import Life, error_of, main

ASK_SECONDS = 10.0


class Reader:
    def __init__(self, life: Life) -> None:
        self.life, self.plan, self.history, self.random = life, life.plan, life.history, life.random
        self.positions: dict[int, int] = {}
        self.uncommitted: set[int] = set()
        self.gathered: dict[int, list[tuple[int, str]]] = {}
        self.commits = 0
        self.consumer = Consumer(self._settings())

    def run(self) -> None:
        self.history.write(
            ConsumerStarted(
                client=self.plan.name, read_committed=self.plan.read_committed, group=self.plan.group
            )
        )
        if self.plan.group is None:
            self.assign_all()
        else:
            self.consumer.subscribe(
                [self.plan.topic], on_assign=self.on_assign, on_revoke=self.on_revoke, on_lost=self.on_lost
            )
        while self.life.goes_on():
            self.gather(0.05)
            self.write_down()
            if self.plan.group is None:
                if self.random.random() < 0.02:
                    self.seek()
            elif self.random.random() < 0.2:
                self.commit(set(self.uncommitted))
        self.consumer.close()
        self.write_down()

    def gather(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            message = self.consumer.poll(min(left, 0.05))
            if message is None:
                continue
            if message.error() is not None:
                self.life.complain(message.error(), fatal=False)
                continue
            partition, offset = message.partition(), message.offset()
            self.gathered.setdefault(partition, []).append((offset, message.value().decode()))
            self.positions[partition] = offset + 1
            self.uncommitted.add(partition)

    def write_down(self) -> None:
        for partition, records in self.gathered.items():
            self.history.write(
                Polled(client=self.plan.name, partition=self.name(partition), records=tuple(records))
            )
        self.gathered = {}

    # On its own

    def assign_all(self) -> None:
        whole = range(self.plan.partitions)
        for partition in whole:
            self.positions[partition] = 0
            self.history.write(Assigned(client=self.plan.name, partition=self.name(partition), offset=0))
        self.consumer.assign([TopicPartition(self.plan.topic, partition, 0) for partition in whole])

    def seek(self) -> None:
        partition = self.random.choice(list(self.positions))
        offset = max(0, self.positions[partition] - self.random.randint(0, 200))
        self.history.write(Sought(client=self.plan.name, partition=self.name(partition), offset=offset))
        self.consumer.seek(TopicPartition(self.plan.topic, partition, offset))
        self.positions[partition] = offset

    # In a group

    def on_assign(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        self.write_down()
        asked = now()
        starts: dict[int, int | None] = {}
        try:
            for each in consumer.committed(partitions, ASK_SECONDS):
                if each.error is not None:
                    raise KafkaException(each.error)
                starts[each.partition] = each.offset if each.offset >= 0 else None
        except KafkaException as exception:
            # The broker is down just now: librdkafka asks again and begins there, we do not know where.
            self.life.complain(error_of(exception), fatal=False)
            starts = {}
        else:
            self.history.write(
                CommittedOffsetsRead(
                    client=self.plan.name,
                    group=self.plan.group or "",
                    offsets={self.name(number): offset for number, offset in starts.items()},
                    asked=asked,
                )
            )
            for each in partitions:
                each.offset = starts[each.partition] or 0
        for each in partitions:
            self.positions.pop(each.partition, None)
            known = each.offset if starts else None
            self.history.write(
                Assigned(client=self.plan.name, partition=self.name(each.partition), offset=known)
            )
        if self.plan.protocol == "classic":
            consumer.assign(partitions)
        else:
            consumer.incremental_assign(partitions)

    def on_revoke(self, _consumer: Any, partitions: list[TopicPartition]) -> None:
        self.write_down()
        self.commit(self.uncommitted & {each.partition for each in partitions})
        self.forget(partitions)

    def on_lost(self, _consumer: Any, partitions: list[TopicPartition]) -> None:
        self.write_down()
        self.forget(partitions)

    def forget(self, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self.positions.pop(each.partition, None)
            self.uncommitted.discard(each.partition)
            self.history.write(Revoked(client=self.plan.name, partition=self.name(each.partition)))

    def commit(self, partitions: set[int]) -> None:
        if not partitions:
            return
        self.commits += 1
        name = f"{self.plan.name}/{self.commits}"
        offsets = {number: self.positions[number] for number in partitions}
        self.history.write(
            OffsetCommitInvoked(
                client=self.plan.name,
                group=self.plan.group or "",
                commit=name,
                offsets={self.name(number): offset for number, offset in offsets.items()},
            )
        )
        outcome: Literal["committed", "unknown"] = "committed"
        error = ""
        try:
            answers = self.consumer.commit(
                offsets=[
                    TopicPartition(self.plan.topic, number, offset) for number, offset in offsets.items()
                ],
                asynchronous=False,
            )
            errors = [each.error for each in answers or () if each.error is not None]
        except KafkaException as exception:
            errors = [error_of(exception)]
        if errors:
            # Never refused for sure: librdkafka repeats a commit whose answer was lost, and what refuses
            # the second request says nothing of the first.
            error = ", ".join(sorted({each.name() for each in errors}))
            outcome = "unknown"
        else:
            self.uncommitted -= partitions
        self.history.write(
            OffsetCommitEnded(client=self.plan.name, commit=name, outcome=outcome, error=error)
        )

    def name(self, partition: int) -> str:
        return partition_name(self.plan.topic, partition)

    def _settings(self) -> dict[str, Any]:
        settings = self.life.settings(
            group_id=self.plan.group or "nobody",
            enable_auto_commit=False,
            auto_offset_reset="earliest" if self.plan.group else "error",
            isolation_level="read_committed" if self.plan.read_committed else "read_uncommitted",
            fetch_wait_max_ms=100,
            check_crcs=True,
        )
        if self.plan.protocol == "consumer":
            settings["group.protocol"] = "consumer"
        elif self.plan.group is not None:
            settings["session.timeout.ms"] = 3_000
            settings["heartbeat.interval.ms"] = 300
            cooperative = self.plan.protocol == "cooperative"
            settings["partition.assignment.strategy"] = "cooperative-sticky" if cooperative else "range"
        return settings


def run(life: Life) -> None:
    Reader(life).run()


if __name__ == "__main__":
    main(run)
