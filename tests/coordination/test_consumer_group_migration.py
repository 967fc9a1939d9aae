"""Groups that change their kind, and members of the classic protocol in a consumer group."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from headrace.coordination.classic import embedded
from headrace.coordination.classic.group import ClassicGroup
from headrace.coordination.consumer.group import GroupState
from headrace.coordination.consumer.requests import ConsumerSettings, MigrationPolicy
from headrace.coordination.fields import CorruptRecordError
from headrace.coordination.group import CLASSIC, CONSUMER
from headrace.coordination.requests import (
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    OfferedProtocol,
    SyncRequest,
)
from tests.coordination.classic_client import SESSION_MS, ClassicClient, subscription
from tests.coordination.consumer_runtime import (
    GROUP,
    REBALANCE_MS,
    Consumer,
    ConsumerRuntime,
    owned_partitions,
)
from tests.coordination.fake_topics import FakeTopics

EVENTS = frozenset({"events"})


@pytest.fixture
def runtime() -> ConsumerRuntime:
    return ConsumerRuntime(FakeTopics(events=6))


def classic(runtime: ConsumerRuntime, **fields: Any) -> ClassicClient:
    return ClassicClient(runtime, EVENTS, **fields)


def modern(runtime: ConsumerRuntime, name: str, **fields: Any) -> Consumer:
    return Consumer(runtime, name, EVENTS, **fields)


def settle(*members: ClassicClient | Consumer, rounds: int = 12) -> None:
    for _ in range(rounds):
        for member in members:
            if isinstance(member, Consumer):
                member.beat()
                member.take()
            else:
                member.step()
        member.runtime.advance(1)


def shares(*members: ClassicClient | Consumer) -> list[int]:
    """The number of partitions of each. Fails if two have the same."""
    everything = owned_partitions(members)  # type: ignore[arg-type]
    assert len(everything) == sum(len(found) for member in members for found in member.owned.values())
    return [sum(map(len, member.owned.values())) for member in members]


def kind(runtime: ConsumerRuntime) -> str:
    return runtime.groups[GROUP].kind


class TestUpgrade:
    def test_members_stay_and_keep_what_they_have(self, runtime: ConsumerRuntime) -> None:
        a, b = classic(runtime), classic(runtime)
        settle(a, b)
        assert (kind(runtime), shares(a, b)) == (CLASSIC, [3, 3])
        generation = a.generation
        c = modern(runtime, "c")
        reply = c.beat()
        assert (reply.error, reply.assignment) == (ErrorCode.none, {})
        group = runtime.group()
        assert (group.kind, group.epoch, len(group.members)) == (CONSUMER, generation + 1, 3)
        assert not [key for key in runtime.timers if key[0] == "classic"]
        assert shares(a, b) == [3, 3]
        settle(a, b, c)
        assert shares(a, b, c) == [2, 2, 2]
        assert runtime.group().state is GroupState.STABLE

    def test_it_survives_a_load(self, runtime: ConsumerRuntime) -> None:
        a = classic(runtime)
        settle(a)
        modern(runtime, "b").beat()
        before = runtime.states()
        assert runtime.states_after_load(compacted=False) == before
        assert runtime.states_after_load(compacted=True) == before

    def test_whoever_waits_in_a_rebalance_is_told(self, runtime: ConsumerRuntime) -> None:
        a, b = classic(runtime), classic(runtime)
        settle(a)
        b.step()
        assert not b.joined
        modern(runtime, "c").beat()
        assert b.step() is ErrorCode.rebalance_in_progress
        assert b.step() is ErrorCode.none

    def test_an_empty_classic_group_makes_way(self, runtime: ConsumerRuntime) -> None:
        a = classic(runtime)
        settle(a)
        a.leave()
        b = modern(runtime, "b")
        settle(b)
        assert (kind(runtime), shares(b)) == (CONSUMER, [6])

    @pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
    def test_it_can_be_forbidden(self, runtime: ConsumerRuntime, policy: MigrationPolicy) -> None:
        runtime.restart(ConsumerSettings(migration_policy=policy))
        a = classic(runtime)
        settle(a)
        reply = modern(runtime, "b").beat()
        assert reply.error is ErrorCode.group_id_not_found
        assert reply.error_message == (
            f"Cannot upgrade classic group {GROUP} to consumer group because online upgrade is disabled."
        )
        assert a.step() is ErrorCode.none
        assert runtime.beat("b", 3).error_message == f"Group {GROUP} is not a consumer group."

    def test_a_refused_member_leaves_the_classic_group_alone(self, runtime: ConsumerRuntime) -> None:
        a = classic(runtime)
        settle(a)
        refused = runtime.join("b", topic_expression="[")
        assert refused.error is ErrorCode.invalid_regular_expression
        assert (kind(runtime), a.step()) == (CLASSIC, ErrorCode.none)

    def test_not_groups_of_other_protocols(self, runtime: ConsumerRuntime) -> None:
        request = JoinRequest(
            group_id=GROUP,
            protocol_type="connect",
            protocols=(OfferedProtocol(name="v1", metadata=b"whatever"),),
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id_required=False,
        )
        runtime.ask_classic_join(request)
        reply = runtime.join("b", "events")
        assert reply.error is ErrorCode.group_id_not_found
        assert "does not use the consumer embedded protocol" in (reply.error_message or "")

    def test_not_groups_whose_assignor_says_more_than_partitions(self, runtime: ConsumerRuntime) -> None:
        a = classic(runtime)
        settle(a)
        group = runtime.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        special = embedded.assignment({}, 1)[:-4] + b"\x00\x00\x00\x01x"
        for member in group.members.values():
            object.__setattr__(member, "assignment", special)
        reply = runtime.join("b", "events")
        assert "unsupported custom assignor" in (reply.error_message or "")

    def test_a_member_becomes_modern_under_its_name(self, runtime: ConsumerRuntime) -> None:
        a, b = classic(runtime, instance_id="one"), classic(runtime, instance_id="two")
        settle(a, b)
        a.owned = {}
        upgraded = modern(runtime, "a2", instance_id="one")
        settle(upgraded, b)
        assert set(runtime.group().static_members) == {"one", "two"}
        assert shares(upgraded, b) == [3, 3]
        b.owned = {}
        other = modern(runtime, "b2", instance_id="two")
        settle(upgraded, other)
        assert shares(upgraded, other) == [3, 3]
        assert not any(member.speaks_classic for member in runtime.group().members.values())


class TestDowngrade:
    def test_when_the_last_modern_member_leaves(self, runtime: ConsumerRuntime) -> None:
        a, b = classic(runtime), classic(runtime)
        c = modern(runtime, "c")
        settle(a, b)
        settle(a, b, c)
        epoch = runtime.group().epoch
        c.leave()
        group = runtime.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        assert (group.kind, group.settled.generation) == (CLASSIC, epoch)
        assert group.state_name == "PreparingRebalance"
        assert not [key for key in runtime.timers if key[0] == "consumer"]
        settle(a, b)
        assert shares(a, b) == [3, 3]

    def test_when_it_dies(self, runtime: ConsumerRuntime) -> None:
        a, c = classic(runtime), modern(runtime, "c")
        settle(a)
        settle(a, c)
        for _ in range(12):
            runtime.advance(SESSION_MS // 2)
            a.step()
        settle(a)
        assert (kind(runtime), shares(a)) == (CLASSIC, [6])

    def test_it_survives_a_load(self, runtime: ConsumerRuntime) -> None:
        a, c = classic(runtime), modern(runtime, "c")
        settle(a)
        settle(a, c)
        c.leave()
        assert set(runtime.states_after_load(compacted=True)) == {GROUP}
        runtime.reload()
        a.reconnect()
        assert kind(runtime) == CLASSIC
        # As in Kafka, a restart forgets the pending rebalance: members keep their partitions.
        settle(a)
        assert shares(a) == [3]

    def test_when_a_classic_member_takes_its_name(self, runtime: ConsumerRuntime) -> None:
        a, c = classic(runtime), modern(runtime, "c", instance_id="one")
        settle(a)
        settle(a, c)
        c.owned = {}
        back = classic(runtime, instance_id="one")
        back.step()
        assert kind(runtime) == CLASSIC
        settle(a, back)
        assert shares(a, back) == [3, 3]

    @pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.UPGRADE])
    def test_it_can_be_forbidden(self, runtime: ConsumerRuntime, policy: MigrationPolicy) -> None:
        a, c = classic(runtime), modern(runtime, "c")
        settle(a)
        settle(a, c)
        runtime.restart(ConsumerSettings(migration_policy=policy))
        c.leave()
        assert kind(runtime) == CONSUMER

    def test_an_empty_consumer_group_makes_way(self, runtime: ConsumerRuntime) -> None:
        c = modern(runtime, "c")
        settle(c)
        c.leave()
        a = classic(runtime)
        settle(a)
        assert (kind(runtime), shares(a)) == (CLASSIC, [6])
        assert set(runtime.states_after_load(compacted=True)) == {GROUP}

    def test_a_stranger_with_an_id_does_not_make_it_go(self, runtime: ConsumerRuntime) -> None:
        c = modern(runtime, "c")
        settle(c)
        c.leave()
        a = classic(runtime, member_id="nobody-knows")
        assert a.step() is ErrorCode.unknown_member_id
        assert kind(runtime) == CONSUMER


class TestClassicMembers:
    @pytest.fixture
    def mixed(self, runtime: ConsumerRuntime) -> tuple[ConsumerRuntime, ClassicClient, Consumer]:
        a, c = classic(runtime), modern(runtime, "c")
        settle(a)
        settle(a, c)
        return runtime, a, c

    def test_one_more_joins(self, mixed: tuple[ConsumerRuntime, ClassicClient, Consumer]) -> None:
        runtime, a, c = mixed
        b = classic(runtime)
        settle(a, b, c)
        assert shares(a, b, c) == [2, 2, 2]

    def test_one_leaves(self, mixed: tuple[ConsumerRuntime, ClassicClient, Consumer]) -> None:
        _, a, c = mixed
        assert a.leave() is ErrorCode.none
        settle(c)
        assert shares(c) == [6]
        assert a.leave() is ErrorCode.unknown_member_id

    def test_one_that_does_not_join_again_is_put_out(
        self, mixed: tuple[ConsumerRuntime, ClassicClient, Consumer]
    ) -> None:
        runtime, a, c = mixed
        runtime.topics.grow("events", 8)
        c.beat()
        for _ in range(REBALANCE_MS // 5_000 + 1):
            request = HeartbeatRequest(group_id=GROUP, member_id=a.member_id, generation=a.generation)
            runtime.classic_heartbeat(request)
            runtime.advance(5_000)
            c.beat()
        assert set(runtime.group().members) == {"c"}

    def test_one_that_does_not_sync_is_put_out(
        self, mixed: tuple[ConsumerRuntime, ClassicClient, Consumer]
    ) -> None:
        runtime, a, c = mixed
        runtime.topics.grow("events", 8)
        c.beat()
        request = JoinRequest(
            group_id=GROUP,
            member_id=a.member_id,
            protocol_type="consumer",
            protocols=(OfferedProtocol(name="range", metadata=subscription(EVENTS, {})),),
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
        )
        joined = runtime.answers[runtime.ask_classic_join(request)]
        assert (joined.error, joined.leader, joined.members) == (ErrorCode.none, "", ())
        for _ in range(REBALANCE_MS // 5_000 + 1):
            heartbeat = HeartbeatRequest(group_id=GROUP, member_id=a.member_id, generation=joined.generation)
            runtime.classic_heartbeat(heartbeat)
            runtime.advance(5_000)
            c.beat()
        assert set(runtime.group().members) == {"c"}

    def test_wrong_generations_members_and_protocols(
        self, mixed: tuple[ConsumerRuntime, ClassicClient, Consumer]
    ) -> None:
        runtime, a, _ = mixed
        wrong = HeartbeatRequest(group_id=GROUP, member_id=a.member_id, generation=99)
        assert runtime.classic_heartbeat(wrong) is ErrorCode.illegal_generation
        modern_one = HeartbeatRequest(group_id=GROUP, member_id="c", generation=1)
        assert runtime.classic_heartbeat(modern_one) is ErrorCode.unknown_member_id
        static = HeartbeatRequest(group_id=GROUP, member_id=a.member_id, generation=1, instance_id="x")
        assert runtime.classic_heartbeat(static) is ErrorCode.unknown_member_id
        for fields, error in (
            ({"generation": 99}, ErrorCode.illegal_generation),
            ({"protocol": "other"}, ErrorCode.inconsistent_group_protocol),
            ({"protocol_type": "other"}, ErrorCode.inconsistent_group_protocol),
            ({"member_id": "nobody"}, ErrorCode.unknown_member_id),
        ):
            request = SyncRequest(
                **{"group_id": GROUP, "member_id": a.member_id, "generation": a.generation} | fields  # type: ignore[arg-type]
            )
            assert runtime.answers[runtime.ask_classic_sync(request)].error is error

    @pytest.mark.parametrize(
        ("fields", "error"),
        [
            ({"protocol_type": "connect"}, ErrorCode.inconsistent_group_protocol),
            (
                {"protocols": (OfferedProtocol(name="other", metadata=subscription(EVENTS, {})),)},
                ErrorCode.inconsistent_group_protocol,
            ),
            (
                {"protocols": (OfferedProtocol(name="range", metadata=b""),)},
                ErrorCode.inconsistent_group_protocol,
            ),
            ({"session_timeout_ms": 1}, ErrorCode.invalid_session_timeout),
            ({}, ErrorCode.member_id_required),
        ],
    )
    def test_who_is_not_let_in(
        self,
        mixed: tuple[ConsumerRuntime, ClassicClient, Consumer],
        fields: dict[str, Any],
        error: ErrorCode,
    ) -> None:
        runtime, _, _ = mixed
        written = len(runtime.log)
        defaults: dict[str, Any] = {
            "group_id": GROUP,
            "protocol_type": "consumer",
            "protocols": (OfferedProtocol(name="range", metadata=subscription(EVENTS, {})),),
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
        }
        waiting = runtime.ask_classic_join(JoinRequest(**defaults | fields))
        assert runtime.answers[waiting].error is error
        assert len(runtime.log) == written

    def test_members_are_taken_out_by_name(
        self, mixed: tuple[ConsumerRuntime, ClassicClient, Consumer]
    ) -> None:
        runtime, a, c = mixed
        named = classic(runtime, instance_id="one")
        settle(a, named, c)
        reply = runtime.classic_leave(
            LeaveRequest(
                group_id=GROUP,
                members=(
                    LeavingMember(instance_id="one"),
                    LeavingMember(instance_id="two"),
                    LeavingMember(member_id="c"),
                ),
            )
        )
        assert [one.error for one in reply.members] == [
            ErrorCode.none,
            ErrorCode.unknown_member_id,
            ErrorCode.unknown_member_id,
        ]
        settle(a, c)
        assert shares(a, c) == [3, 3]

    def test_one_goes_over_to_the_new_protocol_under_its_id(
        self, mixed: tuple[ConsumerRuntime, ClassicClient, Consumer]
    ) -> None:
        runtime, a, c = mixed
        runtime.topics.grow("events", 8)
        c.beat()
        assert a.step() is ErrorCode.rebalance_in_progress
        assert ("consumer", "join", GROUP, a.member_id) in runtime.timers
        switched = modern(runtime, a.member_id)
        settle(switched, c)
        assert shares(switched, c) == [4, 4]
        assert {key[1] for key in runtime.timers} == {"session"}


class TestConsumerProtocol:
    @pytest.mark.parametrize("version", [0, 1, 2, 3, 7])
    def test_subscriptions_of_all_versions(self, version: int) -> None:
        encoded = subscription(frozenset({"a", "b"}), {"a": frozenset({1})}, version)
        found = embedded.read_subscription(encoded)
        assert (found.version, found.topics) == (version, {"a", "b"})
        assert found.owned == ({"a": {1}} if version else {})

    def test_bytes_behind_a_message_are_ignored(self) -> None:
        given = embedded.assignment({"a": frozenset({1})}, 3)
        assert embedded.read_assignment(given + b"new").partitions == {"a": {1}}
        asked = subscription(frozenset({"a"}), {}, 3)
        assert embedded.read_subscription(asked + b"new").topics == {"a"}

    def test_topics_can_be_told_where_the_rest_of_a_subscription_cannot_be_read(self) -> None:
        encoded = subscription(frozenset({"a"}), {"a": frozenset({1})}, 3)[:-5]
        assert embedded.subscribed_topics(encoded) == {"a"}
        with pytest.raises(CorruptRecordError):
            embedded.read_subscription(encoded)

    def test_assignments(self) -> None:
        encoded = embedded.assignment({"b": frozenset({2, 0}), "a": frozenset({1})}, 9)
        assert encoded.hex(" ") == (
            "00 03 00 00 00 02 00 01 61 00 00 00 01 00 00 00 01"
            " 00 01 62 00 00 00 02 00 00 00 00 00 00 00 02 ff ff ff ff"
        )
        found = embedded.read_assignment(encoded)
        assert (found.partitions, found.user_data) == ({"a": {1}, "b": {0, 2}}, b"")
        assert embedded.read_assignment(b"").partitions == {}

    @pytest.mark.parametrize(
        "encoded", [b"", b"\x00", b"\xff\xff", b"\x00\x01\x00\x00\x00\x05", b"\x00\x01\x7f\xff\xff\xff"]
    )
    def test_what_is_neither(self, encoded: bytes) -> None:
        with pytest.raises(CorruptRecordError):
            embedded.read_subscription(encoded)
        assert embedded.version_of(encoded) in (0, 1)
