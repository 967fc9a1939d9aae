"""How a classic group rebalances: all members join again, the leader assigns, the new generation is written.

Besides requests, three timers drive it: the *join* timer of a group (the initial delay, KIP-134, or the
longest rebalance timeout of its members), its *sync* timer (for members that joined and never ask for their
assignment), and a *session* timer for each member.

Invariants: every waiting join or sync is answered exactly once, whatever becomes of the rebalance. Only a
record ends a rebalance: `settle` and `_empty` write it, and replaying it does the rest. The table in
`states.py` says which step follows an event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from kio.schema.errors import ErrorCode

from headrace.coordination.classic import records as group_records
from headrace.coordination.classic.group import (
    ClassicGroup,
    Rebalance,
    join_timer,
    session_timer,
    sync_timer,
)
from headrace.coordination.classic.members import Member, chosen_protocol, stored_from
from headrace.coordination.classic.states import STEPS, Event, State, Step
from headrace.coordination.decision import Draft, WaitingId
from headrace.coordination.group import NO_GENERATION
from headrace.coordination.replies import JoinedMember, JoinReply, SyncReply


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicSettings:
    """The broker's settings for classic groups (`group.*`), with Kafka's defaults."""

    initial_rebalance_delay_ms: int = 3_000
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    # How long a new member may wait for its first rebalance to complete. Kafka has no setting for it either.
    new_member_join_timeout_ms: int = 300_000


def expect_heartbeat(group: ClassicGroup, member: Member, draft: Draft) -> None:
    """Begin the member's session timeout anew."""
    draft.set_timer(session_timer(group.group_id, member.member_id), member.session_timeout_ms)


def opened(group: ClassicGroup) -> Rebalance:
    """The copy in which members change. The caller must `react` within the same decision."""
    if group.rebalance is None:
        group.rebalance = Rebalance(group.settled, group.state)
    return group.rebalance


def _under_way(group: ClassicGroup) -> Rebalance:
    if group.rebalance is None:
        raise AssertionError(f"group {group.group_id} is not in a rebalance")
    return group.rebalance


def remove_member(group: ClassicGroup, member_id: str, draft: Draft) -> None:
    """Remove a member from the copy, and answer the requests of it that wait."""
    rebalance = opened(group)
    answer_waiting(rebalance, member_id, ErrorCode.unknown_member_id, draft)
    rebalance.remove(member_id)
    group.pending_syncs.discard(member_id)
    group.offered.pop(member_id, None)
    draft.cancel_timer(session_timer(group.group_id, member_id))


def answer_waiting(rebalance: Rebalance, member_id: str, error: ErrorCode, draft: Draft) -> None:
    """Answer the waiting requests of this member with an error."""
    waiting = rebalance.joins.pop(member_id, None)
    if waiting is not None:
        named = member_id if error is ErrorCode.fenced_instance_id else ""
        draft.answer(waiting, JoinReply(error=error, member_id=named))
    waiting = rebalance.syncs.pop(member_id, None)
    if waiting is not None:
        draft.answer(waiting, SyncReply(error=error))


def wait_for_join(rebalance: Rebalance, member_id: str, waiting_id: WaitingId, draft: Draft) -> None:
    """Let a join wait. An earlier one of the member, from an abandoned connection, gets an error."""
    earlier = rebalance.joins.get(member_id)
    if earlier is not None:
        draft.answer(earlier, JoinReply(error=ErrorCode.rebalance_in_progress, member_id=member_id))
    rebalance.joins[member_id] = waiting_id


def react(group: ClassicGroup, event: Event, settings: ClassicSettings, draft: Draft) -> None:
    """Take the step that the table names for this event. The caller has changed the members already."""
    step = STEPS[event].get(group.state)
    if step is not None:
        _TAKE[step](group, settings, draft)


def _prepare(group: ClassicGroup, settings: ClassicSettings, draft: Draft) -> None:
    """Begin a rebalance, or begin it anew: all members have to join again."""
    rebalance = opened(group)
    if rebalance.state is State.COMPLETING_REBALANCE:
        for member_id, waiting in rebalance.syncs.items():
            draft.answer(waiting, SyncReply(error=ErrorCode.rebalance_in_progress))
            expect_heartbeat(group, rebalance.members[member_id], draft)
        rebalance.syncs.clear()
        rebalance.members = {
            member_id: replace(member, assignment=b"") for member_id, member in rebalance.members.items()
        }
    group.pending_syncs.clear()
    draft.cancel_timer(sync_timer(group.group_id))
    rebalance.initial = rebalance.state is State.EMPTY
    rebalance.state = State.PREPARING_REBALANCE
    if rebalance.initial:
        rebalance.new_member_added = False
        rebalance.delay_ms = settings.initial_rebalance_delay_ms
        rebalance.delay_remaining_ms = max(rebalance.timeout_ms - rebalance.delay_ms, 0)
        draft.set_timer(join_timer(group.group_id), rebalance.delay_ms)
    elif group.all_joined:
        _complete(group, draft)
    else:
        draft.set_timer(join_timer(group.group_id), rebalance.timeout_ms)


def _complete_if_joined(group: ClassicGroup, _settings: ClassicSettings, draft: Draft) -> None:
    if group.all_joined and not _under_way(group).initial:
        _complete(group, draft)


