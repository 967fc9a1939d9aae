"""The state machine of classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, their timers and records.

Records of type 2 (`records.py`) are durable, one for each settled generation; the rest is transient
(`group.py`). Timers: `("classic", "session" | "join" | "sync", group id, …)`. After a load, `loaded` sets
those of the sessions.

Invariants: every request is answered once. Members get the assignments of a generation only after its record
is written, so a generation has one assignment, whatever restarts. If a decision could not be written, the
group is as a load would find it (`write_failed`).
Never: sees requests about groups of the consumer protocol; the runtime sends those elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from kio.schema.errors import ErrorCode

from headrace.coordination.classic import records as group_records
from headrace.coordination.classic.group import ClassicGroup, session_timer, sync_timer
from headrace.coordination.classic.joining import Joining
from headrace.coordination.classic.members import settled_from
from headrace.coordination.classic.rebalance import (
    ClassicSettings,
    dissolve,
    expect_heartbeat,
    react,
    remove_member,
    settle,
)
from headrace.coordination.classic.records import StoredGroup
from headrace.coordination.classic.states import MUST_JOIN_AGAIN, Event
from headrace.coordination.decision import Decision, Draft, Record, Reply, SomeReply, TimerKey, WaitingId
from headrace.coordination.group import NO_MEMBER, Groups
from headrace.coordination.replies import (
    HeartbeatReply,
    JoinReply,
    LeaveReply,
    LeftMember,
    NoReply,
    SyncReply,
)
from headrace.coordination.requests import (
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    SyncRequest,
)


class ClassicGroups:
    """Decides about the classic groups in `groups`, a dictionary that it shares with the other machines."""

    __slots__ = ("_groups", "_settings")

    def __init__(self, groups: Groups, settings: ClassicSettings | None = None) -> None:
        self._groups = groups
        self._settings = settings or ClassicSettings()

    def group(self, group_id: str) -> ClassicGroup | None:
        """The classic group with this id, if there is one."""
        group = self._groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def _classic(self) -> Iterator[ClassicGroup]:
        for group in list(self._groups.values()):
            if isinstance(group, ClassicGroup):
                yield group

    # Requests.

    def decide_join(
        self, request: JoinRequest, *, waiting_id: WaitingId, unique: str, now_ms: int
    ) -> Decision[JoinReply]:
        """JoinGroup. `unique` (a random UUID as text) becomes part of the id of a new member."""
        settings = self._settings
        error = ErrorCode.none
        if not request.group_id:
            error = ErrorCode.invalid_group_id
        elif not (
            settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms
        ):
            error = ErrorCode.invalid_session_timeout
        known = self.group(request.group_id)
        if error is ErrorCode.none and known is None:
            if request.group_id in self._groups:
                error = ErrorCode.inconsistent_group_protocol
            elif request.member_id != NO_MEMBER:
                error = ErrorCode.unknown_member_id
        if error is not ErrorCode.none:
            return Decision(reply=JoinReply(error=error, member_id=request.member_id))
        group = known or ClassicGroup(request.group_id)
        draft = Draft(now_ms)
        joining = Joining(
            group, request, waiting_id=waiting_id, unique=unique, settings=settings, draft=draft
        )
        reply = joining.decide()
        if known is None and (group.pending_joins or group.rebalance is not None):
            # Like Kafka, write a new group before it has members, so that its id is taken from now on.
            self._groups[group.group_id] = group
            draft.records.insert(0, self._new_group_record(group.group_id, now_ms))
        return draft.decision(reply)

    @staticmethod
    def _new_group_record(group_id: str, now_ms: int) -> Record:
        stored = StoredGroup(
            protocol_type="",
            generation=0,
            protocol=None,
            leader=None,
            state_since_ms=now_ms,
            members=(),
        )
        return group_records.group_record(group_id, stored)

    def decide_sync(self, request: SyncRequest, *, waiting_id: WaitingId, now_ms: int) -> Decision[SyncReply]:
        """SyncGroup: the leader brings the assignments, the others wait for theirs."""
        if not request.group_id:
            return Decision(reply=SyncReply(error=ErrorCode.invalid_group_id))
        group = self.group(request.group_id)
        if group is None:
            return Decision(reply=SyncReply(error=ErrorCode.unknown_member_id))
        error = self._sync_error(group, request)
        if error is not ErrorCode.none:
            return Decision(reply=SyncReply(error=error))
        draft = Draft(now_ms)
        group.pending_syncs.discard(request.member_id)
        if not group.pending_syncs:
            draft.cancel_timer(sync_timer(group.group_id))
        rebalance = group.rebalance
        if rebalance is None:
            member = group.members[request.member_id]
            reply = SyncReply(
                protocol_type=group.protocol_type, protocol=group.protocol, assignment=member.assignment
            )
            return draft.decision(reply)
        earlier = rebalance.syncs.get(request.member_id)
        if earlier is not None:
            draft.answer(earlier, SyncReply(error=ErrorCode.rebalance_in_progress))
        rebalance.syncs[request.member_id] = waiting_id
        if rebalance.leader == request.member_id:
            settle(group, dict(request.assignments), draft)
        return draft.decision()

    @staticmethod
    def _sync_error(group: ClassicGroup, request: SyncRequest) -> ErrorCode:
        error = group.member_error(request.member_id, request.instance_id)
        if error is not ErrorCode.none:
            return error
        if request.generation != group.generation:
            return ErrorCode.illegal_generation
        # Since version 5 the client says which protocol it believes was chosen (KIP-559).
        for theirs, ours in (
            (request.protocol_type, group.protocol_type),
            (request.protocol, group.protocol),
        ):
            if theirs is not None and ours is not None and theirs != ours:
                return ErrorCode.inconsistent_group_protocol
        return MUST_JOIN_AGAIN[group.state]

    def decide_heartbeat(self, request: HeartbeatRequest, *, now_ms: int) -> Decision[HeartbeatReply]:
        """Heartbeat: extend the session. The reply says whether the member has to join again."""
        if not request.group_id:
            return Decision(reply=HeartbeatReply(error=ErrorCode.invalid_group_id))
        group = self.group(request.group_id)
        if group is None:
            return Decision(reply=HeartbeatReply(error=ErrorCode.unknown_member_id))
        error = group.member_error(request.member_id, request.instance_id)
        if error is ErrorCode.none and request.generation != group.generation:
            error = ErrorCode.illegal_generation
        if error is not ErrorCode.none:
            return Decision(reply=HeartbeatReply(error=error))
        draft = Draft(now_ms)
        expect_heartbeat(group, group.members[request.member_id], draft)
        return draft.decision(HeartbeatReply(error=MUST_JOIN_AGAIN[group.state]))

    def decide_leave(self, request: LeaveRequest, *, now_ms: int) -> Decision[LeaveReply]:
        """LeaveGroup of one or several members, with one rebalance for all."""
        if not request.group_id:
            return Decision(reply=LeaveReply(error=ErrorCode.invalid_group_id))
        group = self.group(request.group_id)
        draft = Draft(now_ms)
        left = []
        for leaving in request.members:
            error = ErrorCode.unknown_member_id if group is None else self._leave_one(group, leaving, draft)
            left.append(LeftMember(member_id=leaving.member_id, instance_id=leaving.instance_id, error=error))
        if group is not None and any(one.error is ErrorCode.none for one in left):
            react(group, Event.MEMBER_LEFT, self._settings, draft)
        return draft.decision(LeaveReply(members=tuple(left)))

    @staticmethod
    def _leave_one(group: ClassicGroup, leaving: LeavingMember, draft: Draft) -> ErrorCode:
        member_id = leaving.member_id
        if member_id == NO_MEMBER:
            # An administrator removes a static member by its instance id (KIP-345).
            holder = None if leaving.instance_id is None else group.static_member(leaving.instance_id)
            if holder is None:
                return ErrorCode.unknown_member_id
            member_id = holder.member_id
        elif member_id in group.pending_joins:
            group.pending_joins.discard(member_id)
            draft.cancel_timer(session_timer(group.group_id, member_id))
            return ErrorCode.none
        else:
            error = group.member_error(member_id, leaving.instance_id)
            if error is not ErrorCode.none:
                return error
        remove_member(group, member_id, draft)
        return ErrorCode.none

    # Timers.

    def timed_out(self, key: TimerKey, now_ms: int) -> Decision[NoReply]:
        """A timer of this machine is due."""
        draft = Draft(now_ms)
        group = self.group(str(key[2]))
        if group is not None:
            if key[1] == "session":
                self._session_ended(group, str(key[3]), draft)
            elif key[1] == "join":
                react(group, Event.JOIN_TIME_OVER, self._settings, draft)
            else:
                self._sync_time_is_over(group, draft)
        return draft.decision()

    def _session_ended(self, group: ClassicGroup, member_id: str, draft: Draft) -> None:
        if member_id in group.pending_joins:
            group.pending_joins.discard(member_id)
            react(group, Event.NEWCOMER_EXPIRED, self._settings, draft)
        elif member_id in group.members and not group.keeps_waiting(member_id):
            remove_member(group, member_id, draft)
            react(group, Event.MEMBER_EXPIRED, self._settings, draft)

    def _sync_time_is_over(self, group: ClassicGroup, draft: Draft) -> None:
        """Remove members that joined and never asked for their assignment."""
        if group.pending_syncs:
            for member_id in sorted(group.pending_syncs):
                remove_member(group, member_id, draft)
            react(group, Event.SYNC_TIME_OVER, self._settings, draft)

    # Records.

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply a record of type 2, live or at load."""
        group_id = group_records.read_key(key)
        if value is None:
            if self.group(group_id) is not None:
                del self._groups[group_id]
            return
        stored = group_records.read_value(value)
        group = self.group(group_id)
        if group is None:
            group = self._groups[group_id] = ClassicGroup(group_id)
        if stored.generation > group.settled.generation:
            # This record ends the rebalance. The record of a new group (generation 0) ends none.
            group.rebalance = None
        group.written = True
        group.settled = settled_from(stored, group.offered)
        group.offered = {one: group.offered[one] for one in group.settled.members if one in group.offered}

    def loaded(self, now_ms: int) -> Decision[NoReply]:
        """All records of the partition have been replayed: begin the session of every member."""
        draft = Draft(now_ms)
        for group in self._classic():
            self._resume(group, draft)
        return draft.decision()

    def resume(self, group_id: str, now_ms: int, *, rebalance: bool = False) -> Decision[NoReply]:
        """Set the timers of a group that records created, such as a former consumer group."""
        draft = Draft(now_ms)
        group = self.group(group_id)
        if group is not None:
            self._resume(group, draft)
            if rebalance:
                react(group, Event.RESTORED, self._settings, draft)
        return draft.decision()

    def _resume(self, group: ClassicGroup, draft: Draft) -> None:
        for member in group.members.values():
            expect_heartbeat(group, member, draft)
        if len(group.members) > self._settings.max_size:
            # The limit was lowered in the meantime: those who join first stay.
            react(group, Event.RESTORED, self._settings, draft)

    def dissolve(self, group_id: str, error: ErrorCode, now_ms: int) -> Decision[NoReply]:
        """Answer all waiting requests and cancel all timers: the group becomes a consumer group (KIP-848)."""
        draft = Draft(now_ms)
        group = self.group(group_id)
        if group is not None:
            dissolve(group, error, draft)
        return draft.decision()

    def write_failed(
        self, group_id: str, decision: Decision[SomeReply], error: ErrorCode, now_ms: int
    ) -> Decision[Reply]:
        """What happens instead of a decision whose records could not be written.

        The group becomes as a load would find it. Everybody who waits or was promised something gets the
        error, and the members join again.
        """
        draft = Draft(now_ms)
        reply = draft.take_back(decision, error)
        group = self.group(group_id)
        if group is not None:
            dissolve(group, error, draft)
            if group.written:
                self._resume(group, draft)
            else:
                del self._groups[group_id]
        return draft.decision(reply)
