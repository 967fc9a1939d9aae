"""The range assignor: every subscriber gets one contiguous range of each topic.

Members have a fixed order: static ones by instance id, then dynamic ones by member id. So topics with the
same number of partitions and the same subscribers are divided alike: a member that has partition 3 of one
also has it of the other, as joins of topics require. Lengths differ by one at most; the first members have
the longer ranges. The order decides, not the last assignment: a member that keeps its place keeps its range.
"""

from collections.abc import Mapping
from uuid import UUID

from headrace.coordination.consumer.assignors.subscriptions import Subscriber


def assign(
    members: Mapping[str, Subscriber], partition_counts: Mapping[UUID, int]
) -> dict[str, dict[UUID, frozenset[int]]]:
    order = sorted(members, key=lambda member_id: _place(member_id, members[member_id]))
    assignment: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in order}
    subscribers: dict[UUID, list[str]] = {}
    for member_id in order:
        for topic_id in members[member_id].topics:
            subscribers.setdefault(topic_id, []).append(member_id)
    for topic_id, member_ids in subscribers.items():
        length, longer = divmod(partition_counts.get(topic_id, 0), len(member_ids))
        start = 0
        for place, member_id in enumerate(member_ids):
            end = start + length + (place < longer)
            if start < end:
                assignment[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return assignment


def _place(member_id: str, member: Subscriber) -> tuple[bool, str, str]:
    return member.instance_id is None, member.instance_id or "", member_id
