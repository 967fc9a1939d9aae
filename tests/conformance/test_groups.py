"""Members of groups come, go, die and stall, with clients that nobody here wrote."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conformance.clients import Client, Message
from tests.conformance.engines import Engine
from tests.conformance.java_tools import JavaTools
from tests.conformance.members import (
    JavaMember,
    KafkaPythonMember,
    LibrdkafkaMember,
    MemberProcess,
    consumer_protocol,
    group_state,
    poll_until,
    settle,
)

JAVA_ASSIGNORS = "org.apache.kafka.clients.consumer"
EAGER = {"partition.assignment.strategy": "range"}
STICKY = {"partition.assignment.strategy": "cooperative-sticky"}
COOPERATIVE = {**STICKY, "session.timeout.ms": 30_000}
CONSUMER = consumer_protocol()
JAVA_CONSUMER = {"group.protocol": "consumer"}


class Group:
    """The test's group, which reads the test's topic."""

    def __init__(
        self, engine: Engine, java_tools: JavaTools, name: str, closing: contextlib.ExitStack
    ) -> None:
        self._engine = engine
        self._java_tools = java_tools
        self._name = name
        self._closing = closing

    def member(self, kind: str = "librdkafka", /, **settings: Any) -> Any:
        """Make one, which ends with the test."""
        place = (self._engine, self._name, self._name)
        member: Any
        if kind == "librdkafka":
            member = LibrdkafkaMember(*place, **settings)
        elif kind == "process":
            member = MemberProcess(*place, **settings)
        elif kind == "kafka-python":
            member = KafkaPythonMember(*place, **settings)
        else:
            member = JavaMember(self._java_tools, *place, **settings)
        self._closing.callback(member.close)
        return member

    def settle(self, *members: Any, partitions: int) -> None:
        settle(self._engine, self._name, members, partitions)

    @property
    def state(self) -> str:
        return group_state(self._engine, self._name)


@pytest.fixture
def group(engine: Engine, java_tools: JavaTools, topic_name: str) -> Iterator[Group]:
    with contextlib.ExitStack() as closing:
        yield Group(engine, java_tools, topic_name, closing)


@pytest.fixture
def write(engine: Engine, clients: dict[str, Client], topic_name: str) -> Callable[[int], None]:
    """Five records to a partition of the test's topic."""

    def write(partition: int) -> None:
        messages = [Message(value=b"v")] * 5
        clients["librdkafka"].write(engine.bootstrap, topic_name, messages, partition=partition)

    return write


@pytest.mark.parametrize("kind", ["librdkafka", "kafka-python", "java"])
def test_members_come_and_go(
    group: Group, new_topic: Callable[..., str], write: Callable[[int], None], kind: str
) -> None:
    new_topic(4)
    for partition in range(4):
        write(partition)
    first = group.member(kind)
    group.settle(first, partitions=4)
    second, third = group.member(kind), group.member(kind)
    group.settle(first, second, third, partitions=4)
    second.close()
    group.settle(first, third, partitions=4)
    everything = {(partition, offset) for partition in range(4) for offset in range(5)}
    poll_until([first, third], lambda: {*first.read, *second.read, *third.read} == everything)
    first.close()
    third.close()
    assert group.state == "Empty"


def test_three_clients_in_one_group(group: Group, new_topic: Callable[..., str]) -> None:
    """They agree on a protocol that all know, whoever leads."""
    new_topic(6)
    java = {"partition.assignment.strategy": f"{JAVA_ASSIGNORS}.RangeAssignor"}
    everybody = (
        group.member("librdkafka", **EAGER),
        group.member("kafka-python"),
        group.member("java", **java),
    )
    group.settle(*everybody, partitions=6)
    # Its thread polls on: if another left first, it would wait for those that nobody polls any longer.
    everybody[1].close()


def test_an_idle_member_steps_up(group: Group, new_topic: Callable[..., str]) -> None:
    """More members than partitions; one dies without a word, and its session ends."""
    new_topic(2)
    members = [group.member("process") for _ in range(3)]
    group.settle(*members, partitions=2)
    busy = next(each for each in members if each.assigned)
    idle = next(each for each in members if not each.assigned)
    busy.kill()
    group.settle(*(each for each in members if each is not busy), partitions=2)
    assert idle.assigned


@pytest.mark.parametrize("kind", ["librdkafka", "java"])
def test_cooperative_rebalances_leave_the_others_alone(
    group: Group, new_topic: Callable[..., str], kind: str
) -> None:
    """KIP-429: who is to give one partition up keeps and reads the others all the time."""
    new_topic(3)
    java = {
        "partition.assignment.strategy": f"{JAVA_ASSIGNORS}.CooperativeStickyAssignor",
        "session.timeout.ms": "30000",
    }
    strategy = java if kind == "java" else COOPERATIVE
    first = group.member(kind, **strategy, **({"watched": True} if kind == "librdkafka" else {}))
    group.settle(first, partitions=3)
    second = group.member(kind, **strategy)
    seen: list[frozenset[int]] = []

    def shared() -> bool:
        seen.append(first.assigned)
        return len(first.assigned) + len(second.assigned) == 3 and bool(second.assigned)

    poll_until([first, second], shared)
    kept = first.assigned
    assert len(kept) == 2
    assert all(kept <= each for each in seen)
    if kind == "librdkafka":
        assert first.revoked == [frozenset(range(3)) - kept]


