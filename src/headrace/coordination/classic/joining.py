"""JoinGroup on a classic group: who may join, under which id, and whether that begins a rebalance.

A new dynamic member has to ask twice: it gets an id first, so that a join whose reply was lost leaves no
member behind (KIP-394). A new static member may replace its former self (KIP-345). If the group is stable
and nothing changed, it takes over the assignment without a rebalance; if it leads, it is told not to assign
(KIP-814).

Invariants: a refused member leaves no trace. A join is answered in the decision or waits in the rebalance,
never both.
"""

from __future__ import annotations

from dataclasses import replace

from kio.schema.errors import ErrorCode

from headrace.coordination.classic import records as group_records
from headrace.coordination.classic.group import ClassicGroup, session_timer
from headrace.coordination.classic.members import Member, chosen_protocol, stored_from
from headrace.coordination.classic.rebalance import (
    ClassicSettings,
    answer_waiting,
    expect_heartbeat,
    join_reply,
    joined_members,
    opened,
    react,
    remove_member,
    wait_for_join,
)
from headrace.coordination.classic.states import Event, State
from headrace.coordination.decision import Draft, WaitingId
from headrace.coordination.group import NO_MEMBER
from headrace.coordination.replies import JoinReply
from headrace.coordination.requests import JoinRequest


