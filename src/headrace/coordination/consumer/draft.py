"""A decision about one consumer group in the making.

A decision takes several steps, and each builds on the ones before: a new member makes a new epoch, that a
new target, that a new assignment. So a draft has the group as it will be once the records so far have
been replayed: a copy, made at the first record, to which each record is applied by the same `replay`.

Invariants: the group itself stays as it was. After the draft's records are replayed, it equals the
draft's copy.
"""

from __future__ import annotations

from typing import Final

from headrace.coordination.consumer.group import ConsumerGroup, Member
from headrace.coordination.consumer.records import RecordKey, RecordType, Value, record
from headrace.coordination.decision import Draft, TimerKey

MACHINE: Final = "consumer"
"""The first part of the keys of this machine's timers; the third is the group's id."""


def session_timer(group_id: str, member_id: str) -> TimerKey:
    """Ends with the member, if it says nothing."""
    return (MACHINE, "session", group_id, member_id)


def revocation_timer(group_id: str, member_id: str) -> TimerKey:
    """Ends with the member, if it does not give up what it was asked for."""
    return (MACHINE, "revocation", group_id, member_id)


def join_timer(group_id: str, member_id: str) -> TimerKey:
    """Ends with the classic member, if it does not join again."""
    return (MACHINE, "join", group_id, member_id)


def sync_timer(group_id: str, member_id: str) -> TimerKey:
    """Ends with the classic member, if it does not ask for what it was assigned."""
    return (MACHINE, "sync", group_id, member_id)


def downgraded_timer(group_id: str, *, rebalance: bool) -> TimerKey:
    """Is due at once: the group has become a classic one, whose timers are to be set, and may rebalance."""
    return (MACHINE, "downgraded", group_id, int(rebalance))


class GroupDraft(Draft):
    """See the module."""

    __slots__ = ("_changed", "base")

    def __init__(self, group: ConsumerGroup, now_ms: int) -> None:
        super().__init__(now_ms)
        self.base = group
        self._changed: ConsumerGroup | None = None

    @property
    def group(self) -> ConsumerGroup:
        """As it will be."""
        return self.base if self._changed is None else self._changed

    def write(self, kind: RecordType, value: Value | None, name: str = "") -> None:
        """One more record; without a value a tombstone."""
        if self._changed is None:
            self._changed = self.base.copy()
        key = RecordKey(type=kind, group_id=self.base.group_id, name=name)
        self._changed.replay(key, value)
        self.records.append(record(key, value))

    def remove(self, member_id: str) -> None:
        """The member goes, and with it its expression if nobody else uses it."""
        member = self.group.members[member_id]
        self._erase(member_id)
        self.drop_unused(member.metadata.topic_expression)
        self.cancel_timers(member_id)

    def replace(self, old: Member, new: Member) -> None:
        """A static member comes back: it gets what the one before had, and what that one was to have."""
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
        """An expression that nobody uses any more is forgotten."""
        if expression in self.group.expressions and not self.group.subscribers_of(expression):
            self.write(RecordType.EXPRESSION, None, expression)

    def cancel_timers(self, member_id: str) -> None:
        for timer in (session_timer, revocation_timer, join_timer, sync_timer):
            self.cancel_timer(timer(self.base.group_id, member_id))
