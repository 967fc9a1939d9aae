"""Requests about classic groups and offsets to a shard of the broker, with the usual fields as defaults."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from headrace.broker.coordinators.group_machines import GroupMachines, GroupSettings
from headrace.coordination import administration
from headrace.coordination.classic.group import ClassicGroup
from headrace.coordination.classic.groups import ClassicGroups
from headrace.coordination.classic.rebalance import ClassicSettings
from headrace.coordination.decision import Producer
from headrace.coordination.group import Committer, Group
from headrace.coordination.offsets import Offsets, OffsetSettings
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
from tests.coordination.fake_topics import FakeTopics
from tests.coordination.memory_shard import ShardRuntime

GROUP = "readers"
SESSION_MS = 10_000
REBALANCE_MS = 60_000


def subscription(*topics: str) -> bytes:
    """A subscription of version 0, which consumers send as the metadata of their protocols."""
    encoded = b"\x00\x00" + len(topics).to_bytes(4, "big")
    for topic in topics:
        encoded += len(topic).to_bytes(2, "big") + topic.encode()
    return encoded + b"\xff\xff\xff\xff"


def offers(*names: str, topics: tuple[str, ...] = ("events",)) -> tuple[OfferedProtocol, ...]:
    return tuple(OfferedProtocol(name=name, metadata=subscription(*topics)) for name in names)


class Runtime(ShardRuntime[GroupMachines]):
    """The shard of a broker with classic groups."""

    def __init__(
        self, *, classic: ClassicSettings | None = None, offsets: OffsetSettings | None = None
    ) -> None:
        settings = GroupSettings(classic=classic or ClassicSettings(), offsets=offsets or OffsetSettings())
        self._delay_ms = settings.classic.initial_rebalance_delay_ms
        self._uniques = itertools.count(1)
        super().__init__(lambda: GroupMachines(settings, FakeTopics(), 0), now_ms=1_700_000_000_000)

    @property
    def groups(self) -> dict[str, Group]:
        return self.machines.groups

    @property
    def classic(self) -> ClassicGroups:
        return self.machines.classic

    @property
    def offsets(self) -> Offsets:
        return self.machines.offsets

    def mark(self, producer_id: int, *, committed: bool) -> None:
        """The end of a transaction reaches the partition."""
        self.log.append_marker(producer_id, committed=committed)
        self.machines.replay_marker(producer_id, committed=committed)

    # Requests.

    def ask_join(self, **fields: Any) -> int:
        """JoinGroup. Returns the key of its answer in `answers`."""
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
        unique = uuid.UUID(int=next(self._uniques))
        return self.ask(
            lambda waiting_id: self.machines.decide_join(
                request, waiting_id=waiting_id, unique=unique, now_ms=self.now_ms
            ),
            request.group_id,
        )

    def ask_sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        **fields: Any,
    ) -> int:
        """SyncGroup. Returns the key of its answer in `answers`."""
        request = SyncRequest(
            **{"group_id": GROUP} | fields,
            member_id=member_id,
            generation=generation,
            assignments=tuple((assignments or {}).items()),
        )
        return self.ask(
            lambda waiting_id: self.machines.decide_sync(request, waiting_id=waiting_id, now_ms=self.now_ms),
            request.group_id,
        )

    def heartbeat(self, member_id: str, generation: int, **fields: Any) -> ErrorCode:
        request = HeartbeatRequest(**{"group_id": GROUP} | fields, member_id=member_id, generation=generation)
        reply: HeartbeatReply = self.apply(
            self.machines.decide_heartbeat(request, now_ms=self.now_ms), request.group_id
        )
        return reply.error

    def leave(self, *members: LeavingMember, group_id: str = GROUP) -> LeaveReply:
        request = LeaveRequest(group_id=group_id, members=members)
        decision = self.machines.decide_leave(request, now_ms=self.now_ms)
        reply: LeaveReply = self.apply(decision, group_id)
        return reply

    def commit(
        self,
        *offsets: OffsetToCommit,
        group_id: str = GROUP,
        producer_id: int | None = None,
        retention_ms: int | None = None,
        **committer: Any,
    ) -> tuple[ErrorCode, ...]:
        """OffsetCommit or TxnOffsetCommit. Returns the errors in the order of the offsets."""
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
        """A new member asks to join and gets an id."""
        reply = self.joined(self.ask_join(**fields))
        assert reply.error is ErrorCode.member_id_required
        return reply.member_id

    def stable_group(self, size: int = 1, **fields: Any) -> list[str]:
        """A stable group of dynamic members, each assigned its own id. Returns the ids, the leader first."""
        ids = [self.member_id(**fields) for _ in range(size)]
        joins = [self.ask_join(member_id=member_id, **fields) for member_id in ids]
        self.advance(self._delay_ms * 2)
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
