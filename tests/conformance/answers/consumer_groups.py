"""Groups of the consumer protocol (KIP-848): ConsumerGroupHeartbeat (68), ConsumerGroupDescribe (69)."""

from __future__ import annotations

import uuid
from typing import Any

from tests.conformance.answers.conversation import (
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    Conversation,
    Topic,
    scenario,
    wait_until,
)
from tests.conformance.answers.group_offsets import assignment, subscription
from tests.conformance.answers.groups import (
    heartbeat_fields,
    join_fields,
    known_topic,
    stable_member,
)

Owned = dict[uuid.UUID, frozenset[int]]


class Consumer:
    """A member that does what it is told, and says what it has."""

    def __init__(
        self, conversation: Conversation, group_id: str, member_id: str, *topics: Topic, **fields: Any
    ) -> None:
        self._client = conversation.client
        self.group_id = group_id
        self.id = member_id
        self.epoch = 0
        self.owned: Owned = {}
        self._topics = topics
        self._fields = fields

    def join(self, version: int = 1) -> Any:
        return self._beat(version, **self.joining)

    @property
    def joining(self) -> dict[str, Any]:
        return {
            "rebalance_timeout": 30_000,
            "subscribed_topic_names": [topic.name for topic in self._topics],
            "topic_partitions": [],
        } | self._fields

    def beat(self, version: int = 1) -> Any:
        owned = [{"topic_id": each, "partitions": sorted(parts)} for each, parts in self.owned.items()]
        return self._beat(version, topic_partitions=owned)

    def _beat(self, version: int, **fields: Any) -> Any:
        reply = self._client.ask(
            CONSUMER_GROUP_HEARTBEAT,
            version,
            group_id=self.group_id,
            member_id=self.id,
            member_epoch=self.epoch,
            **fields,
        )
        assert reply.error_code == 0, reply
        self.id, self.epoch = reply.member_id, reply.member_epoch
        if reply.assignment is not None:
            given = reply.assignment.topic_partitions
            self.owned = {each.topic_id: frozenset(each.partitions) for each in given}
        return reply

    @property
    def count(self) -> int:
        return sum(map(len, self.owned.values()))


def settle(*consumers: Consumer, partitions: int) -> None:
    """Heartbeats of all until they have everything in equal parts and are at one epoch."""

    def settled() -> bool:
        for consumer in consumers:
            consumer.beat()
        counts = [consumer.count for consumer in consumers]
        epochs = {consumer.epoch for consumer in consumers}
        return sum(counts) == partitions and max(counts) - min(counts) <= 1 and len(epochs) == 1

    wait_until(settled)


@scenario(range(2))
def consumer_heartbeat(conversation: Conversation, version: int) -> None:
    topic = known_topic(conversation, 3)
    group_id = conversation.group()

    def ask(label: str, **fields: Any) -> Any:
        asked = {"group_id": group_id, "member_id": "one", "member_epoch": 0} | fields
        return conversation.ask(CONSUMER_GROUP_HEARTBEAT, version, label, **asked)

    joining = {
        "rebalance_timeout": 30_000,
        "subscribed_topic_names": [topic.name],
        "topic_partitions": [],
    }
    ask("nothing")
    ask("empty group id", **joining | {"group_id": ""})
    ask("empty instance id", **joining | {"instance_id": ""})
    ask("empty rack", **joining | {"rack_id": ""})
    ask("no timeout", **joining | {"rebalance_timeout": -1})
    ask("owns something", **joining | {"topic_partitions": [{"topic_id": topic.id, "partitions": [0]}]})
    ask("does not say what it owns", **joining | {"topic_partitions": None})
    ask("subscribes to nothing", **joining | {"subscribed_topic_names": None})
    ask("unknown assignor", **joining | {"server_assignor": "no-such"})
    ask("an epoch that there is not", **joining | {"member_epoch": -3})
    ask("comes back without a name", member_epoch=-2)
    ask("leaves no group", member_epoch=-1)
    ask("stays in no group", member_epoch=4)
    if version >= 1:
        ask("no member id", **joining | {"member_id": ""})
        ask("a bad expression", **joining | {"subscribed_topic_regex": "("})
    ask("joins", **joining)
    ask("says nothing new", member_epoch=2)
    ask("says all", **joining | {"member_epoch": 2, "topic_partitions": owned(topic, 0, 1, 2)})
    ask("an epoch to come", member_epoch=5)
    ask("the last epoch, with what it has", member_epoch=0, topic_partitions=owned(topic, 0, 1, 2))
    ask("joins again", **joining)
    ask("somebody unknown", member_id="nobody", member_epoch=2)
    ask("somebody unknown leaves", member_id="nobody", member_epoch=-1)
    unknown = {"group_id": conversation.group(), "subscribed_topic_names": ["no-such-topic"]}
    ask("subscribes to a topic that is not there", **joining | unknown)
    ask("leaves", member_epoch=-1)
    ask("leaves again", member_epoch=-1)
    describe(conversation, "nobody is left", group_id)
    other = stable_member(conversation, conversation.group())
    ask("joins a classic group with protocols of its own", **joining | {"group_id": other.group_id})
    ask("stays in a classic group", group_id=other.group_id, member_epoch=2)


def owned(topic: Topic, *partitions: int) -> list[dict[str, Any]]:
    return [{"topic_id": topic.id, "partitions": partitions}]


def describe(conversation: Conversation, label: str, *group_ids: str, version: int = 1, **more: Any) -> None:
    reply = conversation.client.ask(CONSUMER_GROUP_DESCRIBE, version, group_ids=group_ids, **more)
    conversation.note_reply(label, reply)


