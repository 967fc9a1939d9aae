"""How a member gets from its current assignment to its target (KIP-848, the reconciliation of members).

First it gives up what it may not keep, and confirms that. Then it moves to the epoch of the target and gets
what is free. Then it waits for what others still hold. So a partition never has two holders, and members keep
reading what does not move.

| state | a heartbeat comes | next |
|---|---|---|
| STABLE | there is a newer target | towards the target |
| | the subscription has changed | gives up topics it no longer subscribes to |
| UNREVOKED_PARTITIONS | it still has some of them, or does not say | unchanged |
| | it has given them up | towards the target |
| UNRELEASED_PARTITIONS | any | towards the target |
| UNKNOWN (from a newer Kafka) | any | from nothing towards the target; the caller has fenced it |

Pure: the same input gives the same output. Never writes, never looks at the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from headrace.coordination.consumer.assignors import Partitions
from headrace.coordination.consumer.values import CurrentAssignment, MemberState, PartitionEpochs


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the next step depends on besides the member."""

    target: Partitions
    target_epoch: int
    subscribed: frozenset[UUID]
    """The topics that it subscribes to and that exist."""
    subscription_changed: bool
    reported: Partitions | None
    """What the member says it has; None if it does not say."""
    held_by_another: Callable[[UUID, int], bool]


def reconcile(current: CurrentAssignment, around: Surroundings) -> CurrentAssignment:
    """The assignment after this step; the same object if nothing changes."""
    stable = current.state is MemberState.STABLE and current.member_epoch == around.target_epoch
    if stable and not around.subscription_changed:
        return current
    return _NEXT[current.state](current, around)


def _from_stable(current: CurrentAssignment, around: Surroundings) -> CurrentAssignment:
    if current.member_epoch != around.target_epoch:
        return _towards_target(current, around)
    return _without_unsubscribed(current, around)


def _from_unrevoked(current: CurrentAssignment, around: Surroundings) -> CurrentAssignment:
    if not _still_has(current.revoking, around.reported):
        return _towards_target(current, around)
    return _without_unsubscribed(current, around) if around.subscription_changed else current


def _towards_target(current: CurrentAssignment, around: Surroundings) -> CurrentAssignment:
    target = {
        topic_id: numbers for topic_id, numbers in around.target.items() if topic_id in around.subscribed
    }
    kept = _filtered(current.assigned, lambda topic_id, number: number in target.get(topic_id, ()))
    revoking = _filtered(current.assigned, lambda topic_id, number: number not in target.get(topic_id, ()))
    if revoking and _still_has(revoking, around.reported):
        # It stays in its epoch until it confirms that it gave them up.
        return replace(
            current,
            previous_epoch=current.member_epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            revoking=revoking,
        )
    waits = False
    assigned = {topic_id: dict(numbers) for topic_id, numbers in kept.items()}
    for topic_id, numbers in target.items():
        for number in numbers - kept.get(topic_id, {}).keys():
            if around.held_by_another(topic_id, number):
                waits = True
            else:
                assigned.setdefault(topic_id, {})[number] = around.target_epoch
    return CurrentAssignment(
        member_epoch=around.target_epoch,
        previous_epoch=current.member_epoch,
        state=MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE,
        assigned=assigned,
    )


def _without_unsubscribed(current: CurrentAssignment, around: Surroundings) -> CurrentAssignment:
    """At once, without waiting for a new target: a member must not read on what it unsubscribed from."""
    kept = {
        topic_id: numbers for topic_id, numbers in current.assigned.items() if topic_id in around.subscribed
    }
    if len(kept) == len(current.assigned):
        return current
    revoking = {topic_id: dict(numbers) for topic_id, numbers in current.revoking.items()}
    for topic_id, numbers in current.assigned.items():
        if topic_id not in kept:
            revoking.setdefault(topic_id, {}).update(numbers)
    if not _still_has(revoking, around.reported):
        return replace(current, previous_epoch=current.member_epoch, assigned=kept)
    return replace(
        current,
        previous_epoch=current.member_epoch,
        state=MemberState.UNREVOKED_PARTITIONS,
        assigned=kept,
        revoking=revoking,
    )


def _filtered(
    partitions: PartitionEpochs, wanted: Callable[[UUID, int], bool]
) -> dict[UUID, Mapping[int, int]]:
    found = {
        topic_id: {number: epoch for number, epoch in numbers.items() if wanted(topic_id, number)}
        for topic_id, numbers in partitions.items()
    }
    return {topic_id: numbers for topic_id, numbers in found.items() if numbers}


def _still_has(revoking: PartitionEpochs, reported: Partitions | None) -> bool:
    """A member that does not say what it has is assumed to have everything."""
    if reported is None:
        return True
    return any(
        not numbers.keys().isdisjoint(reported.get(topic_id, ())) for topic_id, numbers in revoking.items()
    )


_NEXT: Final[Mapping[MemberState, Callable[[CurrentAssignment, Surroundings], CurrentAssignment]]] = {
    MemberState.STABLE: _from_stable,
    MemberState.UNREVOKED_PARTITIONS: _from_unrevoked,
    MemberState.UNRELEASED_PARTITIONS: _towards_target,
    MemberState.UNKNOWN: _towards_target,
}
