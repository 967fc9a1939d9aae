"""Classic groups of dynamic members: joining, settling, heartbeats, leaving, timeouts, restarts."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from headrace.coordination.classic.group import session_timer
from headrace.coordination.classic.groups import ClassicGroups
from headrace.coordination.classic.rebalance import ClassicSettings
from headrace.coordination.classic.states import State
from headrace.coordination.requests import LeavingMember, OfferedProtocol
from tests.coordination.runtime import GROUP, REBALANCE_MS, SESSION_MS, Runtime, offers, subscription

DELAY_MS = ClassicSettings().initial_rebalance_delay_ms


@pytest.fixture
def runtime() -> Runtime:
    return Runtime()


def state(runtime: Runtime) -> State:
    return runtime.group().state


# Joining.


def test_somebody_new_is_given_an_id_first(runtime: Runtime) -> None:
    reply = runtime.joined(runtime.ask_join(client_id="reader"))
    assert reply.error is ErrorCode.member_id_required
    assert reply.member_id.startswith("reader-")
    assert state(runtime) is State.EMPTY


def test_before_kip_394_somebody_new_joins_at_once(runtime: Runtime) -> None:
    join = runtime.ask_join(member_id_required=False)
    assert join in runtime.waiting
    runtime.advance(DELAY_MS)
    assert runtime.joined(join).generation == 1


def test_an_id_that_is_not_used_is_forgotten(runtime: Runtime) -> None:
    member_id = runtime.member_id()
    runtime.advance(SESSION_MS)
    assert runtime.joined(runtime.ask_join(member_id=member_id)).error is ErrorCode.unknown_member_id


def test_the_first_to_join_leads_and_sees_the_others(runtime: Runtime) -> None:
    ids = [runtime.member_id() for _ in range(3)]
    joins = [runtime.ask_join(member_id=member_id) for member_id in ids]
    runtime.advance(2 * DELAY_MS)
    replies = [runtime.joined(join) for join in joins]
    assert {reply.generation for reply in replies} == {1}
    assert {reply.leader for reply in replies} == {ids[0]}
    assert {reply.protocol for reply in replies} == {"range"}
    assert {reply.protocol_type for reply in replies} == {"consumer"}
    assert [one.member_id for one in replies[0].members] == ids
    assert {one.metadata for one in replies[0].members} == {subscription("events")}
    assert [reply.members for reply in replies[1:]] == [(), ()]
    assert state(runtime) is State.COMPLETING_REBALANCE


def test_a_first_rebalance_waits_on_while_members_keep_coming(runtime: Runtime) -> None:
    first = runtime.ask_join(member_id=runtime.member_id())
    runtime.advance(DELAY_MS - 1)
    second = runtime.ask_join(member_id=runtime.member_id())
    runtime.advance(1)
    assert runtime.waiting == {first, second}
    runtime.advance(DELAY_MS)
    assert not runtime.waiting
    assert len(runtime.joined(first).members) == 2


def test_a_first_rebalance_does_not_wait_longer_than_the_rebalance_timeout() -> None:
    runtime = Runtime()
    timeout_ms = 2 * DELAY_MS
    joins = [runtime.ask_join(member_id=runtime.member_id(), rebalance_timeout_ms=timeout_ms)]
    for _ in range(2):
        runtime.advance(DELAY_MS - 1)
        joins.append(runtime.ask_join(member_id=runtime.member_id(), rebalance_timeout_ms=timeout_ms))
    runtime.advance(2)
    assert len(runtime.joined(joins[0]).members) == 3


def test_without_a_delay_the_first_member_starts_at_once() -> None:
    runtime = Runtime(classic=ClassicSettings(initial_rebalance_delay_ms=0))
    join = runtime.ask_join(member_id=runtime.member_id())
    runtime.advance(0)
    assert runtime.joined(join).generation == 1


def test_bad_requests_are_refused_and_make_no_group(runtime: Runtime) -> None:
    def error(**fields: object) -> ErrorCode:
        return runtime.joined(runtime.ask_join(**fields)).error

    assert error(group_id="") is ErrorCode.invalid_group_id
    assert error(session_timeout_ms=5_999) is ErrorCode.invalid_session_timeout
    assert error(session_timeout_ms=1_800_001) is ErrorCode.invalid_session_timeout
    assert error(member_id="made-up") is ErrorCode.unknown_member_id
    assert error(protocol_type="") is ErrorCode.inconsistent_group_protocol
    assert error(protocols=()) is ErrorCode.inconsistent_group_protocol
    assert not runtime.groups
    assert not runtime.log


def test_a_member_needs_a_protocol_that_all_know(runtime: Runtime) -> None:
    runtime.stable_group(2, protocols=offers("range", "sticky"))
    for refused in ({"protocols": offers("other")}, {"protocol_type": "connect"}):
        reply = runtime.joined(runtime.ask_join(**refused))
        assert reply.error is ErrorCode.inconsistent_group_protocol
    assert state(runtime) is State.STABLE
    runtime.member_id(protocols=offers("sticky"))


def test_votes_choose_the_protocol(runtime: Runtime) -> None:
    ids = [runtime.member_id() for _ in range(3)]
    preferences = [("range", "sticky"), ("sticky", "range"), ("sticky", "other", "range")]
    joins = [
        runtime.ask_join(member_id=member_id, protocols=offers(*names))
        for member_id, names in zip(ids, preferences, strict=True)
    ]
    runtime.advance(2 * DELAY_MS)
    assert runtime.joined(joins[0]).protocol == "sticky"


def test_a_group_has_a_largest_size() -> None:
    runtime = Runtime(classic=ClassicSettings(max_size=2))
    runtime.stable_group(2)
    reply = runtime.joined(runtime.ask_join())
    assert reply.error is ErrorCode.group_max_size_reached
    assert state(runtime) is State.STABLE


def test_while_a_rebalance_is_prepared_those_who_joined_count() -> None:
    runtime = Runtime(classic=ClassicSettings(max_size=2))
    first, second = runtime.stable_group(2)
    runtime.leave(LeavingMember(member_id=second))
    newcomer = runtime.ask_join(member_id=runtime.member_id())
    other = runtime.member_id()
    rejoined = runtime.ask_join(member_id=first)
    assert runtime.waiting == {newcomer, rejoined}
    refused = runtime.joined(runtime.ask_join(member_id=other))
    assert refused.error is ErrorCode.group_max_size_reached
    # Without the refused member nobody is missing.
    assert not runtime.waiting
    assert state(runtime) is State.COMPLETING_REBALANCE


def test_who_waits_has_its_place_when_it_asks_again() -> None:
    runtime = Runtime(classic=ClassicSettings(max_size=1))
    member_id = runtime.member_id()
    given_up = runtime.ask_join(member_id=member_id)
    again = runtime.ask_join(member_id=member_id)
    assert runtime.joined(given_up).error is ErrorCode.rebalance_in_progress
    assert again in runtime.waiting


# Settling.


def test_the_leader_assigns_and_all_get_theirs(runtime: Runtime) -> None:
    ids = [runtime.member_id() for _ in range(3)]
    for member_id in ids:
        runtime.ask_join(member_id=member_id)
    runtime.advance(2 * DELAY_MS)
    leader, second, third = ids
    waits = runtime.ask_sync(second, 1)
    assert waits in runtime.waiting
    leads = runtime.ask_sync(leader, 1, {leader: b"a", second: b"b"})
    assert runtime.synced(waits).assignment == b"b"
    assert runtime.synced(leads).assignment == b"a"
    assert state(runtime) is State.STABLE
    # Late members are answered at once; without an assignment they get an empty one.
    late = runtime.synced(runtime.ask_sync(third, 1))
    assert (late.error, late.assignment, late.protocol) == (ErrorCode.none, b"", "range")


def test_a_sync_must_fit_the_group(runtime: Runtime) -> None:
    (member_id,) = runtime.stable_group()

    def error(member_id: str = member_id, generation: int = 1, **fields: object) -> ErrorCode:
        asked = runtime.ask_sync(member_id, generation, None, **fields)
        return runtime.synced(asked).error

    assert error() is ErrorCode.none
    assert error(generation=2) is ErrorCode.illegal_generation
    assert error("other") is ErrorCode.unknown_member_id
    assert error(protocol="sticky") is ErrorCode.inconsistent_group_protocol
    assert error(protocol_type="connect") is ErrorCode.inconsistent_group_protocol
    assert error(protocol_type="consumer", protocol="range") is ErrorCode.none
    assert error(group_id="") is ErrorCode.invalid_group_id
    assert error(group_id="other") is ErrorCode.unknown_member_id


def test_a_member_that_changes_ends_the_waiting_for_assignments(runtime: Runtime) -> None:
    first, second = runtime.stable_group(2)
    runtime.ask_join(member_id=first)
    runtime.ask_join(member_id=second)
    assert state(runtime) is State.COMPLETING_REBALANCE
    waits = runtime.ask_sync(second, 2)
    runtime.ask_join(member_id=first, protocols=offers("range", topics=("events", "more")))
    assert runtime.synced(waits).error is ErrorCode.rebalance_in_progress
    assert state(runtime) is State.PREPARING_REBALANCE
    assert runtime.synced(runtime.ask_sync(second, 2)).error is ErrorCode.rebalance_in_progress


def test_who_waited_longer_than_a_session_has_a_whole_one_again(runtime: Runtime) -> None:
    leader, follower = runtime.stable_group(2)
    for member_id in (leader, follower):
        runtime.ask_join(member_id=member_id)
    runtime.ask_sync(follower, 2)
    for _ in range(3):
        runtime.advance(SESSION_MS - 1)
        assert runtime.heartbeat(leader, 2) is ErrorCode.none
    runtime.ask_join(member_id=leader, protocols=offers("range", topics=("more",)))
    assert runtime.timers[session_timer(GROUP, follower)] == runtime.now_ms + SESSION_MS


def test_who_never_asks_for_its_assignment_is_taken_for_dead(runtime: Runtime) -> None:
    first, second = runtime.stable_group(2)
    for member_id in (first, second):
        runtime.ask_join(member_id=member_id)
    runtime.ask_sync(first, 2, {first: b"all"})
    assert state(runtime) is State.STABLE
    for _ in range(REBALANCE_MS // 5_000):
        for member_id in (first, second):
            assert runtime.heartbeat(member_id, 2) is ErrorCode.none
        runtime.advance(5_000)
    assert state(runtime) is State.PREPARING_REBALANCE
    assert list(runtime.group().members) == [first]


def test_a_leader_that_never_assigns_is_taken_for_dead(runtime: Runtime) -> None:
    leader, follower = runtime.stable_group(2)
    for member_id in (leader, follower):
        runtime.ask_join(member_id=member_id)
    waits = runtime.ask_sync(follower, 2)
    for _ in range(REBALANCE_MS // 5_000):
        assert runtime.heartbeat(leader, 2) is ErrorCode.none
        runtime.advance(5_000)
    assert runtime.synced(waits).error is ErrorCode.rebalance_in_progress
    assert (state(runtime), list(runtime.group().members)) == (State.PREPARING_REBALANCE, [follower])


# Heartbeats and sessions.


def test_heartbeats_keep_a_member(runtime: Runtime) -> None:
    (member_id,) = runtime.stable_group()
    for _ in range(5):
        runtime.advance(SESSION_MS - 1)
        assert runtime.heartbeat(member_id, 1) is ErrorCode.none
    runtime.advance(SESSION_MS)
    assert state(runtime) is State.EMPTY
    assert runtime.group().generation == 2
    assert runtime.heartbeat(member_id, 1) is ErrorCode.unknown_member_id


def test_a_heartbeat_must_fit_the_group(runtime: Runtime) -> None:
    (member_id,) = runtime.stable_group()
    assert runtime.heartbeat(member_id, 0) is ErrorCode.illegal_generation
    assert runtime.heartbeat("other", 1) is ErrorCode.unknown_member_id
    assert runtime.heartbeat(member_id, 1, group_id="other") is ErrorCode.unknown_member_id
    assert runtime.heartbeat(member_id, 1, group_id="") is ErrorCode.invalid_group_id


def test_members_hear_of_a_rebalance_by_their_heartbeats(runtime: Runtime) -> None:
    (first,) = runtime.stable_group()
    second = runtime.member_id()
    joined = runtime.ask_join(member_id=second)
    assert runtime.heartbeat(first, 1) is ErrorCode.rebalance_in_progress
    runtime.ask_join(member_id=first)
    assert runtime.joined(joined).generation == 2
    assert runtime.heartbeat(first, 2) is ErrorCode.none
    assert runtime.heartbeat(first, 1) is ErrorCode.illegal_generation


def test_who_does_not_join_again_in_time_is_left_behind(runtime: Runtime) -> None:
    first, second = runtime.stable_group(2)
    joined = runtime.ask_join(member_id=first)
    for _ in range(REBALANCE_MS // 5_000):
        assert runtime.heartbeat(second, 1) is ErrorCode.rebalance_in_progress
        runtime.advance(5_000)
    assert [one.member_id for one in runtime.joined(joined).members] == [first]
    assert runtime.heartbeat(second, 2) is ErrorCode.unknown_member_id


def test_a_member_that_dies_does_not_hold_up_the_others(runtime: Runtime) -> None:
    first, second = runtime.stable_group(2)
    joined = runtime.ask_join(member_id=first)
    runtime.advance(SESSION_MS)
    assert [one.member_id for one in runtime.joined(joined).members] == [first]
    assert second not in runtime.group().members


def test_waiting_counts_as_living(runtime: Runtime) -> None:
    first, second = runtime.stable_group(2)
    joined = runtime.ask_join(member_id=first)
    for _ in range(4):
        runtime.advance(SESSION_MS - 1)
        runtime.heartbeat(second, 1)
    assert joined in runtime.waiting
    assert first in runtime.group().members


def test_a_newcomer_waits_only_so_long(runtime: Runtime) -> None:
    (first,) = runtime.stable_group(rebalance_timeout_ms=900_000)
    newcomer = runtime.ask_join(member_id=runtime.member_id())
    for _ in range(300_000 // 5_000):
        runtime.advance(5_000)
        runtime.heartbeat(first, 1)
    assert runtime.joined(newcomer).error is ErrorCode.unknown_member_id


def test_a_join_that_is_sent_again_takes_the_place_of_the_first(runtime: Runtime) -> None:
    first, second = runtime.stable_group(2)
    given_up = runtime.ask_join(member_id=first)
    again = runtime.ask_join(member_id=first)
    assert runtime.joined(given_up).error is ErrorCode.rebalance_in_progress
    runtime.ask_join(member_id=second)
    assert runtime.joined(again).generation == 2


def test_a_sync_that_is_sent_again_takes_the_place_of_the_first(runtime: Runtime) -> None:
    first, second = runtime.stable_group(2)
    runtime.ask_join(member_id=first)
    runtime.ask_join(member_id=second)
    given_up = runtime.ask_sync(second, 2)
    again = runtime.ask_sync(second, 2)
    assert runtime.synced(given_up).error is ErrorCode.rebalance_in_progress
    runtime.ask_sync(first, 2, {second: b"all"})
    assert runtime.synced(again).assignment == b"all"


def test_a_lost_reply_to_a_join_is_given_again(runtime: Runtime) -> None:
    first, second = runtime.stable_group(2)
    joins = [runtime.ask_join(member_id=member_id) for member_id in (first, second)]
    again = [runtime.ask_join(member_id=member_id) for member_id in (first, second)]
    assert [runtime.joined(one) for one in again] == [runtime.joined(one) for one in joins]
    assert state(runtime) is State.COMPLETING_REBALANCE


def test_a_follower_that_joins_again_unchanged_disturbs_nobody(runtime: Runtime) -> None:
    leader, follower = runtime.stable_group(2)
    reply = runtime.joined(runtime.ask_join(member_id=follower))
    assert (reply.error, reply.generation, reply.leader) == (ErrorCode.none, 1, leader)
    assert state(runtime) is State.STABLE
    runtime.ask_join(member_id=leader)
    assert state(runtime) is State.PREPARING_REBALANCE


def test_a_follower_that_subscribes_to_more_begins_a_rebalance(runtime: Runtime) -> None:
    _, follower = runtime.stable_group(2)
    runtime.ask_join(member_id=follower, protocols=offers("range", topics=("more",)))
    assert state(runtime) is State.PREPARING_REBALANCE


# Leaving.


def test_who_leaves_is_gone_at_once(runtime: Runtime) -> None:
    first, second = runtime.stable_group(2)
    reply = runtime.leave(LeavingMember(member_id=second))
    assert [one.error for one in reply.members] == [ErrorCode.none]
    assert state(runtime) is State.PREPARING_REBALANCE
    joined = runtime.ask_join(member_id=first)
    assert [one.member_id for one in runtime.joined(joined).members] == [first]


def test_the_others_do_not_wait_for_who_leaves(runtime: Runtime) -> None:
    first, second = runtime.stable_group(2)
    joined = runtime.ask_join(member_id=first)
    runtime.leave(LeavingMember(member_id=second))
    assert [one.member_id for one in runtime.joined(joined).members] == [first]


def test_the_others_wait_only_so_long_for_who_asked_for_an_id(runtime: Runtime) -> None:
    (first,) = runtime.stable_group()
    runtime.member_id(session_timeout_ms=6_000)
    joined = runtime.ask_join(member_id=first)
    runtime.advance(5_999)
    assert joined in runtime.waiting
    runtime.advance(1)
    assert [one.member_id for one in runtime.joined(joined).members] == [first]


def test_several_leave_with_one_rebalance(runtime: Runtime) -> None:
    ids = runtime.stable_group(3)
    reply = runtime.leave(*(LeavingMember(member_id=one) for one in (*ids, "stranger")))
    errors = [one.error for one in reply.members]
    assert errors == [ErrorCode.none] * 3 + [ErrorCode.unknown_member_id]
    assert state(runtime) is State.EMPTY
    assert runtime.group().generation == 2
    assert not [key for key in runtime.timers if key[0] == "classic"]


def test_who_leaves_while_it_waits_is_told(runtime: Runtime) -> None:
    first, second = runtime.stable_group(2)
    joined = runtime.ask_join(member_id=first)
    runtime.leave(LeavingMember(member_id=first))
    assert runtime.joined(joined).error is ErrorCode.unknown_member_id
    runtime.ask_join(member_id=second)
    waiting = runtime.member_id()
    runtime.ask_join(member_id=waiting)
    runtime.ask_join(member_id=second)
    assert state(runtime) is State.COMPLETING_REBALANCE
    follower = next(one for one in runtime.group().members if one != runtime.group().leader)
    synced = runtime.ask_sync(follower, runtime.group().generation)
    runtime.leave(LeavingMember(member_id=follower))
    assert runtime.synced(synced).error is ErrorCode.unknown_member_id


def test_somebody_with_an_id_only_can_leave(runtime: Runtime) -> None:
    member_id = runtime.member_id()
    assert runtime.leave(LeavingMember(member_id=member_id)).members[0].error is ErrorCode.none
    assert runtime.joined(runtime.ask_join(member_id=member_id)).error is ErrorCode.unknown_member_id


def test_nobody_leaves_a_group_that_there_is_not(runtime: Runtime) -> None:
    reply = runtime.leave(LeavingMember(member_id="m"), group_id="other")
    assert [one.error for one in reply.members] == [ErrorCode.unknown_member_id]
    assert runtime.leave(group_id="").error is ErrorCode.invalid_group_id


def test_when_the_leader_leaves_another_leads(runtime: Runtime) -> None:
    leader, follower = runtime.stable_group(2)
    runtime.leave(LeavingMember(member_id=leader))
    joined = runtime.ask_join(member_id=follower)
    assert runtime.joined(joined).leader == follower


# Restarts and failed writes.


def test_a_stable_group_goes_on_after_a_restart(runtime: Runtime) -> None:
    first, second = runtime.stable_group(2)
    before = runtime.group().settled
    runtime.reload()
    assert runtime.group().settled == before
    for member_id in (first, second):
        assert runtime.heartbeat(member_id, 1) is ErrorCode.none
        assert runtime.synced(runtime.ask_sync(member_id, 1)).assignment == member_id.encode()
    runtime.advance(SESSION_MS)
    assert state(runtime) is State.EMPTY


def test_a_rebalance_is_forgotten_by_a_restart(runtime: Runtime) -> None:
    first, second = runtime.stable_group(2)
    for member_id in (first, second):
        runtime.ask_join(member_id=member_id)
    assert runtime.group().generation == 2
    runtime.reload()
    assert (state(runtime), runtime.group().generation) == (State.STABLE, 1)
    assert runtime.heartbeat(first, 2) is ErrorCode.illegal_generation


def test_protocols_beside_the_chosen_one_are_kept_until_a_restart(runtime: Runtime) -> None:
    runtime.stable_group(protocols=offers("range", "sticky"))
    assert runtime.group().supports("consumer", {"sticky"})
    runtime.reload()
    assert not runtime.group().supports("consumer", {"sticky"})
    assert runtime.group().supports("consumer", {"range"})


def test_a_group_over_a_lowered_limit_is_rebalanced_when_it_is_loaded(runtime: Runtime) -> None:
    runtime.stable_group(3)
    small = ClassicGroups(runtime.groups, ClassicSettings(max_size=2))
    runtime.apply(small.loaded(runtime.now_ms))
    assert state(runtime) is State.PREPARING_REBALANCE


def test_an_assignment_that_cannot_be_written_is_given_to_nobody(runtime: Runtime) -> None:
    first, second = runtime.stable_group(2)
    for member_id in (first, second):
        runtime.ask_join(member_id=member_id)
    waits = runtime.ask_sync(second, 2)
    runtime.fail_next_write = True
    leads = runtime.ask_sync(first, 2, {second: b"all"})
    for asked in (waits, leads):
        assert runtime.synced(asked).error is ErrorCode.coordinator_not_available
        assert runtime.synced(asked).assignment == b""
    assert (state(runtime), runtime.group().generation) == (State.STABLE, 1)
    assert runtime.heartbeat(first, 1) is ErrorCode.none


def test_a_leave_that_cannot_be_written_leaves_no_timers_behind(runtime: Runtime) -> None:
    member_id = runtime.member_id()
    runtime.ask_join(member_id=member_id)
    runtime.advance(DELAY_MS)
    runtime.fail_next_write = True
    reply = runtime.leave(LeavingMember(member_id=member_id))
    assert reply.error is ErrorCode.coordinator_not_available
    assert (state(runtime), runtime.group().generation) == (State.EMPTY, 0)
    assert not runtime.timers


def test_a_new_group_that_cannot_be_written_is_none(runtime: Runtime) -> None:
    runtime.fail_next_write = True
    reply = runtime.joined(runtime.ask_join())
    assert reply.error is ErrorCode.coordinator_not_available
    assert GROUP not in runtime.groups
    assert not runtime.timers


def test_a_group_that_becomes_another_kind_lets_go_of_all_who_wait(runtime: Runtime) -> None:
    first, second = runtime.stable_group(2)
    joined = runtime.ask_join(member_id=first)
    decision = runtime.classic.dissolve(GROUP, ErrorCode.rebalance_in_progress, runtime.now_ms)
    runtime.apply(decision)
    assert runtime.joined(joined).error is ErrorCode.rebalance_in_progress
    assert not runtime.timers
    assert state(runtime) is State.STABLE
    runtime.apply(runtime.classic.resume(GROUP, runtime.now_ms, rebalance=True))
    assert state(runtime) is State.PREPARING_REBALANCE
    assert {key[1] for key in runtime.timers} == {"session", "join"}
    assert second in runtime.group().members


def test_what_is_offered_twice_is_no_change(runtime: Runtime) -> None:
    protocols = (OfferedProtocol(name="range", metadata=b"not a subscription"),)
    _, follower = runtime.stable_group(2, protocols=protocols)
    assert runtime.group().topics is None
    assert runtime.group().subscribed_to("anything")
    assert runtime.joined(runtime.ask_join(member_id=follower, protocols=protocols)).error is ErrorCode.none
