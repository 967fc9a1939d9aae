"""Static members (KIP-345): coming back, being replaced, being removed by an administrator."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from headrace.coordination.classic.group import session_timer
from headrace.coordination.classic.rebalance import ClassicSettings
from headrace.coordination.classic.states import State
from headrace.coordination.requests import LeavingMember, OffsetToCommit
from tests.coordination.runtime import GROUP, REBALANCE_MS, SESSION_MS, Runtime, offers

DELAY_MS = ClassicSettings().initial_rebalance_delay_ms


@pytest.fixture
def runtime() -> Runtime:
    return Runtime()


def stable(runtime: Runtime, *instances: str) -> dict[str, str]:
    """A stable group of static members: member ids by instance id. The first one leads."""
    joins = {instance: runtime.ask_join(instance_id=instance) for instance in instances}
    runtime.advance(2 * DELAY_MS)
    ids = {instance: runtime.joined(join).member_id for instance, join in joins.items()}
    runtime.settle({member_id: instance.encode() for instance, member_id in ids.items()})
    return ids


def test_a_static_member_joins_without_asking_twice(runtime: Runtime) -> None:
    ids = stable(runtime, "one")
    assert ids["one"].startswith("one-")
    assert runtime.group().state is State.STABLE


def test_a_follower_that_comes_back_takes_over_without_a_rebalance(runtime: Runtime) -> None:
    ids = stable(runtime, "one", "two")
    reply = runtime.joined(runtime.ask_join(instance_id="two"))
    assert (reply.error, reply.generation, reply.leader) == (ErrorCode.none, 1, ids["one"])
    assert not reply.skip_assignment
    assert reply.members == ()
    assert reply.member_id not in ids.values()
    assert runtime.group().state is State.STABLE
    synced = runtime.synced(runtime.ask_sync(reply.member_id, 1, instance_id="two"))
    assert synced.assignment == b"two"
    runtime.reload()
    assert runtime.heartbeat(reply.member_id, 1, instance_id="two") is ErrorCode.none


def test_all_that_it_offers_when_it_comes_back_counts(runtime: Runtime) -> None:
    ids = stable(runtime, "one")
    assert not runtime.group().supports("consumer", {"sticky"})
    runtime.ask_join(instance_id="one", protocols=offers("range", "sticky"))
    assert runtime.group().state is State.STABLE
    assert runtime.group().supports("consumer", {"sticky"})
    assert session_timer(GROUP, ids["one"]) not in runtime.timers


def test_who_takes_over_must_ask_for_the_assignment_that_its_former_self_never_fetched(
    runtime: Runtime,
) -> None:
    joins = {instance: runtime.ask_join(instance_id=instance) for instance in ("one", "two")}
    runtime.advance(2 * DELAY_MS)
    leader = runtime.joined(joins["one"]).member_id
    runtime.ask_sync(leader, 1, {}, instance_id="one")
    replacement = runtime.joined(runtime.ask_join(instance_id="two")).member_id
    assert runtime.group().state is State.STABLE
    for _ in range(REBALANCE_MS // 5_000):
        for instance, member_id in (("one", leader), ("two", replacement)):
            assert runtime.heartbeat(member_id, 1, instance_id=instance) is ErrorCode.none
        runtime.advance(5_000)
    assert list(runtime.group().members) == [leader]


def test_a_leader_that_comes_back_is_told_not_to_assign(runtime: Runtime) -> None:
    stable(runtime, "one", "two")
    reply = runtime.joined(runtime.ask_join(instance_id="one"))
    assert reply.leader == reply.member_id
    assert reply.skip_assignment
    assert {one.instance_id for one in reply.members} == {"one", "two"}
    assert runtime.group().state is State.STABLE


def test_an_older_leader_that_comes_back_does_not_hear_that_it_leads(runtime: Runtime) -> None:
    ids = stable(runtime, "one", "two")
    reply = runtime.joined(runtime.ask_join(instance_id="one", can_skip_assignment=False))
    assert reply.leader == ids["one"]
    assert not reply.skip_assignment
    assert reply.members == ()
    assert runtime.group().leader == reply.member_id


def test_the_former_self_is_fenced(runtime: Runtime) -> None:
    ids = stable(runtime, "one")
    runtime.ask_join(instance_id="one")
    fenced = ErrorCode.fenced_instance_id
    assert runtime.heartbeat(ids["one"], 1, instance_id="one") is fenced
    assert runtime.synced(runtime.ask_sync(ids["one"], 1, instance_id="one")).error is fenced
    assert runtime.joined(runtime.ask_join(member_id=ids["one"], instance_id="one")).error is fenced
    offset = OffsetToCommit(topic="events", partition=0, offset=1)
    assert runtime.commit(offset, member_id=ids["one"], instance_id="one", generation=1) == (fenced,)
    left = runtime.leave(LeavingMember(member_id=ids["one"], instance_id="one"))
    assert left.members[0].error is fenced
    assert runtime.heartbeat(ids["one"], 1) is ErrorCode.unknown_member_id


def test_a_member_that_comes_back_changed_begins_a_rebalance(runtime: Runtime) -> None:
    joins = [
        runtime.ask_join(instance_id="one", protocols=offers("range", "sticky")),
        runtime.ask_join(instance_id="two", protocols=offers("range", "sticky")),
    ]
    runtime.advance(2 * DELAY_MS)
    runtime.settle({})
    assert runtime.joined(joins[0]).protocol == "range"
    changed = runtime.ask_join(instance_id="two", protocols=offers("sticky"))
    assert runtime.group().state is State.PREPARING_REBALANCE
    leader = runtime.group().leader
    assert leader is not None
    runtime.ask_join(member_id=leader, instance_id="one", protocols=offers("range", "sticky"))
    assert runtime.joined(changed).protocol == "sticky"


def test_a_replacement_while_its_former_self_waits_answers_that_one(runtime: Runtime) -> None:
    first = runtime.ask_join(instance_id="one")
    second = runtime.ask_join(instance_id="one")
    fenced = runtime.joined(first)
    assert fenced.error is ErrorCode.fenced_instance_id
    runtime.advance(2 * DELAY_MS)
    assert runtime.joined(second).error is ErrorCode.none
    assert len(runtime.group().members) == 1


def test_a_replacement_during_a_rebalance_begins_it_anew(runtime: Runtime) -> None:
    ids = stable(runtime, "one", "two")
    for instance, member_id in ids.items():
        runtime.ask_join(member_id=member_id, instance_id=instance)
    assert runtime.group().state is State.COMPLETING_REBALANCE
    waits = runtime.ask_sync(ids["two"], 2, instance_id="two")
    again = runtime.ask_join(instance_id="two")
    assert runtime.synced(waits).error is ErrorCode.fenced_instance_id
    assert runtime.group().state is State.PREPARING_REBALANCE
    runtime.ask_join(member_id=ids["one"], instance_id="one")
    assert runtime.joined(again).generation == 3


def test_a_static_member_that_does_not_join_again_keeps_its_place(runtime: Runtime) -> None:
    ids = stable(runtime, "one", "two")
    joined = runtime.ask_join(member_id=ids["one"], instance_id="one")
    for _ in range(REBALANCE_MS // 5_000):
        runtime.advance(5_000)
        runtime.heartbeat(ids["two"], 1, instance_id="two")
    members = runtime.joined(joined).members
    assert {one.member_id for one in members} == set(ids.values())


def test_where_only_absent_static_members_are_left_the_rebalance_waits_on(runtime: Runtime) -> None:
    ids = stable(runtime, "one", "two")
    newcomer = runtime.member_id()
    runtime.ask_join(member_id=newcomer)
    runtime.leave(LeavingMember(member_id=newcomer))
    for _ in range(2 * REBALANCE_MS // 5_000):
        runtime.advance(5_000)
        for instance, member_id in ids.items():
            runtime.heartbeat(member_id, 1, instance_id=instance)
    assert runtime.group().state is State.PREPARING_REBALANCE
    assert set(runtime.group().members) == set(ids.values())


def test_when_the_leader_is_absent_one_who_joined_leads(runtime: Runtime) -> None:
    ids = stable(runtime, "one", "two")
    joined = runtime.ask_join(
        member_id=ids["two"], instance_id="two", protocols=offers("range", topics=("more",))
    )
    for _ in range(REBALANCE_MS // 5_000):
        runtime.advance(5_000)
        runtime.heartbeat(ids["one"], 1, instance_id="one")
    assert runtime.joined(joined).leader == ids["two"]


def test_a_static_member_is_gone_after_its_session(runtime: Runtime) -> None:
    stable(runtime, "one")
    runtime.advance(SESSION_MS)
    assert runtime.group().state is State.EMPTY


def test_an_administrator_takes_static_members_out_by_name(runtime: Runtime) -> None:
    stable(runtime, "one", "two")
    reply = runtime.leave(
        LeavingMember(instance_id="one"), LeavingMember(instance_id="three"), LeavingMember()
    )
    unknown = ErrorCode.unknown_member_id
    assert [one.error for one in reply.members] == [ErrorCode.none, unknown, unknown]
    assert [one.instance_id for one in runtime.group().members.values()] == ["two"]


def test_a_member_is_not_a_static_one_by_saying_so(runtime: Runtime) -> None:
    (member_id,) = runtime.stable_group()
    assert runtime.heartbeat(member_id, 1, instance_id="one") is ErrorCode.unknown_member_id
    pending = runtime.member_id()
    reply = runtime.joined(runtime.ask_join(member_id=pending, instance_id="one"))
    assert reply.error is ErrorCode.unknown_member_id


def test_a_replacement_that_cannot_be_written_does_not_happen(runtime: Runtime) -> None:
    ids = stable(runtime, "one")
    runtime.fail_next_write = True
    reply = runtime.joined(runtime.ask_join(instance_id="one"))
    assert reply.error is ErrorCode.coordinator_not_available
    assert runtime.heartbeat(ids["one"], 1, instance_id="one") is ErrorCode.none
