"""Members of a group: consumers that nobody here wrote, behind one small face.

In this process (librdkafka, kafka-python, Java's client), or, to be killed and frozen, in one of their own
(`MemberProcess`). What a member has is what its client says it has.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import confluent_kafka
import kafka as kafka_python
from kafka.coordinator.assignors.range import RangePartitionAssignor

from tests.conformance.engines import Engine
from tests.conformance.java_tools import JavaTools
from tests.freezing import freeze

DESCRIBE_GROUPS, CONSUMER_GROUP_DESCRIBE = 15, 69
SETTLE_TIMEOUT = 90.0
# The shortest session that brokers allow, and heartbeats that learn of a rebalance soon.
SESSION_MS = 6_000
HEARTBEAT_MS = 300

# Where a record stood: partition and offset.
Place = tuple[int, int]


class Member(Protocol):
    """A member of a group that reads one topic. `poll` it, or it is dead to its group after a while."""

    read: list[Place]

    @property
    def assigned(self) -> frozenset[int]: ...

    def poll(self) -> None:
        """Let the client do its work for a moment, and note what it reads."""

    def close(self) -> None:
        """Leave the group."""


class LibrdkafkaMember:
    """confluent-kafka. `revoked` has every set of partitions that was taken from it, if it is `watched`."""

    def __init__(
        self, engine: Engine, group_id: str, topic: str, *, watched: bool = False, **settings: Any
    ) -> None:
        self.read: list[Place] = []
        self.revoked: list[frozenset[int]] = []
        self.consumer = confluent_kafka.Consumer(librdkafka_settings(engine, group_id, settings))
        self._closed = False
        if watched:
            self.consumer.subscribe([topic], on_revoke=self._revoke, on_lost=self._revoke)
        else:
            self.consumer.subscribe([topic])

    def _revoke(self, _consumer: Any, partitions: Iterable[Any]) -> None:
        self.revoked.append(frozenset(each.partition for each in partitions))

    @property
    def assigned(self) -> frozenset[int]:
        return frozenset(each.partition for each in self.consumer.assignment())

    def poll(self) -> None:
        for message in self.consumer.consume(100, 0.02):
            if message.error() is None:
                self.read.append((message.partition(), message.offset()))
            elif message.error().fatal():
                raise confluent_kafka.KafkaException(message.error())

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            leave(self.consumer)


def leave(consumer: Any) -> None:
    """Close, with nothing left to poll for: of a rebalance that the application has not heard of yet it hears
    while it closes, and waits for good if the broker has answered by then that it left."""
    while consumer.poll(0.01) is not None:
        pass
    consumer.close()


def librdkafka_settings(engine: Engine, group_id: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """What is changed to None is left out."""
    settings = {
        "bootstrap.servers": engine.bootstrap,
        "group.id": group_id,
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 100,
        "topic.metadata.refresh.interval.ms": 1000,
    } | dict(changes)
    return {name: value for name, value in settings.items() if value is not None}


def consumer_protocol(**more: Any) -> dict[str, Any]:
    """Settings for the newer protocol: what the broker decides must not be set."""
    return {"group.protocol": "consumer", "session.timeout.ms": None, "heartbeat.interval.ms": None} | more


class KafkaPythonMember:
    """kafka-python, polled by a thread of its own with all the time in the world: one that is polled for a
    moment only can miss the end of a rebalance, and is out of its group for good."""

    def __init__(self, engine: Engine, group_id: str, topic: str, **settings: Any) -> None:
        self.read: list[Place] = []
        chosen = {
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "fetch_max_wait_ms": 100,
            "partition_assignment_strategy": [RangePartitionAssignor],
        } | settings
        self.consumer = kafka_python.KafkaConsumer(
            topic, bootstrap_servers=engine.bootstrap, group_id=group_id, **chosen
        )
        self._ended = False
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        while not self._ended:
            for records in self.consumer.poll(1000).values():
                self.read += [(each.partition, each.offset) for each in records]

    @property
    def assigned(self) -> frozenset[int]:
        return frozenset(each.partition for each in self.consumer.assignment())

    def poll(self) -> None:
        assert self._thread.is_alive(), "the thread of the member has ended"
        time.sleep(0.01)

    def close(self) -> None:
        self._ended = True
        self._thread.join(60)
        self.consumer.close(autocommit=False)


class JavaMember:
    """Apache Kafka's own consumer, of either protocol."""

    def __init__(self, tools: JavaTools, engine: Engine, group_id: str, topic: str, **settings: str) -> None:
        self.read: list[Place] = []
        self._jvm = tools.jvm
        self._topic = topic
        chosen = {
            "bootstrap.servers": engine.bootstrap,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            "fetch.max.wait.ms": "100",
        }
        if settings.get("group.protocol") != "consumer":
            chosen |= {"session.timeout.ms": str(SESSION_MS), "heartbeat.interval.ms": str(HEARTBEAT_MS)}
        deserializer = self._jvm.org.apache.kafka.common.serialization.ByteArrayDeserializer()
        self.consumer = self._jvm.org.apache.kafka.clients.consumer.KafkaConsumer(
            chosen | settings, deserializer, deserializer
        )
        self.consumer.subscribe([topic])

    @property
    def assigned(self) -> frozenset[int]:
        return frozenset(each.partition() for each in self.consumer.assignment())

    def poll(self) -> None:
        iterator = self.consumer.poll(self._jvm.java.time.Duration.ofMillis(20)).iterator()
        while iterator.hasNext():
            record = iterator.next()
            self.read.append((record.partition(), record.offset()))

    def close(self) -> None:
        self.consumer.close()


