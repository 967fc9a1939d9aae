"""A classic group: its settled generation, and the rebalance that leads to the next one.

`settled` is durable; only `replay` changes it. A rebalance works on a copy, in which members join, leave and
change until the leader has assigned. Then one record makes the copy the settled generation, or an empty one
if all members are gone. Until then the copy is transient, as in Kafka: after a restart the group is at its
last settled generation, and its members join again when their heartbeats are refused.

Also transient: who got an id and has not joined with it yet (KIP-394), who joined a generation and has not
fetched its assignment yet, and the protocols that members offered besides the chosen one.

Invariants: joins wait only in PreparingRebalance, syncs only in CompletingRebalance. A group has a leader
exactly when it has members.
Never: decides when any of this happens; `rebalance.py` and the table in `states.py` do.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from headrace.coordination.classic import records as group_records
from headrace.coordination.classic.members import (
    CONSUMER_PROTOCOL_TYPE,
    Member,
    Settled,
    protocols_of_all,
    subscribed_topics,
)
from headrace.coordination.classic.states import COMMIT_IS_A_SIGN_OF_LIFE, WITH_MEMBERS, State
from headrace.coordination.decision import Record, Timer, TimerKey, WaitingId
from headrace.coordination.group import CLASSIC, NO_MEMBER, Committer
from headrace.coordination.requests import OfferedProtocol

MACHINE: Final = "classic"
"""The first part of the keys of this machine's timers. The third is the group id."""


def session_timer(group_id: str, member_id: str) -> TimerKey:
    return (MACHINE, "session", group_id, member_id)


def join_timer(group_id: str) -> TimerKey:
    return (MACHINE, "join", group_id)


def sync_timer(group_id: str) -> TimerKey:
    return (MACHINE, "sync", group_id)