class Joining:
    """One join: the request, its group, and the decision under construction."""

    __slots__ = ("_draft", "_group", "_new_member_id", "_request", "_settings", "_waiting_id")

    def __init__(
        self,
        group: ClassicGroup,
        request: JoinRequest,
        *,
        waiting_id: WaitingId,
        unique: str,
        settings: ClassicSettings,
        draft: Draft,
    ) -> None:
        self._group = group
        self._request = request
        self._waiting_id = waiting_id
        prefix = request.client_id if request.instance_id is None else request.instance_id
        self._new_member_id = f"{prefix}-{unique}"
        self._settings = settings
        self._draft = draft

    def decide(self) -> JoinReply | None:
        """The reply, or None if it has to wait or is among the replies of the draft."""
        request = self._request
        if not self._has_room():
            self._turn_away()
            return JoinReply(error=ErrorCode.group_max_size_reached)
        names = {protocol.name for protocol in request.protocols}
        if not self._group.supports(request.protocol_type, names):
            return JoinReply(error=ErrorCode.inconsistent_group_protocol, member_id=request.member_id)
        if request.member_id != NO_MEMBER:
            return self._as_known()
        if request.instance_id is not None:
            former = self._group.static_member(request.instance_id)
            if former is not None:
                return self._replace_static(former)
        elif request.member_id_required:
            return self._give_an_id()
        self._add(self._new_member_id)
        return None

    def _has_room(self) -> bool:
        group, member_id = self._group, self._request.member_id
        if group.state is State.EMPTY:
            return True
        rebalance = group.rebalance
        if rebalance is not None and rebalance.state is State.PREPARING_REBALANCE:
            # Members that have not joined again may be dead, so they do not count.
            return member_id in rebalance.joins or len(rebalance.joins) < self._settings.max_size
        return member_id in group.members or len(group.members) < self._settings.max_size

    def _turn_away(self) -> None:
        group, member_id = self._group, self._request.member_id
        if member_id in group.pending_joins:
            group.pending_joins.discard(member_id)
            self._draft.cancel_timer(session_timer(group.group_id, member_id))
        elif member_id in group.members:
            remove_member(group, member_id, self._draft)
        react(group, Event.NEWCOMER_REFUSED, self._settings, self._draft)

    def _give_an_id(self) -> JoinReply:
        group, member_id = self._group, self._new_member_id
        group.pending_joins.add(member_id)
        key = session_timer(group.group_id, member_id)
        self._draft.set_timer(key, self._request.session_timeout_ms)
        return JoinReply(error=ErrorCode.member_id_required, member_id=member_id)

    def _as_known(self) -> JoinReply | None:
        group, request = self._group, self._request
        if request.member_id in group.pending_joins and request.instance_id is None:
            self._add(request.member_id)
            return None
        error = group.member_error(request.member_id, request.instance_id)
        if error is not ErrorCode.none:
            return JoinReply(error=error, member_id=request.member_id)
        member = group.members[request.member_id]
        state = group.state
        changed = member.protocols != request.protocols
        leads = group.leader == member.member_id
        if state is State.PREPARING_REBALANCE or changed or (state is State.STABLE and leads):
            self._join_again(member)
            return None
        # It missed the reply to its last join, or it is a follower without a reason to rebalance.
        return join_reply(group, member.member_id, with_members=state is State.COMPLETING_REBALANCE)

    def _join_again(self, member: Member) -> None:
        group, request = self._group, self._request
        rebalance = opened(group)
        rebalance.members[member.member_id] = replace(
            member,
            protocols=request.protocols,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
        )
        wait_for_join(rebalance, member.member_id, self._waiting_id, self._draft)
        react(group, Event.MEMBER_JOINED, self._settings, self._draft)

    def _add(self, member_id: str) -> None:
        group, request = self._group, self._request
        rebalance = opened(group)
        if rebalance.state is State.PREPARING_REBALANCE and rebalance.initial:
            rebalance.new_member_added = True
        member = Member(
            member_id=member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=request.protocols,
        )
        rebalance.put(member, request.protocol_type)
        rebalance.new.add(member_id)
        group.pending_joins.discard(member_id)
        wait_for_join(rebalance, member_id, self._waiting_id, self._draft)
        # If a client disappears while it waits for its first assignment, only this timeout shows it.
        key = session_timer(group.group_id, member_id)
        self._draft.set_timer(key, self._settings.new_member_join_timeout_ms)
        react(group, Event.MEMBER_JOINED, self._settings, self._draft)

    def _replace_static(self, former: Member) -> JoinReply | None:
        group, request, draft = self._group, self._request, self._draft
        replacement = replace(
            former,
            member_id=self._new_member_id,
            protocols=request.protocols,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
        )
        draft.cancel_timer(session_timer(group.group_id, former.member_id))
        expect_heartbeat(group, replacement, draft)
        if group.state is State.STABLE:
            members = {
                one.member_id: one for one in group.members.values() if one.member_id != former.member_id
            }
            members[replacement.member_id] = replacement
            if chosen_protocol(members) == group.protocol:
                return self._take_over(former, replacement, members)
        rebalance = opened(group)
        answer_waiting(rebalance, former.member_id, ErrorCode.fenced_instance_id, draft)
        rebalance.rename(former.member_id, replacement)
        group.offered.pop(former.member_id, None)
        wait_for_join(rebalance, replacement.member_id, self._waiting_id, draft)
        react(group, Event.MEMBER_JOINED, self._settings, draft)
        return None

    def _take_over(self, former: Member, replacement: Member, members: dict[str, Member]) -> JoinReply:
        group, draft = self._group, self._draft
        leads = group.leader == former.member_id
        leader = replacement.member_id if leads else group.leader
        since_ms = group.settled.state_since_ms
        stored = stored_from(
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            leader=leader,
            members=members,
            assignments={member.member_id: member.assignment for member in members.values()},
            now_ms=draft.now_ms if since_ms is None else since_ms,
        )
        draft.records.append(group_records.group_record(group.group_id, stored))
        group.offered.pop(former.member_id, None)
        group.offered[replacement.member_id] = replacement.protocols
        if former.member_id in group.pending_syncs:
            group.pending_syncs.discard(former.member_id)
            group.pending_syncs.add(replacement.member_id)
        reply = JoinReply(
            member_id=replacement.member_id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
        )
        if not self._request.can_skip_assignment:
            # An older client would assign if it led, so it is told that its former self leads.
            return replace(reply, leader=group.leader or NO_MEMBER)
        shown = joined_members(members, group.protocol) if leads else ()
        return replace(reply, leader=leader or NO_MEMBER, skip_assignment=leads, members=shown)
