"""OffsetCommit (key 8), versions 2 to 10: commits a group's offsets to `__consumer_offsets`.

Behaviour: missing partitions are refused one by one; the group accepts or refuses the others. An empty group
id is allowed, because old clients use it.

Version notes: 2 to 4 have a retention time. 6 has leader epochs (KIP-320), 7 instance ids (KIP-345), 8 is
flexible. 9 also serves members of the consumer protocol (KIP-848); only from then on clients understand
errors about epochs. 10 names topics by id (KIP-848).
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.offset_commit.v10 import request as requests
from kio.schema.offset_commit.v10 import response as responses

from headrace.broker.answers import Later, when_done
from headrace.broker.api import Context, Typed
from headrace.broker.asking_groups import asked, milliseconds, offset_to_commit
from headrace.broker.broker import Broker
from headrace.broker.coordinators.groups import refused_commit
from headrace.broker.errors import unknown_partition
from headrace.coordination.group import Committer
from headrace.coordination.replies import CommitReply
from headrace.coordination.requests import CommitRequest, OffsetToCommit
from headrace.wire.messages import NO_THROTTLE

EPOCHS_FROM: Final = 9
IDS_FROM: Final = 10
NO_TOPIC: Final = uuid.UUID(int=0)
_NO_RETENTION: Final = datetime.timedelta(milliseconds=-1)

# How a reply names a topic: by name, or by id in version 10.
_Key = str | uuid.UUID
# The place of the topic in the request, its key, the partition, and the result.
_Result = tuple[int, _Key, int, ErrorCode]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequestTopic(requests.OffsetCommitRequestTopic):
    """Adds the name of versions before 10."""

    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest(requests.OffsetCommitRequest):
    """Adds the retention time of versions 2 to 4; -1 means the broker's default."""

    topics: tuple[OffsetCommitRequestTopic, ...]
    retention_time: datetime.timedelta = _NO_RETENTION


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponseTopic(responses.OffsetCommitResponseTopic):
    """Adds the name of versions before 10."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponse(responses.OffsetCommitResponse):
    topics: tuple[OffsetCommitResponseTopic, ...]


def handle(broker: Broker, request: OffsetCommitRequest, context: Context) -> Later[OffsetCommitResponse]:
    by_id = context.version >= IDS_FROM
    refused: list[_Result] = []
    offsets: list[OffsetToCommit] = []
    keys: list[tuple[int, _Key]] = []
    for place, asked_topic in enumerate(request.topics):
        key = (asked_topic.topic_id or NO_TOPIC) if by_id else asked_topic.name
        topic = broker.find_topic(key)
        for each in asked_topic.partitions:
            if topic is None or broker.partition(topic, each.partition_index) is None:
                refused.append((place, key, each.partition_index, unknown_partition(key, topic)))
            else:
                keys.append((place, key))
                offsets.append(offset_to_commit(topic, each))
    if not offsets:
        return _message(refused, merged=True)
    commit = CommitRequest(
        group_id=request.group_id,
        committer=Committer(
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id_or_member_epoch,
            knows_epochs=context.version >= EPOCHS_FROM,
        ),
        offsets=tuple(offsets),
        retention_ms=None
        if request.retention_time == _NO_RETENTION
        else milliseconds(request.retention_time),
    )
    reply = asked(lambda: broker.groups.commit(commit), lambda error: refused_commit(commit, error))

    def message(reply: CommitReply) -> OffsetCommitResponse:
        decided = zip(keys, reply.partitions, strict=True)
        results = [*refused, *((*key, each.partition, each.error) for key, each in decided)]
        return _message(results, merged=bool(refused))

    return when_done(reply, message)


def _message(results: Iterable[_Result], *, merged: bool) -> OffsetCommitResponse:
    """Topics in order of first appearance. As in Kafka, a topic that is named twice appears twice, unless
    refused partitions are merged with those that the group answered."""
    topics: dict[tuple[int, _Key], list[responses.OffsetCommitResponsePartition]] = {}
    for place, key, partition, error in results:
        made = responses.OffsetCommitResponsePartition(partition_index=partition, error_code=error)
        topics.setdefault((0 if merged else place, key), []).append(made)
    return OffsetCommitResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            OffsetCommitResponseTopic(
                name=key if isinstance(key, str) else "",
                topic_id=key if isinstance(key, uuid.UUID) else None,
                partitions=tuple(partitions),
            )
            for (_place, key), partitions in topics.items()
        ),
    )


HANDLER = Typed(OffsetCommitRequest, OffsetCommitResponse, handle)
