"""OffsetCommit (key 8), versions 2 to 10: a group's offsets are kept, in `__consumer_offsets`.

Behaviour: partitions that do not exist are refused one by one; the others are for the group to take or to
refuse. An empty group id is a group like others, as clients of before there was a rule need it.

Version notes: 2 to 4 say how long to keep the offsets. 6 has leader epochs (KIP-320), 7 instance ids
(KIP-345), 8 is flexible. 9 is for members of the consumer protocol too (KIP-848): only from then on clients
understand errors about epochs. 10 names topics by id (KIP-848).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any, Final

from kio.schema.errors import ErrorCode

from headrace.broker.api import Api, Context, when_done
from headrace.broker.asking_groups import asked, milliseconds
from headrace.broker.broker import Broker
from headrace.broker.errors import unknown_partition
from headrace.coordination.group import Committer
from headrace.coordination.offset_records import NO_LEADER_EPOCH
from headrace.coordination.replies import CommitReply, PartitionResult
from headrace.coordination.requests import CommitRequest, OffsetToCommit
from headrace.log.folder.data_folder import Topic

EPOCHS_FROM: Final = 9
IDS_FROM: Final = 10
NO_TOPIC: Final = uuid.UUID(int=0)

# How a reply names a topic: by name, or by id in version 10.
_Key = str | uuid.UUID
# A topic by its place in the request and its key, a partition, and what became of it.
_Result = tuple[int, _Key, int, ErrorCode]


def handle(broker: Broker, request: Any, context: Context) -> Any:
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
                offsets.append(_offset(topic, each))
    if not offsets:
        return _message(refused, context, merged=True)
    commit = CommitRequest(
        group_id=request.group_id,
        committer=Committer(
            member_id=request.member_id,
            instance_id=getattr(request, "group_instance_id", None),
            generation=request.generation_id_or_member_epoch,
            knows_epochs=context.version >= EPOCHS_FROM,
        ),
        offsets=tuple(offsets),
        retention_ms=_retention(request),
    )
    reply = asked(lambda: broker.groups.commit(commit), lambda error: _refused(commit, error))

    def message(reply: CommitReply) -> Any:
        decided = zip(keys, reply.partitions, strict=True)
        results = [*refused, *((*key, each.partition, each.error) for key, each in decided)]
        return _message(results, context, merged=bool(refused))

    return when_done(reply, message)


def _offset(topic: Topic, each: Any) -> OffsetToCommit:
    return OffsetToCommit(
        topic=topic.name,
        topic_id=topic.id,
        partition=each.partition_index,
        offset=each.committed_offset,
        leader_epoch=getattr(each, "committed_leader_epoch", NO_LEADER_EPOCH),
        metadata=each.committed_metadata,
    )


def _retention(request: Any) -> int | None:
    """In versions 2 to 4; negative is the broker's own."""
    if not hasattr(request, "retention_time"):
        return None
    retention_ms = milliseconds(request.retention_time)
    return None if retention_ms == -1 else retention_ms


def _refused(commit: CommitRequest, error: ErrorCode) -> CommitReply:
    return CommitReply(
        partitions=tuple(
            PartitionResult(topic=each.topic, partition=each.partition, error=error)
            for each in commit.offsets
        )
    )


def _message(results: Iterable[_Result], context: Context, *, merged: bool) -> Any:
    """Topics in the order in which they come up first. Kafka gives a topic that was named twice twice, unless
    it had to merge refusals of its own with what the group said."""
    topics: dict[tuple[int, _Key], list[Any]] = {}
    for place, key, partition, error in results:
        made = context.make("OffsetCommitResponsePartition", partition_index=partition, error_code=error)
        topics.setdefault((0 if merged else place, key), []).append(made)
    name = "topic_id" if context.version >= IDS_FROM else "name"
    return context.reply(
        topics=tuple(
            context.make("OffsetCommitResponseTopic", **{name: key}, partitions=tuple(partitions))
            for (_place, key), partitions in topics.items()
        )
    )


API = Api(key=8, name="OffsetCommit", versions=(2, 10), handle=handle)
