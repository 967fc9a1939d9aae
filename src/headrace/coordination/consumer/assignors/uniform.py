"""The uniform assignor: every member gets the same number of partitions, and keeps as many as possible.

Balance comes before stickiness, as in Apache Kafka. Three steps:

1. Every member keeps the partitions of its last target that exist and to which it still subscribes.
2. Free partitions go, topic by topic, to the subscriber with the fewest. Topics with the most partitions per
   subscriber go first, because they are the hardest to place.
3. In each topic, partitions move from the subscriber with the most to the one with the fewest, as long as
   they differ by more than one; this repeats until nothing moves. Each move reduces the sum of the squares of
   the loads, so it ends.

If all members subscribe to the same topics, loads differ by one at most afterwards, and no partition moved
without need. If subscriptions differ, no single move would make the loads more even.
"""

from collections.abc import Mapping
from heapq import heapify, heapreplace
from uuid import UUID

from headrace.coordination.consumer.assignors.subscriptions import Subscriber


def assign(
    members: Mapping[str, Subscriber], partition_counts: Mapping[UUID, int]
) -> dict[str, dict[UUID, frozenset[int]]]:
    order = sorted(members)
    subscribers = _subscribers(members, order, partition_counts)
    owned: dict[str, dict[UUID, set[int]]] = {member_id: {} for member_id in order}
    loads = dict.fromkeys(order, 0)
    free = {topic_id: set(range(partition_counts[topic_id])) for topic_id in subscribers}
    for member_id in order:
        _keep(members[member_id], owned[member_id], free)
        loads[member_id] = sum(map(len, owned[member_id].values()))
    topics = sorted(
        subscribers,
        key=lambda topic_id: (
            -partition_counts[topic_id] / len(subscribers[topic_id]),
            len(subscribers[topic_id]),
            topic_id.bytes,
        ),
    )
    for topic_id in topics:
        _place(topic_id, sorted(free[topic_id]), subscribers[topic_id], owned, loads)
    moved = True
    while moved:
        moved = False
        for topic_id in topics:
            moved = _even_out(topic_id, subscribers[topic_id], owned, loads) or moved
    return {
        member_id: {topic_id: frozenset(partitions) for topic_id, partitions in topics.items() if partitions}
        for member_id, topics in owned.items()
    }


def _subscribers(
    members: Mapping[str, Subscriber], order: list[str], partition_counts: Mapping[UUID, int]
) -> dict[UUID, list[str]]:
    subscribers: dict[UUID, list[str]] = {}
    for member_id in order:
        for topic_id in members[member_id].topics:
            if topic_id in partition_counts:
                subscribers.setdefault(topic_id, []).append(member_id)
    return subscribers


def _keep(member: Subscriber, owned: dict[UUID, set[int]], free: dict[UUID, set[int]]) -> None:
    """Keep what is still in `free`: no two members can keep the same partition."""
    for topic_id, partitions in member.current.items():
        if topic_id in member.topics and topic_id in free:
            kept = partitions & free[topic_id]
            if kept:
                owned[topic_id] = set(kept)
                free[topic_id] -= kept


def _place(
    topic_id: UUID,
    partitions: list[int],
    member_ids: list[str],
    owned: dict[str, dict[UUID, set[int]]],
    loads: dict[str, int],
) -> None:
    if not partitions:
        return
    least = [(loads[member_id], member_id) for member_id in member_ids]
    heapify(least)
    for partition in partitions:
        load, member_id = least[0]
        owned[member_id].setdefault(topic_id, set()).add(partition)
        loads[member_id] = load + 1
        heapreplace(least, (load + 1, member_id))


def _even_out(
    topic_id: UUID, member_ids: list[str], owned: dict[str, dict[UUID, set[int]]], loads: dict[str, int]
) -> bool:
    """Even out one topic. Returns whether anything moved."""
    moved = False
    while True:
        owners = [member_id for member_id in member_ids if owned[member_id].get(topic_id)]
        if not owners:
            return moved
        most = max(owners, key=loads.__getitem__)
        least = min(member_ids, key=loads.__getitem__)
        if loads[most] <= loads[least] + 1:
            return moved
        partition = max(owned[most][topic_id])
        owned[most][topic_id].discard(partition)
        owned[least].setdefault(topic_id, set()).add(partition)
        loads[most] -= 1
        loads[least] += 1
        moved = True