def test_static_members_come_back(group: Group, new_topic: Callable[..., str]) -> None:
    """KIP-345: who ends and starts again within its session gets the same, and nobody else notices."""
    new_topic(4)
    session = {"session.timeout.ms": 30_000, **EAGER}
    stays = group.member("librdkafka", watched=True, **session, **{"group.instance.id": "stays"})
    goes = group.member("process", **session, **{"group.instance.id": "goes"})
    group.settle(stays, goes, partitions=4)
    had, revoked = goes.assigned, list(stays.revoked)
    goes.kill()
    again = group.member("process", **session, **{"group.instance.id": "goes"})
    poll_until([stays, again], lambda: bool(again.assigned == had))
    assert stays.revoked == revoked
    assert len(stays.assigned) == 2


def test_partitions_that_are_added_are_assigned(
    engine: Engine, group: Group, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(1)
    member = group.member()
    group.settle(member, partitions=1)
    with engine.connect() as client:
        asked = [{"name": topic, "count": 3, "assignments": None}]
        assert client.ask(37, 3, topics=asked, timeout=30_000).results[0].error_code == 0
    group.settle(member, partitions=3)


@pytest.mark.parametrize("kind", ["librdkafka", pytest.param("java", marks=pytest.mark.long)])
def test_the_consumer_protocol(
    group: Group, new_topic: Callable[..., str], write: Callable[[int], None], kind: str
) -> None:
    """KIP-848: the broker assigns; a member hears of it with its next heartbeat, after 5 seconds at most."""
    new_topic(2)
    write(1)
    settings = CONSUMER if kind == "librdkafka" else JAVA_CONSUMER
    first = group.member(kind, **settings)
    group.settle(first, partitions=2)
    poll_until([first], lambda: bool(first.read == [(1, offset) for offset in range(5)]))
    second = group.member(kind, **settings)
    group.settle(first, second, partitions=2)
    second.close()
    first.close()
    assert group.state == "Empty"


@pytest.mark.long
def test_an_expression_is_resolved_by_the_broker(
    group: Group, new_topic: Callable[..., str], topic_name: str
) -> None:
    """In the consumer protocol; a topic that comes later is found, too."""
    new_topic(2)
    member = group.member("librdkafka", **CONSUMER)
    member.consumer.subscribe([f"^{topic_name}.*"])
    poll_until([member], lambda: len(member.consumer.assignment()) == 2)
    new_topic(1, f"{topic_name}-later")
    poll_until([member], lambda: len(member.consumer.assignment()) == 3)


@pytest.mark.long
def test_static_members_of_the_consumer_protocol_come_back(
    group: Group, new_topic: Callable[..., str]
) -> None:
    new_topic(4)
    stays = group.member("librdkafka", watched=True, **CONSUMER, **{"group.instance.id": "stays"})
    goes = group.member("process", **CONSUMER, **{"group.instance.id": "goes"})
    group.settle(stays, goes, partitions=4)
    had, revoked = goes.assigned, list(stays.revoked)
    goes.close()
    again = group.member("process", **CONSUMER, **{"group.instance.id": "goes"})
    poll_until([stays, again], lambda: bool(again.assigned == had))
    assert stays.revoked == revoked


@pytest.mark.long
@pytest.mark.parametrize("kind", ["librdkafka", "java"])
def test_a_dead_member_of_the_consumer_protocol(
    group: Group, new_topic: Callable[..., str], kind: str
) -> None:
    """Its session is the broker's to decide: 45 seconds."""
    new_topic(3)
    stays = group.member(kind, **(CONSUMER if kind == "librdkafka" else JAVA_CONSUMER))
    dies = group.member("process", **CONSUMER)
    group.settle(stays, dies, partitions=3)
    dies.kill()
    group.settle(stays, partitions=3)


@pytest.mark.long
def test_a_group_goes_from_one_protocol_to_the_other_and_back(
    group: Group, new_topic: Callable[..., str]
) -> None:
    """Online migration, a member at a time (KIP-848)."""
    new_topic(4)
    classic = [group.member("librdkafka", **EAGER) for _ in range(2)]
    group.settle(*classic, partitions=4)
    newer = group.member("librdkafka", **CONSUMER)
    group.settle(*classic, newer, partitions=4)
    classic[0].close()
    group.settle(classic[1], newer, partitions=4)
    newer.close()
    group.settle(classic[1], partitions=4)


@pytest.mark.long
@pytest.mark.parametrize("settings", [EAGER, STICKY, CONSUMER], ids=["eager", "cooperative", "consumer"])
def test_twenty_members(group: Group, new_topic: Callable[..., str], settings: dict[str, Any]) -> None:
    """One after the other and all at once they come, leave, die and stall; what is left has everything."""
    new_topic(16)
    everybody: list[Any] = []
    for _ in range(4):
        everybody.append(group.member("librdkafka", **settings))
        group.settle(*everybody, partitions=16)
    everybody += [group.member("librdkafka", **settings) for _ in range(10)]
    processes = [group.member("process", **settings) for _ in range(6)]
    group.settle(*everybody, *processes, partitions=16)
    for each in everybody[:5]:
        each.close()
    # One dies, and one stalls, while the others rebalance.
    processes[0].kill()
    processes[1].freeze()
    left = [*everybody[5:], *processes[2:]]
    group.settle(*left, partitions=16)
    processes[1].thaw()
    group.settle(*left, processes[1], partitions=16)


@pytest.mark.long
def test_a_member_that_stalls_in_a_rebalance(group: Group, new_topic: Callable[..., str]) -> None:
    """The others wait for it until its session ends, and go on without it."""
    new_topic(4)
    stalls = group.member("process", **EAGER)
    group.settle(stalls, partitions=4)
    stalls.freeze()
    other = group.member("librdkafka", **EAGER)
    group.settle(other, partitions=4)
    stalls.thaw()
    group.settle(other, stalls, partitions=4)