class MemberProcess:
    """A librdkafka consumer in a process of its own (see the end of this file), to be killed or frozen."""

    def __init__(self, engine: Engine, group_id: str, topic: str, **settings: Any) -> None:
        self.read: list[Place] = []
        self._assigned: frozenset[int] = frozenset()
        chosen = librdkafka_settings(engine, group_id, settings)
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, topic, json.dumps(chosen)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            what, content = json.loads(line)
            if what == "assigned":
                self._assigned = frozenset(content)
            else:
                self.read.append((content[0], content[1]))

    @property
    def assigned(self) -> frozenset[int]:
        return self._assigned

    def poll(self) -> None:
        assert self._process.poll() is None, "the member's process has ended"

    def freeze(self) -> None:
        freeze(self._process.pid)

    def thaw(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Without a word to the broker."""
        self._process.kill()
        self._end()

    def close(self) -> None:
        if self._process.stdin is not None and not self._process.stdin.closed:
            os.kill(self._process.pid, signal.SIGCONT)
            self._process.stdin.close()
            self._end()

    def _end(self) -> None:
        self._process.wait(60)
        self._listener.join(60)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


def group_state(engine: Engine, group_id: str) -> str:
    """As the broker sees it, in either protocol."""
    with engine.connect() as client:
        classic = client.ask(DESCRIBE_GROUPS, 6, groups=[group_id]).groups[0]
        if classic.error_code == 0:
            return str(classic.group_state)
        newer = client.ask(CONSUMER_GROUP_DESCRIBE, 0, group_ids=[group_id]).groups[0]
        return str(newer.group_state) if newer.error_code == 0 else "Dead"


def settle(engine: Engine, group_id: str, members: Sequence[Member], partitions: int) -> None:
    """Poll all until each partition has one member, in equal parts, and the broker calls it stable."""

    def settled() -> bool:
        assigned = [member.assigned for member in members]
        counts = sorted(len(each) for each in assigned)
        whole = sum(counts) == partitions and frozenset().union(*assigned) == frozenset(range(partitions))
        return whole and counts[-1] - counts[0] <= 1 and group_state(engine, group_id) == "Stable"

    poll_until(members, settled)


def poll_until(
    members: Sequence[Member], condition: Callable[[], bool], timeout: float = SETTLE_TIMEOUT
) -> None:
    deadline = time.monotonic() + timeout
    while True:
        for member in members:
            member.poll()
        if condition():
            return
        assert time.monotonic() < deadline, [sorted(member.assigned) for member in members]
        if all(isinstance(member, MemberProcess) for member in members):
            time.sleep(0.02)


def _be_a_member(topic: str, settings: dict[str, Any]) -> None:
    """Until the standard input ends."""
    ended = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        ended.set()

    def say(what: str, content: Sequence[int]) -> None:
        print(json.dumps([what, list(content)]), flush=True)

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe([topic])
    assigned: frozenset[int] = frozenset()
    while not ended.is_set():
        message = consumer.poll(0.05)
        now = frozenset(each.partition for each in consumer.assignment())
        if now != assigned:
            assigned = now
            say("assigned", sorted(assigned))
        if message is not None and message.error() is None:
            say("read", (message.partition(), message.offset()))
            if settings.get("enable.auto.commit") is False:
                consumer.commit(message, asynchronous=False)
    leave(consumer)


if __name__ == "__main__":
    _be_a_member(sys.argv[1], json.loads(sys.argv[2]))
