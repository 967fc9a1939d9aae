"""OffsetFetch (key 9), versions 1 to 10: the offsets that a group has committed.

Behaviour: -1 where there is none, also for topics and groups that are not there. With `require_stable` a
partition whose offset an open transaction may change is answered UNSTABLE_OFFSET_COMMIT (KIP-447). An offset
that was committed when another topic had the name does not count, also where a crash kept the deletion of
that topic from being noted.

Version notes: 2 can ask for all partitions and has an error of its own; before, every partition has it. 5
has leader epochs (KIP-320), 6 is flexible, 7 can require stability, 8 asks for several groups at once
(KIP-709). From 9 on a member of the consumer protocol says who it is (KIP-848). 10 names topics by id: asked
for all partitions, it leaves out those of topics that are no more.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode

from headrace.broker.api import Api, Context
from headrace.broker.asking_groups import asked, when_all_done
from headrace.broker.broker import Broker
from headrace.coordination.group import NO_GENERATION
from headrace.coordination.replies import FetchedOffset, FetchOffsetsReply
from headrace.coordination.requests import FetchOffsetsRequest

ERROR_FROM: Final = 2
LEADER_EPOCHS_FROM: Final = 5
SEVERAL_FROM: Final = 8
IDS_FROM: Final = 10
NO_TOPIC: Final = uuid.UUID(int=0)

_Key = str | uuid.UUID
# Topics as the reply names them, each with its partitions.
_Topics = Sequence[tuple[_Key, Sequence[FetchedOffset]]]


def handle(broker: Broker, request: Any, context: Context) -> Any:
    asked_groups = request.groups if context.version >= SEVERAL_FROM else (request,)
    stable = getattr(request, "require_stable", False)
    groups = [_Group(broker, each, context, require_stable=stable) for each in asked_groups]

    def message(replies: Sequence[FetchOffsetsReply]) -> Any:
        topics = [group.topics(reply) for group, reply in zip(groups, replies, strict=True)]
        if context.version >= SEVERAL_FROM:
            return _of_several(replies, topics, context)
        return _of_one(replies[0], topics[0], context)

    return when_all_done([group.ask() for group in groups], message)


class _Group:
    """What is asked of one group, and how its answer names topics."""

    def __init__(self, broker: Broker, group: Any, context: Context, *, require_stable: bool) -> None:
        self._broker = broker
        self._by_id = context.version >= IDS_FROM
        self._errors_in_partitions = context.version < ERROR_FROM
        # For each topic: how it is named, what its name is if it is known, which partitions.
        self._asked: list[tuple[_Key, str | None, Sequence[int]]] | None = None
        partitions = None
        if group.topics is not None:
            self._asked = [self._named(topic) for topic in group.topics]
            partitions = tuple(
                (name, index) for _key, name, indexes in self._asked if name is not None for index in indexes
            )
        self._request = FetchOffsetsRequest(
            group_id=group.group_id,
            partitions=partitions,
            require_stable=require_stable,
            member_id=getattr(group, "member_id", None),
            member_epoch=getattr(group, "member_epoch", NO_GENERATION),
        )

    def _named(self, topic: Any) -> tuple[_Key, str | None, Sequence[int]]:
        if not self._by_id:
            return topic.name, topic.name, topic.partition_indexes
        key = topic.topic_id or NO_TOPIC
        found = self._broker.find_topic(key)
        return key, None if found is None else found.name, topic.partition_indexes

    def ask(self) -> Any:
        return asked(
            lambda: self._broker.groups.fetch_offsets(self._request),
            lambda error: FetchOffsetsReply(group_id=self._request.group_id, error=error),
        )

    def topics(self, reply: FetchOffsetsReply) -> _Topics:
        """Those asked for, in their order, ids that nobody knows behind the others; or all that there are."""
        if reply.error is not ErrorCode.none:
            return self._refused(reply.error) if self._errors_in_partitions else ()
        if self._asked is None:
            return self._all(reply.partitions)
        fetched = iter(reply.partitions)
        known = [
            (key, [self._of_this_topic(next(fetched)) for _index in indexes])
            for key, name, indexes in self._asked
            if name is not None
        ]
        unknown = [
            (key, [_unknown(index) for index in indexes])
            for key, name, indexes in self._asked
            if name is None
        ]
        return [*known, *unknown]

    def _all(self, offsets: Iterable[FetchedOffset]) -> _Topics:
        topics: dict[_Key, list[FetchedOffset]] = {}
        for offset in offsets:
            key: _Key | None = offset.topic
            if self._by_id:
                topic = self._broker.find_topic(offset.topic)
                key = None if topic is None else topic.id
            if key is not None and self._of_this_topic(offset) is offset:
                topics.setdefault(key, []).append(offset)
        return list(topics.items())

    def _of_this_topic(self, offset: FetchedOffset) -> FetchedOffset:
        """Nothing, if it was committed when another topic had the name."""
        topic = self._broker.find_topic(offset.topic)
        if topic is None or offset.topic_id in {None, topic.id}:
            return offset
        return FetchedOffset(topic=offset.topic, partition=offset.partition)

    def _refused(self, error: ErrorCode) -> _Topics:
        return [
            (key, [FetchedOffset(topic=name or "", partition=index, error=error) for index in indexes])
            for key, name, indexes in self._asked or ()
        ]


def _unknown(partition: int) -> FetchedOffset:
    return FetchedOffset(topic="", partition=partition, error=ErrorCode.unknown_topic_id)


def _of_one(reply: FetchOffsetsReply, topics: _Topics, context: Context) -> Any:
    return context.reply(
        **({"error_code": reply.error} if context.version >= ERROR_FROM else {}),
        topics=tuple(
            context.make(
                "OffsetFetchResponseTopic",
                name=name,
                partitions=_partitions("OffsetFetchResponsePartition", offsets, context),
            )
            for name, offsets in topics
        ),
    )


def _of_several(replies: Iterable[FetchOffsetsReply], all_topics: Iterable[_Topics], context: Context) -> Any:
    name = "topic_id" if context.version >= IDS_FROM else "name"
    return context.reply(
        groups=tuple(
            context.make(
                "OffsetFetchResponseGroup",
                group_id=reply.group_id,
                error_code=reply.error,
                topics=tuple(
                    context.make(
                        "OffsetFetchResponseTopics",
                        **{name: key},
                        partitions=_partitions("OffsetFetchResponsePartitions", offsets, context),
                    )
                    for key, offsets in topics
                ),
            )
            for reply, topics in zip(replies, all_topics, strict=True)
        )
    )


def _partitions(kind: str, offsets: Iterable[FetchedOffset], context: Context) -> tuple[Any, ...]:
    with_epochs = context.version >= LEADER_EPOCHS_FROM
    return tuple(
        context.make(
            kind,
            partition_index=offset.partition,
            committed_offset=offset.offset,
            **({"committed_leader_epoch": offset.leader_epoch} if with_epochs else {}),
            metadata=offset.metadata,
            error_code=offset.error,
        )
        for offset in offsets
    )


API = Api(key=9, name="OffsetFetch", versions=(1, 10), handle=handle)