@scenario(range(1))
def consumer_heartbeat_gives_ids(conversation: Conversation, version: int) -> None:
    """Before the client had to make its own (KIP-1082)."""
    consumer = Consumer(conversation, conversation.group(), "", known_topic(conversation))
    conversation.note_reply("joins", consumer.join(version))


@scenario(range(2))
def consumer_group_describe(conversation: Conversation, version: int) -> None:
    topic = known_topic(conversation, partitions=4)
    group_id = conversation.group()
    first = Consumer(conversation, group_id, "first", topic, rack_id="rack")
    second = Consumer(conversation, group_id, "second", topic, instance_id="two", server_assignor="range")
    first.join()
    settle(first, partitions=4)
    ask = f"v{version}"
    describe(conversation, f"{ask}: one member", group_id, version=version)
    second.join()
    settle(first, second, partitions=4)
    describe(conversation, f"{ask}: two members", group_id, version=version)
    operations = {"include_authorized_operations": True}
    describe(conversation, f"{ask}: operations", group_id, version=version, **operations)
    describe(conversation, f"{ask}: nothing", version=version)
    unknown = conversation.group()
    describe(conversation, f"{ask}: unknown", unknown, version=version, **operations)
    classic = stable_member(conversation, conversation.group())
    describe(conversation, f"{ask}: a classic one", classic.group_id, version=version)
    describe(conversation, f"{ask}: several", group_id, unknown, classic.group_id, version=version)


@scenario(range(1, 2))
def consumer_heartbeat_with_expression(conversation: Conversation, version: int) -> None:
    topic = conversation.topic(partitions=2)
    conversation.topic(partitions=2)
    group_id = conversation.group()
    prefix, _, number = topic.name.rpartition("-")
    expression = f"{prefix}-[{number}]+"
    consumer = Consumer(
        conversation, group_id, "one", subscribed_topic_names=None, subscribed_topic_regex=expression
    )
    consumer.join(version)
    settle(consumer, partitions=2)
    conversation.note("topics", [str(topic_id == topic.id) for topic_id in consumer.owned])
    reply = conversation.client.ask(CONSUMER_GROUP_DESCRIBE, 1, group_ids=[group_id])
    (member,) = reply.groups[0].members
    conversation.note("expression", member.subscribed_topic_regex == expression)
    conversation.note("names", [len(member.subscribed_topic_names)])


@scenario(range(2))
def static_consumers(conversation: Conversation, version: int) -> None:
    topic = known_topic(conversation, 2)
    group_id = conversation.group()
    joining = {
        "instance_id": "one",
        "rebalance_timeout": 30_000,
        "subscribed_topic_names": [topic.name],
        "topic_partitions": [],
    }

    def ask(label: str, member_id: str, epoch: int, **fields: Any) -> None:
        asked = {"group_id": group_id, "member_id": member_id, "member_epoch": epoch} | fields
        conversation.ask(CONSUMER_GROUP_HEARTBEAT, version, label, **asked)

    ask("joins", "first", 0, **joining)
    ask("another of the same name", "second", 0, **joining)
    ask("will be back", "first", -2, instance_id="one")
    describe(conversation, "it is away", group_id)
    ask("comes back", "second", 0, **joining)
    describe(conversation, "it is back", group_id)
    ask("its former self", "first", 1, instance_id="one")
    ask("an unknown name", "second", 1, instance_id="two")
    ask("its former self leaves", "first", -1, instance_id="one")
    ask("leaves for good", "second", -1, instance_id="one")
    describe(conversation, "it has left", group_id)
    conversation.ask(DELETE_GROUPS, 2, "deleted", groups_names=[group_id])
    describe(conversation, "it is gone", group_id)


@scenario(range(1, 2))
def migration(conversation: Conversation, version: int) -> None:
    """A group in use goes from one protocol to the other, and back when the last consumer has left."""
    topic = known_topic(conversation, 2)
    offers = (("range", subscription(topic.name)),)
    classic = {"protocol_type": "consumer", "protocols": offers}
    unreadable = stable_member(conversation, conversation.group(), **classic)
    given = assignment(topic.name, 0, 1)
    member = stable_member(conversation, conversation.group(), given, **classic)
    consumer = Consumer(conversation, member.group_id, "new", topic)
    joining = {"group_id": member.group_id, "member_id": "new", "member_epoch": 0} | consumer.joining
    asked = joining | {"group_id": unreadable.group_id}
    conversation.ask(CONSUMER_GROUP_HEARTBEAT, version, "an assignment that cannot be read", **asked)
    conversation.ask(CONSUMER_GROUP_HEARTBEAT, version, "a consumer joins", **joining)
    conversation.ask(DESCRIBE_GROUPS, 6, "no classic group any more", groups=[member.group_id])
    asked = heartbeat_fields(member.group_id, member.id, 1)
    conversation.ask(HEARTBEAT, 4, "the classic member", **asked)
    asked = join_fields(member.group_id, "nobody", **classic)
    somebody = conversation.client.ask(JOIN_GROUP, 9, **asked)
    conversation.note("somebody unknown", int(somebody.error_code))
    asked = join_fields(member.group_id, **classic | {"protocol_type": "other"})
    conversation.ask(JOIN_GROUP, 9, "of another type", **asked)
    asked = join_fields(member.group_id, **classic)
    conversation.ask(JOIN_GROUP, 9, "another classic member", **asked)
