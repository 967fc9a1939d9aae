"""OffsetFetch (key 9), versions 1 to 10: the committed offsets of a group.

Behaviour: returns -1 if there is no offset, including for missing topics and groups. With `require_stable`, a
partition whose offset an open transaction may change gets UNSTABLE_OFFSET_COMMIT (KIP-447). Offsets that were
committed for an earlier topic of the same name do not count, even if a crash kept their deletion from being
recorded.

Version notes: 2 can ask for all partitions and has a top-level error; in 1 every partition carries the error.
5 has leader epochs (KIP-320), 6 is flexible, 7 can require stable offsets, 8 asks for several groups at once
(KIP-709). From 9 on members of the consumer protocol identify themselves (KIP-848). 10 names topics by id;
when asked for all partitions, it leaves out deleted topics.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.offset_fetch.v10 import request as requests
from kio.schema.offset_fetch.v10 import response as responses

from headrace.broker.answers import Answer, Later, when_all_done
from headrace.broker.api import Context, Typed
from headrace.broker.asking_groups import asked
from headrace.broker.broker import Broker
from headrace.coordination.replies import FetchedOffset, FetchOffsetsReply
from headrace.coordination.requests import FetchOffsetsRequest
from headrace.wire.messages import NO_THROTTLE

ERROR_FROM: Final = 2
SEVERAL_FROM: Final = 8
IDS_FROM: Final = 10
NO_TOPIC: Final = uuid.UUID(int=0)

_Key = str | uuid.UUID
# The topics of a reply, by name or id, each with its partitions.
_Topics = Sequence[tuple[_Key, Sequence[FetchedOffset]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequestTopics(requests.OffsetFetchRequestTopics):
    """Adds the name of versions before 10."""

    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequestGroup(requests.OffsetFetchRequestGroup):
    topics: tuple[OffsetFetchRequestTopics, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequest(requests.OffsetFetchRequest):
    """Adds the single group of versions before 8."""

    groups: tuple[OffsetFetchRequestGroup, ...]
    group_id: str = ""
    topics: tuple[OffsetFetchRequestTopics, ...] | None = ()

    def one_group(self) -> OffsetFetchRequestGroup:
        return OffsetFetchRequestGroup(group_id=self.group_id, topics=self.topics)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponseTopics(responses.OffsetFetchResponseTopics):
    """Adds the name of versions before 10."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponseGroup(responses.OffsetFetchResponseGroup):
    topics: tuple[OffsetFetchResponseTopics, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponse(responses.OffsetFetchResponse):
    """Adds the single group of versions before 8."""

    groups: tuple[OffsetFetchResponseGroup, ...]
    error_code: ErrorCode = ErrorCode.none
    topics: tuple[OffsetFetchResponseTopics, ...] = ()


def handle(broker: Broker, request: OffsetFetchRequest, context: Context) -> Later[OffsetFetchResponse]:
    several = context.version >= SEVERAL_FROM
    groups = [
        _Group(broker, each, context, require_stable=request.require_stable)
        for each in (request.groups if several else (request.one_group(),))
    ]

    def message(replies: Sequence[FetchOffsetsReply]) -> OffsetFetchResponse:
        answers = tuple(_answer(reply, group) for group, reply in zip(groups, replies, strict=True))
        if several:
            return OffsetFetchResponse(throttle_time=NO_THROTTLE, groups=answers)
        (only,) = answers
        return OffsetFetchResponse(
            throttle_time=NO_THROTTLE, groups=(), error_code=only.error_code, topics=only.topics
        )

    return when_all_done([group.ask() for group in groups], message)


class _Group:
    """The request for one group, and how its answer names topics."""

    def __init__(
        self, broker: Broker, group: OffsetFetchRequestGroup, context: Context, *, require_stable: bool
    ) -> None:
        self._broker = broker
        self._by_id = context.version >= IDS_FROM
        self._errors_in_partitions = context.version < ERROR_FROM
        # For each topic: its key, its name if it is known, and the partitions.
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
            member_id=group.member_id,
            member_epoch=group.member_epoch,
        )

    def _named(self, topic: OffsetFetchRequestTopics) -> tuple[_Key, str | None, Sequence[int]]:
        if not self._by_id:
            return topic.name, topic.name, topic.partition_indexes
        key = topic.topic_id or NO_TOPIC
        found = self._broker.find_topic(key)
        return key, None if found is None else found.name, topic.partition_indexes

    def ask(self) -> Answer[FetchOffsetsReply]:
        return asked(
            lambda: self._broker.groups.fetch_offsets(self._request),
            lambda error: FetchOffsetsReply(group_id=self._request.group_id, error=error),
        )

    def topics(self, reply: FetchOffsetsReply) -> _Topics:
        """The requested topics in order, with unknown ids last; or all topics with offsets."""
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
        """The offset, or none if it was committed for an earlier topic of the same name."""
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


def _answer(reply: FetchOffsetsReply, group: _Group) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(
        group_id=reply.group_id,
        error_code=reply.error,
        topics=tuple(
            OffsetFetchResponseTopics(
                name=key if isinstance(key, str) else "",
                topic_id=key if isinstance(key, uuid.UUID) else None,
                partitions=tuple(_partition(offset) for offset in offsets),
            )
            for key, offsets in group.topics(reply)
        ),
    )


def _partition(offset: FetchedOffset) -> responses.OffsetFetchResponsePartitions:
    return responses.OffsetFetchResponsePartitions(
        partition_index=offset.partition,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        error_code=offset.error,
    )


HANDLER = Typed(OffsetFetchRequest, OffsetFetchResponse, handle)
