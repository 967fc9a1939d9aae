"""A decision about a consumer group, under construction.

A decision takes several steps that build on each other: a new member leads to a new epoch, that to a new
target, that to a new assignment. So a draft contains the group as it will be after its records so far: the
first record makes a copy, and the same `replay` applies each record to it.

Invariants: the group itself does not change. After replaying the draft's records, it equals the copy.
"""

from __future__ import annotations

from typing import Final

from headrace.coordination.consumer.group import ConsumerGroup, Member
from headrace.coordination.consumer.records import RecordKey, RecordType, Value, record
from headrace.coordination.decision import Draft, TimerKey

MACHINE: Final = "consumer"
"""The first part of the keys of this machine's timers. The third is the group id."""


def session_timer(group_id: str, member_id: str) -> TimerKey:
    """When it is due, the member is removed: it sent no heartbeat."""
    return (MACHINE, "session", group_id, member_id)


def revocation_timer(group_id: str, member_id: str) -> TimerKey:
    """When it is due, the member is removed: it did not give up what it was asked to."""
    return (MACHINE, "revocation", group_id, member_id)


def join_timer(group_id: str, member_id: str) -> TimerKey:
    """When it is due, the classic member is removed: it did not join again."""
    return (MACHINE, "join", group_id, member_id)


def sync_timer(group_id: str, member_id: str) -> TimerKey:
    """When it is due, the classic member is removed: it did not ask for its assignment."""
    return (MACHINE, "sync", group_id, member_id)


def downgraded_timer(group_id: str, *, rebalance: bool) -> TimerKey:
    """Due at once: the group has become classic. Its timers are set, and it may rebalance."""
    return (MACHINE, "downgraded", group_id, int(rebalance))


class GroupDraft(Draft):
    """A draft with the group as it will be."""

    __slots__ = ("_changed", "base")

    def __init__(self, group: ConsumerGroup, now_ms: int) -> None:
        super().__init__(now_ms)
        self.base = group
        self._changed: ConsumerGroup | None = None

    @property
    def group(self) -> ConsumerGroup:
        """The group as it will be after the records so far."""
        return self.base if self._changed is None else self._changed

    def write(self, kind: RecordType, value: Value | None, name: str = "") -> None:
        """Add a record; without a value, a tombstone."""
        if self._changed is None:
            self._changed = self.base.copy()
        key = RecordKey(type=kind, group_id=self.base.group_id, name=name)
        self._changed.replay(key, value)
        self.records.append(record(key, value))

    def remove(self, member_id: str) -> None:
        """Remove a member, and its expression if nobody else uses it."""
        member = self.group.members[member_id]
        self._erase(member_id)
        self.drop_unused(member.metadata.topic_expression)
        self.cancel_timers(member_id)

    def replace(self, old: Member, new: Member) -> None:
        """A static member comes back: it takes over the assignment and the target of its former self."""
        target = self.group.target_of(old.member_id)
        self._erase(old.member_id)
        self.cancel_timers(old.member_id)
        self.write(RecordType.MEMBER, new.metadata, new.member_id)
        self.write(RecordType.TARGET_MEMBER, target, new.member_id)
        self.write(RecordType.CURRENT, new.current, new.member_id)

    def _erase(self, member_id: str) -> None:
        for kind in (RecordType.CURRENT, RecordType.TARGET_MEMBER, RecordType.MEMBER):
            self.write(kind, None, member_id)

    def drop_unused(self, expression: str) -> None:
        """Delete an expression that nobody uses any more."""
        if expression in self.group.expressions and not self.group.subscribers_of(expression):
            self.write(RecordType.EXPRESSION, None, expression)

    def cancel_timers(self, member_id: str) -> None:
        for timer in (session_timer, revocation_timer, join_timer, sync_timer):
            self.cancel_timer(timer(self.base.group_id, member_id))
