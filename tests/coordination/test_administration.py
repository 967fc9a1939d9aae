"""Groups as administrators see them."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from headrace.coordination import administration
from headrace.coordination.classic.states import MUST_JOIN_AGAIN, STEPS, Event, State, Step
from headrace.coordination.replies import DescribedGroup, ListedGroup
from headrace.coordination.requests import OffsetToCommit
from tests.coordination.runtime import GROUP, Runtime, subscription


@pytest.fixture
def runtime() -> Runtime:
    return Runtime()


def test_a_stable_group_is_described_with_all_it_has(runtime: Runtime) -> None:
    ids = runtime.stable_group(2)
    described = administration.describe(runtime.groups, GROUP)
    assert (described.error, described.state) == (ErrorCode.none, "Stable")
    assert (described.protocol_type, described.protocol) == ("consumer", "range")
    assert {one.member_id for one in described.members} == set(ids)
    assert {one.metadata for one in described.members} == {subscription("events")}
    assert {one.assignment.decode() for one in described.members} == set(ids)
    assert {one.client_host for one in described.members} == {"/127.0.0.1"}


def test_during_a_rebalance_subscriptions_are_not_shown(runtime: Runtime) -> None:
    first, _ = runtime.stable_group(2)
    runtime.ask_join(member_id=first)
    described = administration.describe(runtime.groups, GROUP)
    assert (described.state, described.protocol) == ("PreparingRebalance", "")
    assert {one.metadata for one in described.members} == {b""}


def test_a_group_that_there_is_not_is_dead(runtime: Runtime) -> None:
    assert administration.describe(runtime.groups, "none") == DescribedGroup(
        group_id="none",
        error=ErrorCode.group_id_not_found,
        error_message="Group none not found.",
        state="Dead",
    )
    # An empty id is like any other here: offsets can be committed for it.
    assert administration.describe(runtime.groups, "").error is ErrorCode.group_id_not_found


def test_groups_are_listed_by_state_and_kind(runtime: Runtime) -> None:
    runtime.stable_group()
    runtime.commit(OffsetToCommit(topic="events", partition=0, offset=1), group_id="alone")
    stable = ListedGroup(group_id=GROUP, protocol_type="consumer", state="Stable", kind="classic")
    alone = ListedGroup(group_id="alone", protocol_type="", state="Empty", kind="classic")
    assert administration.list_groups(runtime.groups) == (stable, alone)
    assert administration.list_groups(runtime.groups, states=["STABLE"]) == (stable,)
    assert administration.list_groups(runtime.groups, states=["Dead"]) == ()
    assert administration.list_groups(runtime.groups, kinds=["Classic"]) == (stable, alone)
    assert administration.list_groups(runtime.groups, kinds=["consumer"]) == ()


def test_a_group_without_members_is_deleted_with_its_offsets(runtime: Runtime) -> None:
    offset = OffsetToCommit(topic="events", partition=0, offset=1)
    runtime.commit(offset)
    runtime.commit(OffsetToCommit(topic="events", partition=1, offset=1), producer_id=4)
    assert runtime.delete_group() is ErrorCode.none
    assert GROUP not in runtime.groups
    runtime.mark(4, committed=True)
    runtime.reload()
    assert GROUP not in runtime.groups
    assert runtime.fetched() == {}
    assert runtime.commit(offset) == (ErrorCode.none,)


def test_a_group_with_members_is_not_deleted(runtime: Runtime) -> None:
    runtime.stable_group()
    assert runtime.delete_group() is ErrorCode.non_empty_group
    assert runtime.delete_group("none") is ErrorCode.group_id_not_found
    assert runtime.delete_group("") is ErrorCode.group_id_not_found


def test_a_delete_that_cannot_be_written_deletes_nothing(runtime: Runtime) -> None:
    runtime.commit(OffsetToCommit(topic="events", partition=0, offset=1))
    runtime.fail_next_write = True
    assert runtime.delete_group() is ErrorCode.coordinator_not_available
    assert runtime.fetched() == {("events", 0): 1}


def test_the_tables_of_states_are_whole() -> None:
    assert set(STEPS) == set(Event)
    assert {step for steps in STEPS.values() for step in steps.values()} == set(Step)
    living = set(State) - {State.DEAD}
    assert {state for steps in STEPS.values() for state in steps} == living == set(MUST_JOIN_AGAIN)


def test_only_a_join_phase_completes() -> None:
    for steps in STEPS.values():
        for state, step in steps.items():
            assert (state is State.PREPARING_REBALANCE) == (step is not Step.PREPARE)
