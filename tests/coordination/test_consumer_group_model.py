"""Consumer groups under random schedules: heartbeats, lost replies, deaths, topics, loads, failed writes.

Invariants, after every step:
- No partition is read by two members at once, and nobody in the group reads what is not theirs.
- Epochs of the group, of its target and of each member never go back.
- A load of the log, whole or compacted, gives the group that is there.
At the end, when heartbeats just go on, the group becomes stable, every partition has its reader, and loads
are even.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule
from kio.schema.errors import ErrorCode

from headrace.coordination.consumer.group import ConsumerGroup, GroupState
from headrace.coordination.consumer.values import MemberState
from headrace.coordination.group import CLASSIC
from tests.coordination.classic_client import ClassicClient
from tests.coordination.consumer_runtime import (
    GROUP,
    REBALANCE_MS,
    Consumer,
    ConsumerRuntime,
    owned_partitions,
)
from tests.coordination.fake_topics import FakeTopics

NAMES = ["alpha", "beta", "gamma"]
subscriptions = st.sets(st.sampled_from(NAMES), min_size=1)
expressions = st.sampled_from([None, None, None, "a.*", ".*", "(beta|gamma)", ""])


class ConsumerGroupModel(RuleBasedStateMachine):
    """Members of the consumer protocol."""

    consumers = Bundle("consumers")

    def __init__(self) -> None:
        super().__init__()
        self.topics = FakeTopics(alpha=3, beta=1)
        self.runtime = ConsumerRuntime(self.topics)
        self.everybody: list[Consumer] = []
        self.born = 0
        self.seen: dict[Any, int] = {}

    def _new(self, **fields: Any) -> Consumer:
        self.born += 1
        one = Consumer(self.runtime, f"member-{self.born}", **fields)
        self.everybody.append(one)
        return one

    @rule(target=consumers, topics=subscriptions, expression=expressions, static=st.booleans())
    def come(self, topics: set[str], expression: str | None, static: bool) -> Consumer:
        one = self._new(
            topics=frozenset(topics),
            expression=expression,
            instance_id=f"instance-{self.born}" if static else None,
        )
        one.beat()
        return one

    @rule(one=consumers, lost=st.booleans())
    def beat(self, one: Consumer, lost: bool) -> None:
        one.beat(reply_is_lost=lost)

    @rule(one=consumers)
    def beat_and_take(self, one: Consumer) -> None:
        one.beat()
        one.take()
        one.beat()

    @rule(one=consumers)
    def give_up(self, one: Consumer) -> None:
        one.give_up()

    @rule(one=consumers)
    def take(self, one: Consumer) -> None:
        one.take()

    @rule(one=consumers, topics=subscriptions, expression=expressions)
    def change_subscription(self, one: Consumer, topics: set[str], expression: str | None) -> None:
        one.subscribe(topics, expression)
        one.beat()

    @rule(one=consumes(consumers))
    def leave(self, one: Consumer) -> None:
        one.leave()
        self.everybody.remove(one)

    @rule(one=consumes(consumers))
    def die(self, one: Consumer) -> None:
        self.everybody.remove(one)

    @rule(target=consumers, one=consumes(consumers))
    def restart_static(self, one: Consumer) -> Any:
        self.everybody.remove(one)
        if one.instance_id is None:
            one.leave()
            return multiple()
        one.leave(-2)
        again = self._new(topics=one.topics, expression=one.expression, instance_id=one.instance_id)
        again.beat()
        return again

    @rule(name=st.sampled_from(NAMES), partitions=st.integers(1, 5))
    def create_or_grow_topic(self, name: str, partitions: int) -> None:
        topic = self.topics.by_name(name)
        if topic is None:
            self.topics.create(name, partitions)
        else:
            self.topics.grow(name, max(topic.partitions, partitions))

    @rule(name=st.sampled_from(NAMES))
    def delete_topic(self, name: str) -> None:
        if self.topics.by_name(name) is not None:
            self.topics.delete(name)

    @rule(by_ms=st.sampled_from([1, 10_000, 20_000, 50_000, REBALANCE_MS]))
    def wait(self, by_ms: int) -> None:
        self.runtime.advance(by_ms)

    @rule()
    def reload(self) -> None:
        before = self.runtime.states()
        self.runtime.reload()
        assert self.runtime.states() == before

    @rule(one=consumers)
    def fail_to_write(self, one: Consumer) -> None:
        before = self.runtime.states()
        self.runtime.fail_next_write = True
        written = len(self.runtime.log)
        reply = one.beat()
        if self.runtime.fail_next_write:
            self.runtime.fail_next_write = False
            assert len(self.runtime.log) == written
        else:
            assert reply.error is ErrorCode.coordinator_not_available
        assert self.runtime.states() == before

    @invariant()
    def a_partition_has_one_reader(self) -> None:
        group = self.runtime.consumer.group(GROUP)
        inside = [one for one in self.everybody if group is not None and one.member_id in group.members]
        found = owned_partitions(inside)
        if group is not None:
            for partition, member_id in found.items():
                assert group.holders.get(partition) == member_id
            self._check_holders(group)

    @staticmethod
    def _check_holders(group: ConsumerGroup) -> None:
        held = [
            (topic_id, number)
            for member in group.members.values()
            for partitions in (member.current.assigned, member.current.revoking)
            for topic_id, numbers in partitions.items()
            for number in numbers
        ]
        assert len(held) == len(set(held))
        assert set(held) == set(group.holders)
        assert group.target.keys() <= group.members.keys()
        assert group.expressions.keys() == {
            member.metadata.topic_expression for member in group.members.values()
        } - {""}
        for member in group.members.values():
            if member.current.state is not MemberState.UNREVOKED_PARTITIONS:
                assert not member.current.revoking

    @invariant()
    def epochs_never_go_back(self) -> None:
        group = self.runtime.consumer.group(GROUP)
        if group is None:
            return
        epochs: dict[Any, int] = {"group": group.epoch, "target": group.assignment_epoch}
        epochs |= {
            one.member_id: one.current.member_epoch
            for one in group.members.values()
            if one.current.member_epoch > 0
        }
        for name, epoch in epochs.items():
            assert epoch >= self.seen.get(name, 0)
            assert epoch <= group.epoch
        self.seen |= epochs

    @invariant()
    def a_load_gives_the_same(self) -> None:
        states = self.runtime.states()
        assert self.runtime.states_after_load(compacted=False) == states
        assert self.runtime.states_after_load(compacted=True) == states

    def teardown(self) -> None:
        self.runtime.fail_next_write = False
        # Dead members are removed, the others continue.
        for _ in range(16):
            self.runtime.advance(10_000)
            self._everybody_goes_on()
        for _ in range(6):
            self._everybody_goes_on()
        group = self.runtime.consumer.group(GROUP)
        if group is None:
            return
        assert set(group.members) == {one.member_id for one in self.everybody}
        if not self.everybody:
            assert group.state is GroupState.EMPTY
            return
        assert group.state is GroupState.STABLE
        read = owned_partitions(self.everybody)
        wanted = {
            (topic.topic_id, number)
            for topic in map(self.topics.by_name, group.subscribed_topics)
            if topic is not None
            for number in range(topic.partitions)
        }
        assert read.keys() == wanted
        assert read == group.holders
        if len({group.topic_names_of(member) for member in group.members.values()}) == 1:
            loads = [sum(map(len, one.owned.values())) for one in self.everybody]
            assert max(loads) - min(loads) <= 1

    def _everybody_goes_on(self) -> None:
        for one in self.everybody:
            one.beat()
            one.take()
            one.beat()


class MigrationModel(RuleBasedStateMachine):
    """Members of both protocols in one group, which changes its kind under them."""

    members = Bundle("members")

    def __init__(self) -> None:
        super().__init__()
        self.topics = FakeTopics(alpha=5)
        self.runtime = ConsumerRuntime(self.topics)
        self.everybody: list[Consumer | ClassicClient] = []
        self.born = 0

    @rule(target=members)
    def come_modern(self) -> Consumer:
        self.born += 1
        one = Consumer(self.runtime, f"member-{self.born}", frozenset({"alpha"}))
        self.everybody.append(one)
        one.beat()
        return one

    @rule(target=members)
    def come_classic(self) -> ClassicClient:
        one = ClassicClient(self.runtime, frozenset({"alpha"}))
        self.everybody.append(one)
        one.step()
        return one

    @rule(one=members, times=st.integers(1, 3))
    def go_on(self, one: Consumer | ClassicClient, times: int) -> None:
        for _ in range(times):
            self._step(one)

    @rule()
    def everybody_goes_on(self) -> None:
        for one in self.everybody:
            self._step(one)

    @staticmethod
    def _step(one: Consumer | ClassicClient) -> None:
        if isinstance(one, Consumer):
            one.beat()
            one.take()
        else:
            one.step()

    @rule(one=consumes(members))
    def leave(self, one: Consumer | ClassicClient) -> None:
        one.leave()
        self.everybody.remove(one)

    @rule(one=consumes(members))
    def die(self, one: Consumer | ClassicClient) -> None:
        self.everybody.remove(one)

    @rule(by_ms=st.sampled_from([1, 5_000, 12_000, 50_000]))
    def wait(self, by_ms: int) -> None:
        self.runtime.advance(by_ms)

    @rule(partitions=st.integers(1, 3))
    def grow(self, partitions: int) -> None:
        topic = self.topics.by_name("alpha")
        assert topic is not None
        self.topics.grow("alpha", topic.partitions + partitions)

    @rule()
    def reload(self) -> None:
        before = self.runtime.states()
        self.runtime.reload()
        for one in self.everybody:
            if isinstance(one, ClassicClient):
                one.reconnect()
        assert set(self.runtime.states()) == set(before)

    @invariant()
    def a_partition_has_one_reader(self) -> None:
        group = self.runtime.groups.get(GROUP)
        if group is None:
            return
        inside = [one for one in self.everybody if one.member_id in group.members]  # type: ignore[attr-defined]
        owned_partitions(inside)  # type: ignore[arg-type]

    @invariant()
    def a_load_finds_the_same_groups(self) -> None:
        states = self.runtime.states()
        loaded = self.runtime.states_after_load(compacted=True)
        assert {group_id: state for group_id, state in states.items() if isinstance(state, tuple)} == {
            group_id: state for group_id, state in loaded.items() if isinstance(state, tuple)
        }

    def teardown(self) -> None:
        for _ in range(60):
            self.runtime.advance(2_000)
            self.everybody_goes_on()
        group = self.runtime.groups.get(GROUP)
        if group is None or not self.everybody:
            return
        classic = all(isinstance(one, ClassicClient) for one in self.everybody)
        assert group.state_name == "Stable"
        assert group.kind == CLASSIC or not classic
        topic = self.topics.by_name("alpha")
        assert topic is not None
        if isinstance(group, ConsumerGroup):
            assert len(owned_partitions(self.everybody)) == topic.partitions  # type: ignore[arg-type]
            loads = [sum(map(len, one.owned.values())) for one in self.everybody]
            assert max(loads) - min(loads) <= 1


def test_a_modern_member_comes_back_to_a_group_that_became_classic() -> None:
    """Found by the model: members of both kinds, and the modern one is away until it has expired."""
    model = MigrationModel()
    modern = model.come_modern()
    classic = [model.come_classic()]
    model.wait(by_ms=50_000)
    classic.append(model.come_classic())
    assert modern.beat().error is ErrorCode.group_id_not_found
    for one in classic:
        model.die(one=one)
    model.teardown()


TestConsumerGroupModel = ConsumerGroupModel.TestCase
TestConsumerGroupModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestMigrationModel = MigrationModel.TestCase
TestMigrationModel.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
