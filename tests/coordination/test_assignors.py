"""What holds for every assignment of any group, and what each assignor promises in addition."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from headrace.coordination.consumer.assignors import ASSIGNORS, Partitions, Subscriber

TOPICS = [UUID(int=number) for number in range(1, 6)]
MEMBERS = [f"member-{number:02}" for number in range(12)]

counts_of_topics = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9), max_size=5)
memberships = st.sets(st.sampled_from(MEMBERS), min_size=1)


def subscribers(
    subscriptions: dict[str, frozenset[UUID]], current: dict[str, Partitions] | None = None
) -> dict[str, Subscriber]:
    return {
        member_id: Subscriber(topics=topics, current=(current or {}).get(member_id, {}))
        for member_id, topics in subscriptions.items()
    }


def owners(assignment: dict[str, dict[UUID, frozenset[int]]]) -> dict[tuple[UUID, int], str]:
    """The owner of each partition. Fails if two have the same."""
    found: dict[tuple[UUID, int], str] = {}
    for member_id, topics in assignment.items():
        for topic_id, numbers in topics.items():
            assert numbers, "a topic without partitions is not in it"
            for number in numbers:
                assert (topic_id, number) not in found
                found[topic_id, number] = member_id
    return found


def loads(assignment: dict[str, dict[UUID, frozenset[int]]]) -> dict[str, int]:
    return {member_id: sum(map(len, topics.values())) for member_id, topics in assignment.items()}


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, frozenset[UUID]], dict[UUID, int]]:
    """Members that may subscribe to different topics, some of which do not exist."""
    counts = draw(counts_of_topics)
    subscriptions = {
        member_id: frozenset(draw(st.sets(st.sampled_from(TOPICS)))) for member_id in draw(memberships)
    }
    return subscriptions, counts


@given(groups(), st.sampled_from(sorted(ASSIGNORS)), groups())
def test_each_partition_with_a_subscriber_has_one_owner_who_subscribes_to_it(
    group: tuple[dict[str, frozenset[UUID]], dict[UUID, int]],
    name: str,
    before: tuple[dict[str, frozenset[UUID]], dict[UUID, int]],
) -> None:
    subscriptions, counts = group
    earlier = ASSIGNORS[name](subscribers(before[0]), before[1])
    assignment = ASSIGNORS[name](subscribers(subscriptions, dict(earlier)), counts)
    assert assignment.keys() == subscriptions.keys()
    found = owners(assignment)
    subscribed = frozenset[UUID]().union(*subscriptions.values())
    assert found.keys() == {
        (topic_id, number) for topic_id in subscribed & counts.keys() for number in range(counts[topic_id])
    }
    for (topic_id, _), member_id in found.items():
        assert topic_id in subscriptions[member_id]


@given(groups(), st.sampled_from(sorted(ASSIGNORS)), st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(
    group: tuple[dict[str, frozenset[UUID]], dict[UUID, int]], name: str, random: object
) -> None:
    subscriptions, counts = group
    shuffled = list(subscriptions.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assign = ASSIGNORS[name]
    assert assign(subscribers(subscriptions), counts) == assign(subscribers(dict(shuffled)), counts)


class TestUniform:
    @given(memberships, counts_of_topics)
    def test_the_same_subscriptions_give_loads_one_apart(
        self, members: set[str], counts: dict[UUID, int]
    ) -> None:
        subscriptions = dict.fromkeys(members, frozenset(counts))
        found = loads(ASSIGNORS["uniform"](subscribers(subscriptions), counts)).values()
        assert max(found) - min(found) <= 1

    @given(groups())
    def test_no_single_move_makes_it_more_even(
        self, group: tuple[dict[str, frozenset[UUID]], dict[UUID, int]]
    ) -> None:
        subscriptions, counts = group
        assignment = ASSIGNORS["uniform"](subscribers(subscriptions), counts)
        found = loads(assignment)
        for (topic_id, _), owner in owners(assignment).items():
            for member_id, topics in subscriptions.items():
                if topic_id in topics:
                    assert found[owner] <= found[member_id] + 1

    @given(groups())
    def test_what_is_balanced_stays(self, group: tuple[dict[str, frozenset[UUID]], dict[UUID, int]]) -> None:
        subscriptions, counts = group
        assign = ASSIGNORS["uniform"]
        first = assign(subscribers(subscriptions), counts)
        assert assign(subscribers(subscriptions, dict(first)), counts) == first

    @given(memberships, counts_of_topics, st.sampled_from(MEMBERS))
    def test_when_a_member_goes_only_its_partitions_move(
        self, members: set[str], counts: dict[UUID, int], leaving: str
    ) -> None:
        assign = ASSIGNORS["uniform"]
        staying = members - {leaving}
        if not staying:
            return
        before = assign(subscribers(dict.fromkeys(members | {leaving}, frozenset(counts))), counts)
        after = assign(subscribers(dict.fromkeys(staying, frozenset(counts)), dict(before)), counts)
        then, now = owners(before), owners(after)
        assert all(now[partition] == owner for partition, owner in then.items() if owner != leaving)

    @given(memberships, counts_of_topics, st.sampled_from(MEMBERS))
    def test_when_a_member_comes_no_more_moves_than_it_gets(
        self, members: set[str], counts: dict[UUID, int], coming: str
    ) -> None:
        assign = ASSIGNORS["uniform"]
        there = members - {coming}
        if not there:
            return
        before = assign(subscribers(dict.fromkeys(there, frozenset(counts))), counts)
        after = assign(subscribers(dict.fromkeys(there | {coming}, frozenset(counts)), dict(before)), counts)
        then, now = owners(before), owners(after)
        assert {now[partition] for partition, owner in then.items() if now[partition] != owner} <= {coming}

    def test_more_members_than_partitions_leave_some_idle(self) -> None:
        counts = {TOPICS[0]: 2}
        assignment = ASSIGNORS["uniform"](subscribers(dict.fromkeys(MEMBERS[:3], frozenset(counts))), counts)
        assert sorted(loads(assignment).values()) == [0, 1, 1]

    def test_a_partition_that_two_had_goes_to_one(self) -> None:
        both: dict[str, Partitions] = {member_id: {TOPICS[0]: frozenset({0, 1})} for member_id in MEMBERS[:2]}
        counts = {TOPICS[0]: 2}
        assignment = ASSIGNORS["uniform"](
            subscribers(dict.fromkeys(MEMBERS[:2], frozenset(counts)), both), counts
        )
        assert sorted(loads(assignment).values()) == [1, 1]


class TestRange:
    @given(groups())
    def test_ranges_are_contiguous_and_one_apart(
        self, group: tuple[dict[str, frozenset[UUID]], dict[UUID, int]]
    ) -> None:
        subscriptions, counts = group
        assignment = ASSIGNORS["range"](subscribers(subscriptions), counts)
        for topic_id in counts:
            lengths = [
                len(assignment[member_id].get(topic_id, ()))
                for member_id in sorted(subscriptions)
                if topic_id in subscriptions[member_id]
            ]
            assert lengths == sorted(lengths, reverse=True)
            assert not lengths or lengths[0] - lengths[-1] <= 1
            for topics in assignment.values():
                numbers = sorted(topics.get(topic_id, ()))
                assert numbers == list(range(numbers[0], numbers[-1] + 1)) if numbers else True

    @given(memberships, st.integers(1, 9))
    def test_topics_of_the_same_size_are_cut_alike(self, members: set[str], partitions: int) -> None:
        counts = dict.fromkeys(TOPICS[:3], partitions)
        assignment = ASSIGNORS["range"](subscribers(dict.fromkeys(members, frozenset(counts))), counts)
        for topics in assignment.values():
            assert len(set(topics.values())) <= 1

    def test_static_members_stand_in_the_order_of_their_instances(self) -> None:
        counts = {TOPICS[0]: 3}
        topics = frozenset(counts)
        members = {
            "a": Subscriber(topics=topics, current={}),
            "b": Subscriber(topics=topics, current={}, instance_id="2"),
            "c": Subscriber(topics=topics, current={}, instance_id="1"),
        }
        assignment = ASSIGNORS["range"](members, counts)
        assert {member_id: sorted(found[TOPICS[0]]) for member_id, found in assignment.items()} == {
            "c": [0],
            "b": [1],
            "a": [2],
        }
