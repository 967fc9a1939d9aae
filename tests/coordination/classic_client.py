"""A client of the classic protocol, in groups of both kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from kio.schema.errors import ErrorCode

from headrace.coordination.classic import embedded
from headrace.coordination.fields import FieldWriter
from headrace.coordination.replies import JoinReply, SyncReply
from headrace.coordination.requests import (
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    OfferedProtocol,
    SyncRequest,
)
from tests.coordination.consumer_runtime import GROUP, REBALANCE_MS, ConsumerRuntime

SESSION_MS = 10_000


def subscription(topics: frozenset[str], owned: Mapping[str, frozenset[int]], version: int = 3) -> bytes:
    """The subscription that a consumer offers with its protocols."""
    writer = FieldWriter().int16(version).array_length(len(topics))
    for topic in sorted(topics):
        writer.string(topic)
    writer.nullable_octets(None)
    if version >= 1:
        writer.array_length(len(owned))
        for topic, numbers in sorted(owned.items()):
            writer.string(topic).array_length(len(numbers))
            for number in sorted(numbers):
                writer.int32(number)
    if version >= 2:
        writer.int32(-1)
    if version >= 3:
        writer.nullable_string(None)
    return writer.done()


@dataclass
class ClassicClient:
    """An eager consumer: it gives up everything before it joins again. `step` does the next thing."""

    runtime: ConsumerRuntime
    topics: frozenset[str]
    instance_id: str | None = None
    protocols: tuple[str, ...] = ("range",)
    member_id: str = ""
    generation: int = -1
    joined: bool = False
    owned: dict[UUID, frozenset[int]] = field(default_factory=dict)
    alive: bool = True
    _join: int | None = None
    _sync: int | None = None

    def step(self) -> ErrorCode | None:
        """The error in the reply; None while it waits."""
        if self._join is not None:
            return self._hear_join(self.runtime.answers.get(self._join))
        if self._sync is not None:
            return self._hear_sync(self.runtime.answers.get(self._sync))
        if not self.joined:
            return self._ask_to_join()
        error = self.runtime.classic_heartbeat(
            HeartbeatRequest(
                group_id=GROUP,
                member_id=self.member_id,
                generation=self.generation,
                instance_id=self.instance_id,
            )
        )
        if error is not ErrorCode.none:
            self._start_over(error)
        return error

    def _ask_to_join(self) -> ErrorCode | None:
        self.owned = {}
        self._join = self.runtime.ask_classic_join(
            JoinRequest(
                group_id=GROUP,
                member_id=self.member_id,
                instance_id=self.instance_id,
                protocol_type="consumer",
                protocols=tuple(
                    OfferedProtocol(name=name, metadata=subscription(self.topics, {}))
                    for name in self.protocols
                ),
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                client_id="classic",
                client_host="/127.0.0.1",
            )
        )
        return self._hear_join(self.runtime.answers.get(self._join))

    def _hear_join(self, reply: JoinReply | None) -> ErrorCode | None:
        if reply is None:
            return None
        self._join = None
        if reply.error is ErrorCode.member_id_required:
            self.member_id = reply.member_id
            return self._ask_to_join()
        if reply.error is not ErrorCode.none:
            self._start_over(reply.error)
            return reply.error
        self.member_id, self.generation = reply.member_id, reply.generation
        assignments = self._assign(reply) if reply.leader == self.member_id else ()
        self._sync = self.runtime.ask_classic_sync(
            SyncRequest(
                group_id=GROUP,
                member_id=self.member_id,
                generation=self.generation,
                instance_id=self.instance_id,
                protocol_type=reply.protocol_type,
                protocol=reply.protocol,
                assignments=tuple(assignments),
            )
        )
        return self._hear_sync(self.runtime.answers.get(self._sync))

    def _assign(self, reply: JoinReply) -> list[tuple[str, bytes]]:
        """The leader's assignment: each partition in turn to those who subscribe to it."""
        wanted = {
            member.member_id: embedded.read_subscription(member.metadata).topics for member in reply.members
        }
        given: dict[str, dict[str, set[int]]] = {member_id: {} for member_id in wanted}
        for name in sorted(frozenset[str]().union(*wanted.values())):
            topic = self.runtime.topics.by_name(name)
            takers = [member_id for member_id in sorted(wanted) if name in wanted[member_id]]
            for number in range(0 if topic is None else topic.partitions):
                given[takers[number % len(takers)]].setdefault(name, set()).add(number)
        return [
            (
                member_id,
                embedded.assignment({name: frozenset(found) for name, found in topics.items()}, 3),
            )
            for member_id, topics in given.items()
        ]

    def _hear_sync(self, reply: SyncReply | None) -> ErrorCode | None:
        if reply is None:
            return None
        self._sync = None
        if reply.error is not ErrorCode.none:
            self._start_over(reply.error)
            return reply.error
        self.joined = True
        found = embedded.read_assignment(reply.assignment).partitions
        self.owned = {
            topic.topic_id: numbers
            for topic, numbers in ((self.runtime.topics.by_name(name), found[name]) for name in found)
            if topic is not None
        }
        return ErrorCode.none

    def _start_over(self, error: ErrorCode) -> None:
        self.owned = {}
        self.joined = False
        if error in (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id):
            self.member_id = ""
        if error is ErrorCode.fenced_instance_id:
            self.alive = False

    def leave(self) -> ErrorCode:
        reply = self.runtime.classic_leave(
            LeaveRequest(
                group_id=GROUP,
                members=(LeavingMember(member_id=self.member_id, instance_id=self.instance_id),),
            )
        )
        self.alive, self.owned = False, {}
        return reply.members[0].error

    def reconnect(self) -> None:
        """The connection broke: pending replies will not come."""
        if self._join is not None or self._sync is not None:
            self._join = self._sync = None
            self.joined, self.owned = False, {}