def _complete_early_if_joined(group: ClassicGroup, _settings: ClassicSettings, draft: Draft) -> None:
    if group.all_joined:
        _complete(group, draft)


def _complete_or_wait_on(group: ClassicGroup, settings: ClassicSettings, draft: Draft) -> None:
    """A first rebalance goes on waiting while new members keep coming (KIP-134)."""
    rebalance = _under_way(group)
    if rebalance.initial and rebalance.new_member_added and rebalance.delay_remaining_ms > 0:
        rebalance.new_member_added = False
        waited_ms = rebalance.delay_ms
        rebalance.delay_ms = min(settings.initial_rebalance_delay_ms, rebalance.delay_remaining_ms)
        rebalance.delay_remaining_ms = max(rebalance.delay_remaining_ms - waited_ms, 0)
        draft.set_timer(join_timer(group.group_id), rebalance.delay_ms)
        return
    _complete(group, draft)


def _complete(group: ClassicGroup, draft: Draft) -> None:
    """Everybody has joined or had the time to: those who did form the next generation.

    Static members that did not join again keep their place (KIP-345): until their session ends they may
    just be restarting.
    """
    rebalance = _under_way(group)
    draft.cancel_timer(join_timer(group.group_id))
    for member in list(rebalance.members.values()):
        if member.member_id not in rebalance.joins and member.instance_id is None:
            remove_member(group, member.member_id, draft)
    if not rebalance.members:
        _empty(group, rebalance, draft)
        return
    if not rebalance.elect_joined_leader():
        draft.set_timer(join_timer(group.group_id), rebalance.timeout_ms)
        return
    rebalance.begin_completing(chosen_protocol(rebalance.members))
    joins = rebalance.joins
    rebalance.joins = {}
    for member in rebalance.members.values():
        waiting = joins.get(member.member_id)
        if waiting is not None:
            draft.answer(waiting, join_reply(group, member.member_id))
        expect_heartbeat(group, member, draft)
    group.pending_syncs = set(rebalance.members)
    draft.set_timer(sync_timer(group.group_id), rebalance.timeout_ms)


_TAKE: Final[Mapping[Step, Callable[[ClassicGroup, ClassicSettings, Draft], None]]] = {
    Step.PREPARE: _prepare,
    Step.COMPLETE_IF_JOINED: _complete_if_joined,
    Step.COMPLETE_EARLY_IF_JOINED: _complete_early_if_joined,
    Step.COMPLETE_OR_WAIT_ON: _complete_or_wait_on,
}


def join_reply(group: ClassicGroup, member_id: str, *, with_members: bool = True) -> JoinReply:
    """The reply to a member of the current generation; the leader also gets the list of members."""
    shown = with_members and group.leader == member_id
    return JoinReply(
        member_id=member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader or "",
        members=joined_members(group.members, group.protocol) if shown else (),
    )


def joined_members(members: Mapping[str, Member], protocol: str | None) -> tuple[JoinedMember, ...]:
    return tuple(
        JoinedMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            metadata=member.metadata(protocol),
        )
        for member in members.values()
    )


def _empty(group: ClassicGroup, rebalance: Rebalance, draft: Draft) -> None:
    """All members are gone: write an empty generation. The retention of its offsets begins."""
    rebalance.generation += 1
    stored = stored_from(
        generation=rebalance.generation,
        protocol_type=rebalance.protocol_type,
        protocol=None,
        leader=None,
        members={},
        assignments={},
        now_ms=draft.now_ms,
    )
    draft.records.append(group_records.group_record(group.group_id, stored))


def settle(group: ClassicGroup, assignments: Mapping[str, bytes], draft: Draft) -> None:
    """The leader has assigned: write the generation, and give everybody who waits their assignment."""
    rebalance = _under_way(group)
    stored = stored_from(
        generation=rebalance.generation,
        protocol_type=rebalance.protocol_type,
        protocol=rebalance.protocol,
        leader=rebalance.leader,
        members=rebalance.members,
        assignments=assignments,
        now_ms=draft.now_ms,
    )
    draft.records.append(group_records.group_record(group.group_id, stored))
    for member_id, waiting in rebalance.syncs.items():
        reply = SyncReply(
            protocol_type=rebalance.protocol_type,
            protocol=rebalance.protocol,
            assignment=assignments.get(member_id, b""),
        )
        draft.answer(waiting, reply)
        expect_heartbeat(group, rebalance.members[member_id], draft)
    rebalance.syncs.clear()
    group.offered = {member.member_id: member.protocols for member in rebalance.members.values()}


def dissolve(group: ClassicGroup, error: ErrorCode, draft: Draft) -> None:
    """Drop all transient state: answer waiting requests with the error, cancel the group's timers."""
    draft.cancel_timer(join_timer(group.group_id))
    draft.cancel_timer(sync_timer(group.group_id))
    for member_id in (*group.members, *group.pending_joins):
        draft.cancel_timer(session_timer(group.group_id, member_id))
    if group.rebalance is not None:
        for member_id, waiting in group.rebalance.joins.items():
            draft.answer(waiting, JoinReply(error=error, member_id=member_id, generation=NO_GENERATION))
        for waiting in group.rebalance.syncs.values():
            draft.answer(waiting, SyncReply(error=error))
    group.rebalance = None
    group.pending_joins.clear()
    group.pending_syncs.clear()
