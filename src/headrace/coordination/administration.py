"""Groups as administrators see them: DescribeGroups, ListGroups and DeleteGroups, for groups of both kinds.

Invariants: describing and listing change nothing. One decision writes the tombstones of every offset and then
of the group, so a group is never half deleted.
"""

from __future__ import annotations

from collections.abc import Iterable

from kio.schema.errors import ErrorCode

from headrace.coordination.classic.group import ClassicGroup
from headrace.coordination.classic.states import State
from headrace.coordination.decision import Decision, Record
from headrace.coordination.group import Group, Groups
from headrace.coordination.offsets import Offsets
from headrace.coordination.replies import (
    DeleteGroupsReply,
    DescribedGroup,
    DescribedMember,
    ListedGroup,
)


def describe(groups: Groups, group_id: str) -> DescribedGroup:
    """DescribeGroups for one id. It does not find consumer groups (KIP-848), which have their own API."""
    group = groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        reason = "not found" if group is None else "is not a classic group"
        return DescribedGroup(
            group_id=group_id,
            error=ErrorCode.group_id_not_found,
            error_message=f"Group {group_id} {reason}.",
        )
    stable = group.state is State.STABLE
    return DescribedGroup(
        group_id=group_id,
        state=group.state_name,
        protocol_type=group.protocol_type or "",
        protocol=(group.protocol or "") if stable else "",
        members=tuple(
            DescribedMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                metadata=member.metadata(group.protocol) if stable else b"",
                assignment=member.assignment,
            )
            for member in group.members.values()
        ),
    )


def list_groups(
    groups: Groups, *, states: Iterable[str] = (), kinds: Iterable[str] = ()
) -> tuple[ListedGroup, ...]:
    """ListGroups, by state (KIP-518) and kind (KIP-848), ignoring case. An empty filter lets all pass."""
    wanted_states = {state.lower() for state in states}
    wanted_kinds = {kind.lower() for kind in kinds}

    def wanted(group: Group) -> bool:
        return (not wanted_states or group.state_name.lower() in wanted_states) and (
            not wanted_kinds or group.kind in wanted_kinds
        )

    return tuple(
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_name_listed,
            state=group.state_name,
            kind=group.kind,
        )
        for group in groups.values()
        if wanted(group)
    )


def decide_delete_groups(
    groups: Groups, offsets: Offsets, group_ids: Iterable[str]
) -> Decision[DeleteGroupsReply]:
    """DeleteGroups: delete each group without members, and all its offsets."""
    records: list[Record] = []
    results: list[tuple[str, ErrorCode]] = []
    for group_id in dict.fromkeys(group_ids):
        group = groups.get(group_id)
        if group is None:
            error = ErrorCode.group_id_not_found
        else:
            error = group.delete_error()
            if error is ErrorCode.none:
                records += offsets.tombstones(group_id)
                records += group.tombstones()
        results.append((group_id, error))
    return Decision(records=tuple(records), reply=DeleteGroupsReply(groups=tuple(results)))
