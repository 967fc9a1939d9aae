"""The runtime of consumer and classic groups, turned by hand, and clients of both protocols to drive it.

It keeps the promises that the machines rely on (see `decision.py`), and has a log that can be loaded again,
whole or as compaction leaves it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from headrace.coordination.classic.groups import ClassicGroups
from headrace.coordination.classic.rebalance import ClassicSettings
from headrace.coordination.consumer.group import ConsumerGroup
from headrace.coordination.consumer.groups import ConsumerGroups
from headrace.coordination.consumer.records import CONSUMER_GROUP_KEYS
from headrace.coordination.consumer.requests import (
    ConsumerHeartbeatReply,
    ConsumerHeartbeatRequest,
    ConsumerSettings,
)
from headrace.coordination.decision import Decision, Record, Reply, TimerKey
from headrace.coordination.group import CONSUMER, Group
from headrace.coordination.replies import HeartbeatReply, LeaveReply
from headrace.coordination.requests import HeartbeatRequest, JoinRequest, LeaveRequest, SyncRequest
from headrace.coordination.topics import TopicInfo

GROUP = "readers"
REBALANCE_MS = 60_000

Owned = dict[UUID, frozenset[int]]


class FakeTopics:
    """Topics that tests make and delete."""

    def __init__(self, **partitions: int) -> None:
        self.version = 0
        self._topics: dict[str, TopicInfo] = {}
        for name, count in partitions.items():
            self.create(name, count)

    def create(self, name: str, partitions: int) -> UUID:
        self.version += 1
        topic_id = UUID(int=self.version)
        self._topics[name] = TopicInfo(name=name, topic_id=topic_id, partitions=partitions)
        return topic_id

    def delete(self, name: str) -> None:
        self.version += 1
        del self._topics[name]

    def grow(self, name: str, partitions: int) -> None:
        self.version += 1
        topic_id = self._topics[name].topic_id
        self._topics[name] = TopicInfo(name=name, topic_id=topic_id, partitions=partitions)

    def id(self, name: str) -> UUID:
        return self._topics[name].topic_id

    def names(self) -> Iterable[str]:
        return list(self._topics)

    def by_name(self, name: str) -> TopicInfo | None:
        return self._topics.get(name)

    def by_id(self, topic_id: UUID) -> TopicInfo | None:
        return next((topic for topic in self._topics.values() if topic.topic_id == topic_id), None)


class ConsumerRuntime:
    """One partition of the internal topic and the two machines of its groups."""

    def __init__(
        self,
        topics: FakeTopics,
        settings: ConsumerSettings | None = None,
        classic_settings: ClassicSettings | None = None,
    ) -> None:
        self.topics = topics
        self.settings = settings or ConsumerSettings()
        self.classic_settings = classic_settings or ClassicSettings(initial_rebalance_delay_ms=0)
        self.now_ms = 1_000_000
        self.log: list[Record] = []
        self.timers: dict[TimerKey, int] = {}
        self.answers: dict[int, Any] = {}
        self.fail_next_write = False
        self._requests = 0
        self._start()

    def _start(self) -> None:
        self.groups: dict[str, Group] = {}
        self.classic = ClassicGroups(self.groups, self.classic_settings)
        self.consumer = ConsumerGroups(
            self.groups,
            self.topics,
            self.classic,
            settings=lambda _group_id: self.settings,
            classic_settings=self.classic_settings,
        )

    def _replay(self, record: Record) -> None:
        ours = int.from_bytes(record.key[:2], "big") in CONSUMER_GROUP_KEYS
        (self.consumer if ours else self.classic).replay(record.key, record.value)

    def apply(self, decision: Decision[Any], *, waiting_id: int | None = None, group_id: str = GROUP) -> Any:
        """Carry out a decision; its reply."""
        answered: Decision[Reply] = decision
        if decision.records and self.fail_next_write:
            self.fail_next_write = False
            answered = self.consumer.write_failed(
                group_id, decision, ErrorCode.coordinator_not_available, self.now_ms
            )
            assert not answered.records
        for record in answered.records:
            self.log.append(record)
            self._replay(record)
        assert len({timer.key for timer in answered.timers}) == len(answered.timers)
        for timer in answered.timers:
            if timer.at_ms is None:
                self.timers.pop(timer.key, None)
            else:
                self.timers[timer.key] = timer.at_ms
        for other, reply in answered.replies:
            assert other not in self.answers
            self.answers[other] = reply
        if waiting_id is not None and answered.reply is not None:
            self.answers[waiting_id] = answered.reply
        self._run_due_timers()
        return answered.reply

    def _run_due_timers(self) -> None:
        """What is due at once happens before anything else is asked."""
        for key in [key for key, at_ms in self.timers.items() if at_ms <= self.now_ms]:
            if self.timers.pop(key, None) is not None:
                self._fire(key)

    def _fire(self, key: TimerKey) -> None:
        machine = self.classic if key[0] == "classic" else self.consumer
        self.apply(machine.timed_out(key, self.now_ms), group_id=str(key[2]))

    def reload(self) -> None:
        """The broker is killed and started again: timers and memory are gone, the log is not."""
        self.timers.clear()
        self._start()
        for record in self.log:
            self._replay(record)
        self.apply(self.classic.loaded(self.now_ms))
        self.apply(self.consumer.loaded(self.now_ms))

    def states_after_load(self, *, compacted: bool) -> dict[str, Any]:
        """What another broker would find in the log."""
        other = ConsumerRuntime(self.topics, self.settings, self.classic_settings)
        last = {record.key: place for place, record in enumerate(self.log)}
        for place, record in enumerate(self.log):
            if not compacted or (last[record.key] == place and record.value is not None):
                other._replay(record)
        return other.states()

    def states(self) -> dict[str, Any]:
        return {
            group_id: group.durable_state() if isinstance(group, ConsumerGroup) else group.settled  # type: ignore[attr-defined]
            for group_id, group in self.groups.items()
        }

    def advance(self, by_ms: int) -> None:
        """Let time pass; every timer fires at its moment."""
        end_ms = self.now_ms + by_ms
        while self.timers:
            key, at_ms = min(self.timers.items(), key=lambda item: (item[1], repr(item[0])))
            if at_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, at_ms)
            del self.timers[key]
            self._fire(key)
        self.now_ms = end_ms

    def group(self, group_id: str = GROUP) -> ConsumerGroup:
        group = self.consumer.group(group_id)
        assert group is not None
        return group

    def next_request(self) -> int:
        self._requests += 1
        return self._requests

    # Requests.

    def beat(self, member_id: str, epoch: int, **fields: Any) -> ConsumerHeartbeatReply:
        """ConsumerGroupHeartbeat."""
        request = ConsumerHeartbeatRequest(
            **{"group_id": GROUP, "client_id": "client", "client_host": "/127.0.0.1"} | fields,
            member_id=member_id,
            member_epoch=epoch,
        )
        unique = f"unique-{self.next_request()}"
        decision = self.consumer.decide_consumer_heartbeat(request, unique=unique, now_ms=self.now_ms)
        reply: ConsumerHeartbeatReply = self.apply(decision, group_id=request.group_id)
        return reply

    def join(self, member_id: str, *topics: str, **fields: Any) -> ConsumerHeartbeatReply:
        """The heartbeat of somebody who joins."""
        defaults: dict[str, Any] = {
            "rebalance_timeout_ms": REBALANCE_MS,
            "topic_names": frozenset(topics),
            "owned": {},
        }
        return self.beat(member_id, 0, **defaults | fields)

    def _machine(self, group_id: str) -> ClassicGroups | ConsumerGroups:
        group = self.groups.get(group_id)
        return self.consumer if group is not None and group.kind == CONSUMER else self.classic

    def ask_classic_join(self, request: JoinRequest) -> int:
        waiting_id = self.next_request()
        decision = self._machine(request.group_id).decide_join(
            request, waiting_id=waiting_id, unique=f"unique-{waiting_id}", now_ms=self.now_ms
        )
        self.apply(decision, waiting_id=waiting_id, group_id=request.group_id)
        return waiting_id

    def ask_classic_sync(self, request: SyncRequest) -> int:
        machine = self._machine(request.group_id)
        waiting_id = self.next_request()
        decision = (
            machine.decide_sync(request, now_ms=self.now_ms)
            if isinstance(machine, ConsumerGroups)
            else machine.decide_sync(request, waiting_id=waiting_id, now_ms=self.now_ms)
        )
        self.apply(decision, waiting_id=waiting_id, group_id=request.group_id)
        return waiting_id

    def classic_heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        machine = self._machine(request.group_id)
        reply: HeartbeatReply = self.apply(machine.decide_heartbeat(request, now_ms=self.now_ms))
        return reply.error

    def classic_leave(self, request: LeaveRequest) -> LeaveReply:
        machine = self._machine(request.group_id)
        reply: LeaveReply = self.apply(machine.decide_leave(request, now_ms=self.now_ms))
        return reply


@dataclass
class Consumer:
    """A client of the consumer protocol: it gives up first and says so, then it takes (KIP-848)."""

    runtime: ConsumerRuntime
    member_id: str
    topics: frozenset[str]
    expression: str | None = None
    instance_id: str | None = None
    epoch: int = 0
    owned: Owned = field(default_factory=dict)
    assigned: Owned = field(default_factory=dict)
    said: bool = True
    alive: bool = True
    changed: bool = False
    unsure: bool = False

    def beat(self, *, reply_is_lost: bool = False) -> ConsumerHeartbeatReply:
        """One heartbeat: a full one to join, and after a reply was lost; otherwise what changed."""
        full = self.epoch == 0 or self.changed or self.unsure
        reply = self.runtime.beat(
            self.member_id,
            self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=REBALANCE_MS if full else -1,
            topic_names=self.topics if full else None,
            topic_expression=self.expression if full else None,
            owned=dict(self.owned) if full or not self.said else None,
        )
        if reply_is_lost:
            self.unsure = True
            return reply
        self.said, self.changed, self.unsure = True, False, False
        if reply.error is ErrorCode.none:
            self.epoch = reply.member_epoch
            if reply.assignment is not None:
                self.assigned = dict(reply.assignment)
        elif reply.error in (ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id):
            # It gives up everything and joins again with the next heartbeat.
            self.epoch, self.owned, self.assigned = 0, {}, {}
        else:
            self.said = False
            self.changed = True
        return reply

    def give_up(self) -> None:
        """Stops reading what it is no longer assigned."""
        kept = {
            topic: numbers & self.assigned.get(topic, frozenset()) for topic, numbers in self.owned.items()
        }
        self._own({topic: numbers for topic, numbers in kept.items() if numbers})

    def take(self) -> None:
        """Begins to read what it is assigned, after it gave up what it is not.

        Not while a reply is missing: the broker may have been told that it does not have what it is about
        to take.
        """
        self.give_up()
        if self.unsure:
            return
        self._own(dict(self.assigned))

    def _own(self, owned: Owned) -> None:
        if owned != self.owned:
            self.owned = owned
            self.said = False

    def subscribe(self, topics: Iterable[str], expression: str | None = None) -> None:
        self.topics, self.expression = frozenset(topics), expression
        self.changed = True

    def leave(self, epoch: int = -1) -> ConsumerHeartbeatReply:
        reply = self.runtime.beat(self.member_id, epoch, instance_id=self.instance_id)
        self.alive = False
        self.owned, self.assigned = {}, {}
        return reply


def owned_partitions(consumers: Iterable[Consumer]) -> dict[tuple[UUID, int], str]:
    """Who reads what; fails where two read the same."""
    found: dict[tuple[UUID, int], str] = {}
    for consumer in consumers:
        for topic_id, numbers in consumer.owned.items():
            for number in numbers:
                assert (topic_id, number) not in found, f"{found[topic_id, number]} and {consumer.member_id}"
                found[topic_id, number] = consumer.member_id
    return found
