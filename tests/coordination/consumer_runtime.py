"""Requests about groups of both kinds to a shard of the broker, and a client of the consumer protocol."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from headrace.broker.coordinators.group_machines import GroupMachines, GroupSettings
from headrace.broker.coordinators.shards import load
from headrace.coordination.classic.rebalance import ClassicSettings
from headrace.coordination.consumer.group import ConsumerGroup
from headrace.coordination.consumer.groups import ConsumerGroups
from headrace.coordination.consumer.requests import (
    ConsumerHeartbeatReply,
    ConsumerHeartbeatRequest,
    ConsumerSettings,
)
from headrace.coordination.group import Group
from headrace.coordination.offsets import OffsetSettings
from headrace.coordination.replies import HeartbeatReply, LeaveReply
from headrace.coordination.requests import HeartbeatRequest, JoinRequest, LeaveRequest, SyncRequest
from tests.coordination.fake_topics import FakeTopics
from tests.coordination.memory_shard import ShardRuntime, event_loop

GROUP = "readers"
REBALANCE_MS = 60_000
YEAR_MS = 365 * 24 * 60 * 60 * 1000

Owned = dict[UUID, frozenset[int]]


class ConsumerRuntime(ShardRuntime[GroupMachines]):
    """The shard of a broker with groups of both kinds, which do not expire for lack of offsets."""

    def __init__(
        self,
        topics: FakeTopics,
        settings: ConsumerSettings | None = None,
        classic_settings: ClassicSettings | None = None,
    ) -> None:
        self.topics = topics
        self._settings = GroupSettings(
            classic=classic_settings or ClassicSettings(initial_rebalance_delay_ms=0),
            consumer=settings or ConsumerSettings(),
            offsets=OffsetSettings(retention_check_interval_ms=YEAR_MS),
        )
        self._uniques = itertools.count(1)
        super().__init__(self._machines, now_ms=1_000_000)

    def _machines(self) -> GroupMachines:
        return GroupMachines(self._settings, self.topics, 0)

    @property
    def groups(self) -> dict[str, Group]:
        return self.machines.groups

    @property
    def consumer(self) -> ConsumerGroups:
        return self.machines.consumer

    def restart(self, settings: ConsumerSettings) -> None:
        """Restart the broker with other settings."""
        self._settings = replace(self._settings, consumer=settings)
        self.reload()

    def states_after_load(self, *, compacted: bool) -> dict[str, Any]:
        """What another broker would find in the log."""
        machines = self._machines()
        event_loop().run_until_complete(load(self.log.compacted() if compacted else self.log, machines))
        return _states(machines)

    def states(self) -> dict[str, Any]:
        return _states(self.machines)

    def group(self, group_id: str = GROUP) -> ConsumerGroup:
        group = self.consumer.group(group_id)
        assert group is not None
        return group

    # Requests.

    def beat(self, member_id: str, epoch: int, **fields: Any) -> ConsumerHeartbeatReply:
        """ConsumerGroupHeartbeat."""
        request = ConsumerHeartbeatRequest(
            **{"group_id": GROUP, "client_id": "client", "client_host": "/127.0.0.1"} | fields,
            member_id=member_id,
            member_epoch=epoch,
        )
        unique = f"unique-{next(self._uniques)}"
        decision = self.consumer.decide_consumer_heartbeat(request, unique=unique, now_ms=self.now_ms)
        reply: ConsumerHeartbeatReply = self.apply(decision, request.group_id)
        return reply

    def join(self, member_id: str, *topics: str, **fields: Any) -> ConsumerHeartbeatReply:
        """The heartbeat of a member that joins."""
        defaults: dict[str, Any] = {
            "rebalance_timeout_ms": REBALANCE_MS,
            "topic_names": frozenset(topics),
            "owned": {},
        }
        return self.beat(member_id, 0, **defaults | fields)

    def ask_classic_join(self, request: JoinRequest) -> int:
        unique = UUID(int=next(self._uniques))
        return self.ask(
            lambda waiting_id: self.machines.decide_join(
                request, waiting_id=waiting_id, unique=unique, now_ms=self.now_ms
            ),
            request.group_id,
        )

    def ask_classic_sync(self, request: SyncRequest) -> int:
        return self.ask(
            lambda waiting_id: self.machines.decide_sync(request, waiting_id=waiting_id, now_ms=self.now_ms),
            request.group_id,
        )

    def classic_heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        decision = self.machines.decide_heartbeat(request, now_ms=self.now_ms)
        reply: HeartbeatReply = self.apply(decision, request.group_id)
        return reply.error

    def classic_leave(self, request: LeaveRequest) -> LeaveReply:
        decision = self.machines.decide_leave(request, now_ms=self.now_ms)
        reply: LeaveReply = self.apply(decision, request.group_id)
        return reply


def _states(machines: GroupMachines) -> dict[str, Any]:
    return {
        group_id: group.durable_state() if isinstance(group, ConsumerGroup) else group.settled  # type: ignore[attr-defined]
        for group_id, group in machines.groups.items()
    }


@dataclass
class Consumer:
    """A client of the consumer protocol: it first gives up partitions and says so, then takes new ones."""

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
        """Send a heartbeat: a full one to join and after a lost reply, otherwise only what changed."""
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
            # Give up everything and join again with the next heartbeat.
            self.epoch, self.owned, self.assigned = 0, {}, {}
        elif reply.error is ErrorCode.group_id_not_found:
            # It was away for so long that the group became a classic one, which knows no such member. For
            # Java's client, as for Kafka's coordinator, that is the end; its application starts another one.
            self.epoch, self.owned, self.assigned = 0, {}, {}
        else:
            self.said = False
            self.changed = True
        return reply

    def give_up(self) -> None:
        """Stop reading what is no longer assigned to it."""
        kept = {
            topic: numbers & self.assigned.get(topic, frozenset()) for topic, numbers in self.owned.items()
        }
        self._own({topic: numbers for topic, numbers in kept.items() if numbers})

    def take(self) -> None:
        """Begin to read what is assigned to it, after giving up the rest.

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
    """The reader of each partition. Fails if two read the same."""
    found: dict[tuple[UUID, int], str] = {}
    for consumer in consumers:
        for topic_id, numbers in consumer.owned.items():
            for number in numbers:
                assert (topic_id, number) not in found, f"{found[topic_id, number]} and {consumer.member_id}"
                found[topic_id, number] = consumer.member_id
    return found
