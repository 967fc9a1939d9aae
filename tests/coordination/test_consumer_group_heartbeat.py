"""ConsumerGroupHeartbeat: joining, epochs, fencing, revocation, timers, static members, topics."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from headrace.coordination.consumer.group import GroupState
from headrace.coordination.consumer.requests import (
    ConsumerHeartbeatReply,
    ConsumerSettings,
)
from headrace.coordination.consumer.values import MemberState
from headrace.coordination.decision import Decision
from headrace.coordination.group import Committer
from headrace.coordination.replies import NoReply
from tests.coordination.consumer_runtime import (
    GROUP,
    REBALANCE_MS,
    Consumer,
    ConsumerRuntime,
    owned_partitions,
)
from tests.coordination.fake_topics import FakeTopics

SESSION_MS = ConsumerSettings().session_timeout_ms


@pytest.fixture
def topics() -> FakeTopics:
    return FakeTopics(events=4)


@pytest.fixture
def runtime(topics: FakeTopics) -> ConsumerRuntime:
    return ConsumerRuntime(topics)


def consumer(runtime: ConsumerRuntime, name: str, *topics: str, **fields: Any) -> Consumer:
    return Consumer(runtime, name, frozenset(topics or ("events",)), **fields)


def settle(*consumers: Consumer, rounds: int = 6) -> None:
    for _ in range(rounds):
        for one in consumers:
            one.beat()
            one.take()


def numbers(reply: ConsumerHeartbeatReply) -> list[int]:
    assert reply.assignment is not None
    return sorted(number for found in reply.assignment.values() for number in found)


class TestJoining:
    def test_the_first_member_gets_everything_at_once(self, runtime: ConsumerRuntime) -> None:
        reply = runtime.join("a", "events")
        assert reply.error is ErrorCode.none
        assert (reply.member_id, reply.member_epoch, reply.heartbeat_interval_ms) == ("a", 2, 5_000)
        assert reply.assignment == {runtime.topics.id("events"): frozenset(range(4))}
        group = runtime.group()
        assert (group.epoch, group.assignment_epoch, group.state) == (2, 2, GroupState.STABLE)

    def test_an_id_is_given_where_the_client_has_none(self, runtime: ConsumerRuntime) -> None:
        reply = runtime.join("", "events", member_id_required=False)
        assert reply.error is ErrorCode.none
        assert reply.member_id is not None
        assert reply.member_id.startswith("unique-")
        assert reply.member_id in runtime.group().members

    def test_a_heartbeat_that_says_nothing_new_writes_nothing(self, runtime: ConsumerRuntime) -> None:
        runtime.join("a", "events")
        written = len(runtime.log)
        for _ in range(2):
            reply = runtime.beat("a", 2)
            assert (reply.member_epoch, reply.assignment) == (2, None)
        assert len(runtime.log) == written

    def test_a_full_heartbeat_is_told_what_it_has(self, runtime: ConsumerRuntime) -> None:
        runtime.join("a", "events")
        reply = runtime.beat(
            "a",
            2,
            rebalance_timeout_ms=REBALANCE_MS,
            topic_names=frozenset({"events"}),
            owned={runtime.topics.id("events"): frozenset({0})},
        )
        assert numbers(reply) == [0, 1, 2, 3]

    @pytest.mark.parametrize(
        ("member_id", "epoch", "fields", "message"),
        [
            ("", 0, {}, "MemberId can't be empty."),
            ("", 3, {"member_id_required": False}, "MemberId can't be empty."),
            ("a", 0, {"group_id": ""}, "GroupId can't be empty."),
            ("a", 0, {"instance_id": ""}, "InstanceId can't be empty."),
            ("a", 0, {"rack_id": ""}, "RackId can't be empty."),
            ("a", 0, {}, "RebalanceTimeoutMs must be provided in first request."),
            ("a", 0, {"rebalance_timeout_ms": 5}, "TopicPartitions must be empty when (re-)joining."),
            (
                "a",
                0,
                {"rebalance_timeout_ms": 5, "owned": {UUID(int=1): frozenset({1})}},
                "TopicPartitions must be empty when (re-)joining.",
            ),
            (
                "a",
                0,
                {"rebalance_timeout_ms": 5, "owned": {}},
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
            ),
            ("a", -2, {}, "InstanceId can't be null."),
            ("a", -3, {}, "MemberEpoch is invalid."),
        ],
    )
    def test_what_is_not_a_request(
        self, runtime: ConsumerRuntime, member_id: str, epoch: int, fields: dict[str, Any], message: str
    ) -> None:
        reply = runtime.beat(member_id, epoch, **fields)
        assert (reply.error, reply.error_message) == (ErrorCode.invalid_request, message)
        assert not runtime.log

    def test_an_assignor_that_is_not_there(self, runtime: ConsumerRuntime) -> None:
        reply = runtime.join("a", "events", server_assignor="magic")
        assert reply.error is ErrorCode.unsupported_assignor
        assert reply.error_message == (
            "ServerAssignor magic is not supported. Supported assignors: uniform, range."
        )

    def test_nobody_can_stay_in_a_group_that_is_not_there(self, runtime: ConsumerRuntime) -> None:
        for epoch, what in ((5, "Consumer group"), (-1, "Group")):
            reply = runtime.beat("a", epoch)
            assert reply.error is ErrorCode.group_id_not_found
            assert reply.error_message == f"{what} {GROUP} not found."

    def test_a_full_group_takes_nobody_in(self, topics: FakeTopics) -> None:
        runtime = ConsumerRuntime(topics, ConsumerSettings(max_size=1))
        runtime.join("a", "events")
        assert runtime.join("b", "events").error is ErrorCode.group_max_size_reached
        assert runtime.beat("a", 2).error is ErrorCode.none

    def test_somebody_without_topics_is_a_member_all_the_same(self, runtime: ConsumerRuntime) -> None:
        reply = runtime.join("a")
        assert (reply.error, reply.member_epoch, reply.assignment) == (ErrorCode.none, 1, {})


class TestRebalancing:
    def test_what_moves_is_given_up_before_it_is_taken(self, runtime: ConsumerRuntime) -> None:
        a, b = consumer(runtime, "a"), consumer(runtime, "b")
        a.beat()
        a.take()
        assert b.beat().assignment == {}
        assert runtime.group().members["b"].current.state is MemberState.UNRELEASED_PARTITIONS
        reply = a.beat()
        assert (reply.member_epoch, len(numbers(reply))) == (2, 2)
        assert runtime.group().members["a"].current.state is MemberState.UNREVOKED_PARTITIONS
        assert b.beat().assignment is None
        a.take()
        assert a.beat().member_epoch == 3
        assert len(numbers(b.beat())) == 2
        b.take()
        assert len(owned_partitions([a, b])) == 4
        assert runtime.group().state is GroupState.STABLE

    def test_nobody_stops_for_what_does_not_move(self, runtime: ConsumerRuntime) -> None:
        a, b = consumer(runtime, "a"), consumer(runtime, "b")
        settle(a)
        before = set(a.owned[runtime.topics.id("events")])
        b.beat()
        a.beat()
        assert set(a.assigned[runtime.topics.id("events")]) < before

    def test_who_does_not_give_up_in_time_is_put_out(self, runtime: ConsumerRuntime) -> None:
        a, b = consumer(runtime, "a"), consumer(runtime, "b")
        settle(a)
        b.beat()
        a.beat()
        for _ in range(REBALANCE_MS // 10_000):
            runtime.advance(10_000)
            runtime.beat("a", 2)
            b.beat()
        assert "a" not in runtime.group().members
        assert a.beat().error is ErrorCode.unknown_member_id
        b.beat()
        assert len(b.assigned[runtime.topics.id("events")]) == 4

    def test_giving_up_in_time_ends_that_timer(self, runtime: ConsumerRuntime) -> None:
        a, b = consumer(runtime, "a"), consumer(runtime, "b")
        settle(a)
        b.beat()
        a.beat()
        assert ("consumer", "revocation", GROUP, "a") in runtime.timers
        a.take()
        a.beat()
        assert ("consumer", "revocation", GROUP, "a") not in runtime.timers

    def test_who_says_nothing_is_put_out_after_its_session(self, runtime: ConsumerRuntime) -> None:
        a, b = consumer(runtime, "a"), consumer(runtime, "b")
        settle(a, b)
        for _ in range(3):
            runtime.advance(SESSION_MS // 2)
            b.beat()
        assert set(runtime.group().members) == {"b"}
        b.beat()
        assert len(b.assigned[runtime.topics.id("events")]) == 4

    def test_who_leaves_makes_room_at_once(self, runtime: ConsumerRuntime) -> None:
        a, b = consumer(runtime, "a"), consumer(runtime, "b")
        settle(a, b)
        reply = a.leave()
        assert (reply.error, reply.member_id, reply.member_epoch) == (ErrorCode.none, "a", -1)
        assert not [key for key in runtime.timers if key[3] == "a"]
        assert len(numbers(b.beat())) == 4
        assert a.leave().error is ErrorCode.unknown_member_id

    def test_the_last_one_leaves_an_empty_group_whose_epoch_goes_on(self, runtime: ConsumerRuntime) -> None:
        runtime.join("a", "events")
        runtime.beat("a", -1)
        group = runtime.group()
        assert (group.state, group.epoch, not group.target, not group.holders) == (
            GroupState.EMPTY,
            3,
            True,
            True,
        )
        assert runtime.join("b", "events").member_epoch == 4

    def test_another_subscription_takes_away_what_is_not_wanted(self, runtime: ConsumerRuntime) -> None:
        runtime.topics.create("other", 2)
        a = consumer(runtime, "a", "events", "other")
        settle(a)
        a.subscribe(["other"])
        reply = a.beat()
        assert reply.assignment == {runtime.topics.id("other"): frozenset({0, 1})}
        settle(a)
        assert set(a.owned) == {runtime.topics.id("other")}
        assert runtime.group().state is GroupState.STABLE

    def test_most_members_choose_the_assignor(self, runtime: ConsumerRuntime) -> None:
        runtime.topics.create("other", 4)
        for name in ("a", "b"):
            runtime.join(name, "events", "other", server_assignor="range")
        runtime.join("c", "events", "other", server_assignor="uniform")
        assert runtime.consumer.describe(GROUP).assignor == "range"
        target = runtime.group().target
        assert {len(found.partitions) for found in target.values()} == {2}


class TestFencing:
    def test_epochs_that_are_not_known(self, runtime: ConsumerRuntime) -> None:
        runtime.join("a", "events")
        runtime.join("b", "events")
        events = runtime.topics.id("events")
        runtime.beat("a", 2, owned={events: frozenset(range(4))})
        kept = runtime.group().members["a"].current.assigned[events]
        runtime.beat("a", 2, owned={events: frozenset(kept)})
        assert runtime.group().members["a"].current.member_epoch == 3
        greater = runtime.beat("a", 4)
        assert greater.error is ErrorCode.fenced_member_epoch
        assert greater.error_message == (
            "The consumer group member has a greater member epoch (4) than the one known by the group "
            "coordinator (3). The member must abandon all its partitions and rejoin."
        )
        # The reply with epoch 3 may have been lost, as long as the member owns nothing else.
        assert runtime.beat("a", 2, owned={events: frozenset(kept)}).error is ErrorCode.none
        assert runtime.beat("a", 2).error is ErrorCode.fenced_member_epoch
        assert (
            runtime.beat("a", 2, owned={events: frozenset(range(4))}).error is ErrorCode.fenced_member_epoch
        )
        assert runtime.beat("nobody", 2).error is ErrorCode.unknown_member_id

    def test_only_one_reply_can_have_been_lost(self, runtime: ConsumerRuntime) -> None:
        runtime.join("a", "events")
        for partitions in (5, 6):
            runtime.topics.grow("events", partitions)
            runtime.beat("a", partitions - 3)
        assert runtime.group().members["a"].current.member_epoch == 4
        assert runtime.beat("a", 3, owned={}).error is ErrorCode.none
        assert runtime.beat("a", 2, owned={}).error is ErrorCode.fenced_member_epoch

    def test_who_was_fenced_joins_again_under_its_id(self, runtime: ConsumerRuntime) -> None:
        runtime.join("a", "events")
        reply = runtime.join("a", "events")
        assert (reply.member_epoch, numbers(reply)) == (2, [0, 1, 2, 3])

    def test_commits_and_fetches_need_the_epoch(self, runtime: ConsumerRuntime) -> None:
        runtime.join("a", "events")
        group = runtime.group()
        assert group.commit_error(Committer(member_id="a", generation=2)) is ErrorCode.none
        assert group.commit_error(Committer(member_id="a", generation=1)) is ErrorCode.stale_member_epoch
        assert group.commit_error(Committer(member_id="b", generation=2)) is ErrorCode.unknown_member_id
        assert group.commit_error(Committer()) is ErrorCode.unknown_member_id
        old = Committer(member_id="a", generation=2, knows_epochs=False)
        assert group.commit_error(old) is ErrorCode.unsupported_version
        assert group.fetch_error(None, -1) is ErrorCode.none
        assert group.fetch_error("a", 2) is ErrorCode.none
        assert group.fetch_error("a", 3) is ErrorCode.stale_member_epoch
        assert group.fetch_error("b", 2) is ErrorCode.unknown_member_id
        assert group.delete_error() is ErrorCode.non_empty_group
        assert group.subscribed_to("events")
        assert not group.subscribed_to("other")
        runtime.beat("a", -1)
        assert runtime.group().commit_error(Committer()) is ErrorCode.none
        assert runtime.group().delete_error() is ErrorCode.none

    def test_an_older_epoch_may_commit_what_has_not_changed_hands(self, runtime: ConsumerRuntime) -> None:
        a, b = consumer(runtime, "a"), consumer(runtime, "b")
        settle(a)
        settle(a, b)
        group = runtime.group()
        events = runtime.topics.id("events")
        kept = min(a.owned[events])
        moved = min(b.owned[events])
        late = Committer(member_id="a", generation=2)
        assert group.commit_error(late) is ErrorCode.stale_member_epoch
        assert group.may_still_commit(late, events, kept)
        assert not group.may_still_commit(late, events, moved)
        assert not group.may_still_commit(Committer(member_id="b", generation=2), events, moved)
        assert not group.may_still_commit(Committer(member_id="a", generation=9), events, kept)


class TestStaticMembers:
    def test_one_that_comes_back_in_time_finds_what_it_had(self, runtime: ConsumerRuntime) -> None:
        a, b = consumer(runtime, "a", instance_id="one"), consumer(runtime, "b")
        settle(a, b)
        had, epoch = dict(a.owned), runtime.group().epoch
        reply = a.leave(-2)
        assert (reply.error, reply.member_epoch) == (ErrorCode.none, -2)
        assert b.beat().assignment is None
        again = consumer(runtime, "a2", instance_id="one")
        assert again.beat().assignment == had
        assert runtime.group().epoch == epoch
        assert set(runtime.group().members) == {"a2", "b"}
        assert runtime.group().state is GroupState.STABLE

    def test_one_that_does_not_come_back_loses_its_place(self, runtime: ConsumerRuntime) -> None:
        a, b = consumer(runtime, "a", instance_id="one"), consumer(runtime, "b")
        settle(a, b)
        a.leave(-2)
        for _ in range(3):
            runtime.advance(SESSION_MS // 2)
            b.beat()
        assert set(runtime.group().members) == {"b"}

    def test_a_name_in_use_is_not_given_away(self, runtime: ConsumerRuntime) -> None:
        runtime.join("a", "events", instance_id="one")
        reply = runtime.join("b", "events", instance_id="one")
        assert reply.error is ErrorCode.unreleased_instance_id
        assert reply.error_message == (
            "Static member b with instance id one cannot join the group because the instance id is owned by "
            "a member."
        )

    def test_another_id_under_the_name_is_fenced(self, runtime: ConsumerRuntime) -> None:
        runtime.join("a", "events", instance_id="one")
        assert runtime.beat("b", 2, instance_id="one").error is ErrorCode.fenced_instance_id
        assert runtime.beat("b", -1, instance_id="one").error is ErrorCode.fenced_instance_id
        assert runtime.beat("b", 2, instance_id="two").error is ErrorCode.unknown_member_id
        assert runtime.beat("a", -1, instance_id="one").error is ErrorCode.none
        assert not runtime.group().static_members


class TestExpressions:
    def test_topics_that_match_are_subscribed_to(self, runtime: ConsumerRuntime) -> None:
        runtime.topics.create("eventual", 1)
        runtime.topics.create("other", 1)
        reply = runtime.join("a", topic_expression="event.*")
        assert reply.assignment is not None
        assert set(reply.assignment) == {runtime.topics.id("events"), runtime.topics.id("eventual")}
        assert runtime.group().expressions["event.*"].topics == {"events", "eventual"}

    def test_names_and_expression_go_together(self, runtime: ConsumerRuntime) -> None:
        runtime.topics.create("other", 1)
        reply = runtime.join("a", "other", topic_expression="event.*")
        assert reply.assignment is not None
        assert len(reply.assignment) == 2

    def test_a_topic_that_is_made_later_is_found(self, runtime: ConsumerRuntime) -> None:
        a = consumer(runtime, "a", expression="e.*")
        a.topics = frozenset()
        settle(a)
        runtime.topics.create("extra", 2)
        runtime.topics.create("nothing", 2)
        assert set(a.beat().assignment or {}) == {runtime.topics.id("events"), runtime.topics.id("extra")}

    def test_what_is_not_an_expression(self, runtime: ConsumerRuntime) -> None:
        reply = runtime.join("a", topic_expression="[")
        assert reply.error is ErrorCode.invalid_regular_expression
        assert reply.error_message == (
            "SubscribedTopicRegex `[` is not a valid regular expression: missing closing ]."
        )
        assert not runtime.groups

    def test_an_expression_goes_with_its_last_subscriber(self, runtime: ConsumerRuntime) -> None:
        for name in ("a", "b"):
            runtime.join(name, topic_expression="e.*")
        runtime.beat("a", -1)
        assert "e.*" in runtime.group().expressions
        runtime.beat("b", 3, topic_expression="x.*")
        assert set(runtime.group().expressions) == {"x.*"}
        runtime.beat("b", -1)
        assert not runtime.group().expressions


class TestTopics:
    def test_more_partitions_are_given_out(self, runtime: ConsumerRuntime) -> None:
        a = consumer(runtime, "a")
        settle(a)
        runtime.topics.grow("events", 6)
        reply = a.beat()
        assert (reply.member_epoch, numbers(reply)) == (3, [0, 1, 2, 3, 4, 5])

    def test_a_topic_that_is_made_after_its_subscription(self, runtime: ConsumerRuntime) -> None:
        a = consumer(runtime, "a", "later")
        assert a.beat().assignment == {}
        runtime.topics.create("later", 1)
        assert numbers(a.beat()) == [0]

    def test_a_topic_that_is_deleted_and_made_again(self, runtime: ConsumerRuntime) -> None:
        a = consumer(runtime, "a")
        settle(a)
        runtime.topics.delete("events")
        assert a.beat().assignment == {}
        settle(a)
        assert (a.owned, runtime.group().state) == ({}, GroupState.STABLE)
        made = runtime.topics.create("events", 1)
        settle(a)
        assert a.owned == {made: frozenset({0})}

    def test_topics_are_looked_at_again_only_when_they_changed(
        self, runtime: ConsumerRuntime, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        a = consumer(runtime, "a", "events", expression="e.*")
        settle(a)

        def looked(*_: object) -> None:
            raise AssertionError("nothing changed")

        monkeypatch.setattr(runtime.topics, "by_name", looked)
        monkeypatch.setattr(runtime.topics, "names", looked)
        assert a.beat().error is ErrorCode.none

    def test_other_topics_do_not_matter(self, runtime: ConsumerRuntime) -> None:
        a = consumer(runtime, "a")
        settle(a)
        written = len(runtime.log)
        runtime.topics.create("other", 1)
        settle(a)
        assert len(runtime.log) == written


class TestLoading:
    def test_timers_are_set_again(self, runtime: ConsumerRuntime) -> None:
        a, b = consumer(runtime, "a"), consumer(runtime, "b")
        settle(a)
        b.beat()
        a.beat()
        before = runtime.states()
        runtime.reload()
        assert runtime.states() == before
        assert {key[1:] for key in runtime.timers} == {
            ("session", GROUP, "a"),
            ("session", GROUP, "b"),
            ("revocation", GROUP, "a"),
        }
        settle(a, b)
        assert len(owned_partitions([a, b])) == 4

    def test_a_decision_that_is_not_written_changes_nothing(self, runtime: ConsumerRuntime) -> None:
        a = consumer(runtime, "a")
        settle(a)
        before = runtime.states()
        runtime.fail_next_write = True
        reply = runtime.join("b", "events")
        assert (reply.error, runtime.states()) == (ErrorCode.coordinator_not_available, before)
        assert {key[1:] for key in runtime.timers} == {("session", GROUP, "a")}
        assert runtime.join("b", "events").error is ErrorCode.none

    def test_a_change_of_topics_that_could_not_be_written_is_seen_again(
        self, runtime: ConsumerRuntime
    ) -> None:
        a = consumer(runtime, "a")
        settle(a)
        runtime.topics.grow("events", 5)
        runtime.fail_next_write = True
        a.beat()
        assert len(numbers(a.beat())) == 5


def test_describing(runtime: ConsumerRuntime) -> None:
    runtime.join("a", "events", rack_id="r", instance_id="i")
    runtime.join("b", topic_expression="e.*")
    described = runtime.consumer.describe(GROUP)
    assert (described.error, described.state, described.epoch, described.assignment_epoch) == (
        ErrorCode.none,
        "Reconciling",
        3,
        3,
    )
    first, second = described.members
    assert (first.member_id, first.rack_id, first.instance_id, first.member_epoch) == ("a", "r", "i", 2)
    assert [(one.topic, one.partitions) for one in first.assignment] == [("events", (0, 1, 2, 3))]
    assert [len(one.partitions) for one in first.target_assignment] == [2]
    assert (second.topic_names, second.topic_expression, second.assignment) == ((), "e.*", ())
    assert not second.speaks_classic
    missing = runtime.consumer.describe("nothing")
    assert (missing.error, missing.error_message) == (
        ErrorCode.group_id_not_found,
        "Group nothing not found.",
    )


def test_deleting_leaves_nothing(runtime: ConsumerRuntime) -> None:
    runtime.join("a", topic_expression="e.*")
    runtime.apply(Decision(records=runtime.group().tombstones(), reply=NoReply()))
    assert not runtime.groups
    assert runtime.states_after_load(compacted=True) == runtime.states_after_load(compacted=False) == {}
