"""The runtime of the machines, turned by hand: a log in memory, timers that fire when the test says so.

It keeps the promises that the machines rely on (see `decision.py`) and checks theirs: a request that waits
is answered once, by whichever decision; none is answered that does not wait.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from headrace.coordination import administration
from headrace.coordination.classic.group import ClassicGroup
from headrace.coordination.classic.groups import ClassicGroups
from headrace.coordination.classic.rebalance import ClassicSettings
from headrace.coordination.classic.records import GROUP_METADATA_KEY
from headrace.coordination.decision import Decision, Producer, Reply, TimerKey
from headrace.coordination.fields import record_type
from headrace.coordination.group import Committer, Group
from headrace.coordination.offsets import NO_PRODUCER, Offsets, OffsetSettings
from headrace.coordination.replies import (
    CommitReply,
    DeleteGroupsReply,
    HeartbeatReply,
    JoinReply,
    LeaveReply,
    SyncReply,
)
from headrace.coordination.requests import (
    CommitRequest,
    FetchOffsetsRequest,
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    OfferedProtocol,
    OffsetToCommit,
    SyncRequest,
)

GROUP = "readers"
SESSION_MS = 10_000
REBALANCE_MS = 60_000


def subscription(*topics: str) -> bytes:
    """What a consumer sends as the metadata of its protocols, version 0."""
    encoded = b"\x00\x00" + len(topics).to_bytes(4, "big")
    for topic in topics:
        encoded += len(topic).to_bytes(2, "big") + topic.encode()
    return encoded + b"\xff\xff\xff\xff"


def offers(*names: str, topics: tuple[str, ...] = ("events",)) -> tuple[OfferedProtocol, ...]:
    return tuple(OfferedProtocol(name=name, metadata=subscription(*topics)) for name in names)


class Runtime:
    """One partition of the internal topic, its machines, and everybody who waits for an answer."""

    def __init__(
        self, *, classic: ClassicSettings | None = None, offsets: OffsetSettings | None = None
    ) -> None:
        self._classic_settings = classic or ClassicSettings()
        self._offset_settings = offsets or OffsetSettings()
        self.now_ms = 1_700_000_000_000
        self.log: list[tuple[bytes, bytes | None, int] | tuple[int, bool]] = []
        self.timers: dict[TimerKey, int] = {}
        self.waiting: set[int] = set()
        self.answers: dict[int, Any] = {}
        self.fail_next_write = False
        self._requests = 0
        self._start()

    def _start(self) -> None:
        self.groups: dict[str, Group] = {}
        self.classic = ClassicGroups(self.groups, self._classic_settings)
        self.offsets = Offsets(self.groups, self._offset_settings)

    def _replay(self, key: bytes, value: bytes | None, producer_id: int) -> None:
        if record_type(key) == GROUP_METADATA_KEY:
            self.classic.replay(key, value)
        else:
            self.offsets.replay(key, value, producer_id=producer_id)

    def apply(
        self, decision: Decision[Reply], *, waiting_id: int | None = None, classic: str | None = None
    ) -> Any:
        """Carry out a decision, which may be about a classic group; the reply, or None while it waits."""
        if decision.records and self.fail_next_write:
            self.fail_next_write = False
            error = ErrorCode.coordinator_not_available
            if classic is None:
                decision = decision.failed(error)
            else:
                decision = self.classic.write_failed(classic, decision, error, self.now_ms)
            assert not decision.records
        if waiting_id is not None and decision.reply is None:
            self.waiting.add(waiting_id)
        producer_id = NO_PRODUCER if decision.producer is None else decision.producer.producer_id
        for record in decision.records:
            self.log.append((record.key, record.value, producer_id))
            self._replay(record.key, record.value, producer_id)
        assert len({timer.key for timer in decision.timers}) == len(decision.timers)
        for timer in decision.timers:
            if timer.at_ms is None:
                self.timers.pop(timer.key, None)
            else:
                self.timers[timer.key] = timer.at_ms
        for answered, reply in decision.replies:
            self.waiting.remove(answered)
            assert answered not in self.answers
            self.answers[answered] = reply
        if waiting_id is not None and decision.reply is not None:
            self.answers[waiting_id] = decision.reply
        return decision.reply

    def mark(self, producer_id: int, *, committed: bool) -> None:
        """The end of a transaction reaches the partition."""
        self.log.append((producer_id, committed))
        self.offsets.replay_marker(producer_id, committed=committed)

    def reload(self) -> None:
        """The broker is killed and started again: connections, timers and memory are gone, the log is not."""
        self.timers.clear()
        self.waiting.clear()
        self.fail_next_write = False
        self._start()
        for entry in self.log:
            if len(entry) == 2:
                self.offsets.replay_marker(entry[0], committed=entry[1])
            else:
                self._replay(*entry)
        self.apply(self.classic.loaded(self.now_ms))
        self.apply(self.offsets.loaded(self.now_ms))

    def advance(self, by_ms: int) -> None:
        """Let time pass; every timer fires at its moment."""
        end_ms = self.now_ms + by_ms
        while self.timers:
            key, at_ms = min(self.timers.items(), key=lambda item: (item[1], repr(item[0])))
            if at_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, at_ms)
            del self.timers[key]
            if key[0] == "classic":
                self.apply(self.classic.timed_out(key, self.now_ms), classic=str(key[2]))
            else:
                self.apply(self.offsets.timed_out(key, self.now_ms))
        self.now_ms = end_ms

    def _next_request(self) -> int:
        self._requests += 1
        return self._requests

    # Requests, with what most tests want as defaults.

    def ask_join(self, **fields: Any) -> int:
        """JoinGroup; the id under which the answer comes."""
        defaults: dict[str, Any] = {
            "group_id": GROUP,
            "protocol_type": "consumer",
            "protocols": offers("range"),
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "client_id": "client",
            "client_host": "/127.0.0.1",
        }
        request = JoinRequest(**(defaults | fields))
        waiting_id = self._next_request()
        unique = str(uuid.UUID(int=waiting_id))
        decision = self.classic.decide_join(request, waiting_id=waiting_id, unique=unique, now_ms=self.now_ms)
        self.apply(decision, waiting_id=waiting_id, classic=request.group_id)
        return waiting_id

    def ask_sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        **fields: Any,
    ) -> int:
        """SyncGroup; the id under which the answer comes."""
        request = SyncRequest(
            **{"group_id": GROUP} | fields,
            member_id=member_id,
            generation=generation,
            assignments=tuple((assignments or {}).items()),
        )
        waiting_id = self._next_request()
        decision = self.classic.decide_sync(request, waiting_id=waiting_id, now_ms=self.now_ms)
        self.apply(decision, waiting_id=waiting_id, classic=request.group_id)
        return waiting_id

    def heartbeat(self, member_id: str, generation: int, **fields: Any) -> ErrorCode:
        request = HeartbeatRequest(**{"group_id": GROUP} | fields, member_id=member_id, generation=generation)
        reply: HeartbeatReply = self.apply(
            self.classic.decide_heartbeat(request, now_ms=self.now_ms), classic=request.group_id
        )
        return reply.error

    def leave(self, *members: LeavingMember, group_id: str = GROUP) -> LeaveReply:
        request = LeaveRequest(group_id=group_id, members=members)
        decision = self.classic.decide_leave(request, now_ms=self.now_ms)
        reply: LeaveReply = self.apply(decision, classic=group_id)
        return reply

    def commit(
        self,
        *offsets: OffsetToCommit,
        group_id: str = GROUP,
        producer_id: int | None = None,
        retention_ms: int | None = None,
        **committer: Any,
    ) -> tuple[ErrorCode, ...]:
        """OffsetCommit or TxnOffsetCommit; the errors in the order of the offsets."""
        request = CommitRequest(
            group_id=group_id,
            committer=Committer(transactional=producer_id is not None, **committer),
            offsets=offsets,
            retention_ms=retention_ms,
            producer=None if producer_id is None else Producer(producer_id=producer_id, producer_epoch=0),
        )
        decision = self.offsets.decide_commit(request, now_ms=self.now_ms)
        reply: CommitReply = self.apply(decision)
        return tuple(one.error for one in reply.partitions)

    def fetched(self, *, require_stable: bool = False, group_id: str = GROUP) -> dict[tuple[str, int], int]:
        """All offsets of a group."""
        request = FetchOffsetsRequest(group_id=group_id, partitions=None, require_stable=require_stable)
        reply = self.offsets.fetch(request)
        return {(one.topic, one.partition): one.offset for one in reply.partitions}

    def delete_group(self, group_id: str = GROUP) -> ErrorCode:
        decision = administration.decide_delete_groups(self.groups, self.offsets, [group_id])
        reply: DeleteGroupsReply = self.apply(decision)
        return reply.groups[0][1]

    # What tests look at.

    def group(self, group_id: str = GROUP) -> ClassicGroup:
        group = self.classic.group(group_id)
        assert group is not None
        return group

    def joined(self, waiting_id: int) -> JoinReply:
        reply = self.answers[waiting_id]
        assert isinstance(reply, JoinReply)
        return reply

    def synced(self, waiting_id: int) -> SyncReply:
        reply = self.answers[waiting_id]
        assert isinstance(reply, SyncReply)
        return reply

    # Whole conversations.

    def member_id(self, **fields: Any) -> str:
        """Somebody new asks to join and is given an id."""
        reply = self.joined(self.ask_join(**fields))
        assert reply.error is ErrorCode.member_id_required
        return reply.member_id

    def stable_group(self, size: int = 1, **fields: Any) -> list[str]:
        """A stable group of dynamic members; their ids, the leader first. Each is assigned its own id."""
        ids = [self.member_id(**fields) for _ in range(size)]
        joins = [self.ask_join(member_id=member_id, **fields) for member_id in ids]
        self.advance(self._classic_settings.initial_rebalance_delay_ms * 2)
        self.settle({member_id: member_id.encode() for member_id in ids})
        leader = self.joined(joins[0]).leader
        return sorted(ids, key=lambda member_id: member_id != leader)

    def settle(self, assignments: Mapping[str, bytes]) -> dict[str, SyncReply]:
        """All members ask for their assignment, the leader last."""
        group = self.group()
        leader = group.leader
        assert leader is not None
        order = [member_id for member_id in group.members if member_id != leader] + [leader]
        asked = {
            member_id: self.ask_sync(
                member_id, group.generation, assignments if member_id == leader else None
            )
            for member_id in order
        }
        return {member_id: self.synced(waiting) for member_id, waiting in asked.items()}