class Rebalance:
    """The next generation, under construction. All of it is transient."""

    __slots__ = (
        "delay_ms",
        "delay_remaining_ms",
        "generation",
        "initial",
        "joins",
        "leader",
        "members",
        "new",
        "new_member_added",
        "protocol",
        "protocol_type",
        "state",
        "syncs",
        "topics",
    )

    def __init__(self, settled: Settled, state: State) -> None:
        self.state = state
        self.generation = settled.generation
        self.protocol_type = settled.protocol_type
        self.protocol = settled.protocol
        self.leader = settled.leader
        self.members: dict[str, Member] = dict(settled.members)
        self.topics = settled.topics
        self.joins: dict[str, WaitingId] = {}
        self.syncs: dict[str, WaitingId] = {}
        # Members that were never in a generation. They may wait for one join timeout at most.
        self.new: set[str] = set()
        # Whether this is a first rebalance, which waits for more members; then what is left of the wait.
        self.initial = False
        self.new_member_added = False
        self.delay_ms = 0
        self.delay_remaining_ms = 0

    def put(self, member: Member, protocol_type: str) -> None:
        """Add a member, or replace the one with the same id."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member

    def remove(self, member_id: str) -> None:
        """Remove a member whose waiting requests have been answered. If it led, the next in line leads."""
        self.members.pop(member_id, None)
        self.new.discard(member_id)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def rename(self, old_id: str, replacement: Member) -> None:
        """A static member came back with a new id. It leads if it led before."""
        del self.members[old_id]
        self.new.discard(old_id)
        self.members[replacement.member_id] = replacement
        if self.leader == old_id:
            self.leader = replacement.member_id

    def elect_joined_leader(self) -> bool:
        """Make a member that has joined the leader. Returns whether there is one."""
        if self.leader in self.joins:
            return True
        for member_id in self.members:
            if member_id in self.joins:
                self.leader = member_id
                return True
        return False

    @property
    def timeout_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def begin_completing(self, protocol: str) -> None:
        """Begin the next generation, whose members are known and whose assignments are not."""
        self.generation += 1
        self.protocol = protocol
        self.topics = subscribed_topics(self.protocol_type, protocol, self.members)
        self.state = State.COMPLETING_REBALANCE
        self.new.clear()
        self.initial = False


class ClassicGroup:
    """One classic group. The module says which part of it is durable."""

    __slots__ = ("group_id", "offered", "pending_joins", "pending_syncs", "rebalance", "settled", "written")

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.settled = Settled()
        # Whether the log knows this group: by its own record, or by an offset.
        self.written = False
        self.rebalance: Rebalance | None = None
        self.pending_joins: set[str] = set()
        self.pending_syncs: set[str] = set()
        self.offered: dict[str, tuple[OfferedProtocol, ...]] = {}

    @property
    def state(self) -> State:
        if self.rebalance is not None:
            return self.rebalance.state
        return State.STABLE if self.settled.members else State.EMPTY

    @property
    def _current(self) -> Rebalance | Settled:
        return self.settled if self.rebalance is None else self.rebalance

    @property
    def members(self) -> Mapping[str, Member]:
        return self._current.members

    @property
    def generation(self) -> int:
        return self._current.generation

    @property
    def protocol_type(self) -> str | None:
        return self._current.protocol_type

    @property
    def protocol(self) -> str | None:
        return self._current.protocol

    @property
    def leader(self) -> str | None:
        return self._current.leader

    @property
    def topics(self) -> frozenset[str] | None:
        """The topics that its consumers subscribed to; None if unknown."""
        return self._current.topics

    def static_member(self, instance_id: str) -> Member | None:
        return next((one for one in self.members.values() if one.instance_id == instance_id), None)

    @property
    def all_joined(self) -> bool:
        """Whether nobody is missing, neither a member nor anybody who got an id."""
        return (
            self.rebalance is not None
            and len(self.rebalance.joins) == len(self.rebalance.members)
            and not self.pending_joins
        )

    def keeps_waiting(self, member_id: str) -> bool:
        """Whether this member waits for our reply, and so cannot send heartbeats.

        A member that was never in a generation may be gone, so its time is limited even if it waits.
        """
        rebalance = self.rebalance
        return (
            rebalance is not None
            and (member_id in rebalance.joins or member_id in rebalance.syncs)
            and member_id not in rebalance.new
        )

    def supports(self, protocol_type: str, names: Set[str]) -> bool:
        """Whether all members have a protocol in common with somebody who offers these."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(names)
        if self.protocol_type != protocol_type:
            return False
        return bool(names & protocols_of_all(self.members.values())) or (not self.members and bool(names))

    def member_error(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether this is a member and, with an instance id, the one that holds it now."""
        if instance_id is not None:
            holder = self.static_member(instance_id)
            if holder is None:
                return ErrorCode.unknown_member_id
            if holder.member_id != member_id:
                return ErrorCode.fenced_instance_id
        return ErrorCode.none if member_id in self.members else ErrorCode.unknown_member_id

    # The interface of groups of any kind.

    @property
    def kind(self) -> str:
        return CLASSIC

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def protocol_name_listed(self) -> str:
        return self.protocol_type or ""

    @property
    def deletable_when_unused(self) -> bool:
        return self.state is State.EMPTY and not self.pending_joins

    def commit_error(self, committer: Committer) -> ErrorCode:
        state = self.state
        # No generation: a client that assigned partitions to itself, or an administrator.
        if committer.generation < 0 and state is State.EMPTY:
            return ErrorCode.none
        if committer.generation >= 0 or committer.member_id != NO_MEMBER or committer.instance_id is not None:
            error = self.member_error(committer.member_id, committer.instance_id)
            if error is not ErrorCode.none:
                return error
            if committer.generation != self.generation:
                return ErrorCode.illegal_generation
        elif not committer.transactional:
            return ErrorCode.unknown_member_id
        # Producers older than KIP-447 commit without a member, at any time.
        if not committer.transactional and state is State.COMPLETING_REBALANCE:
            return ErrorCode.rebalance_in_progress
        return ErrorCode.none

    def may_still_commit(self, committer: Committer, topic_id: UUID | None, partition: int) -> bool:  # noqa: ARG002
        # A generation ends for all partitions at once.
        return False

    def sign_of_life(self, member_id: str, now_ms: int) -> tuple[Timer, ...]:
        member = self.members.get(member_id)
        if member is None or self.state not in COMMIT_IS_A_SIGN_OF_LIFE:
            return ()
        key = session_timer(self.group_id, member_id)
        return (Timer(key=key, at_ms=now_ms + member.session_timeout_ms),)

    def fetch_error(self, member_id: str | None, member_epoch: int) -> ErrorCode:  # noqa: ARG002
        # Only members of consumer groups have epochs (KIP-848); those of classic groups are not checked.
        return ErrorCode.none

    def delete_offsets_error(self) -> ErrorCode:
        if self.state in WITH_MEMBERS and self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return ErrorCode.non_empty_group
        return ErrorCode.none

    def delete_error(self) -> ErrorCode:
        return ErrorCode.non_empty_group if self.state in WITH_MEMBERS else ErrorCode.none

    def subscribed_to(self, topic: str) -> bool:
        topics = self.topics
        if topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in topics

    def retention_starts(self, commit_timestamp_ms: int) -> int | None:
        if self.protocol_type is None:
            return commit_timestamp_ms
        state = self.state
        if state is State.EMPTY:
            since = self.settled.state_since_ms
            return commit_timestamp_ms if since is None else since
        known = self.protocol_type == CONSUMER_PROTOCOL_TYPE and self.topics is not None
        return commit_timestamp_ms if known and state is State.STABLE else None

    def tombstones(self) -> tuple[Record, ...]:
        return (group_records.tombstone(self.group_id),)
