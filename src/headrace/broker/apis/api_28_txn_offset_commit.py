"""TxnOffsetCommit (key 28), versions 0 to 5: offsets of a group that take effect on commit.

Behaviour: the offsets are written to `__consumer_offsets` as records of the transaction, after a check with
the transaction coordinator. Missing partitions are refused one by one. A member that is not in the group's
current generation is refused, so that only one of two consumers that read the same records can commit
(KIP-447).

Version notes: 2 has leader epochs, and its clients know COORDINATOR_LOAD_IN_PROGRESS, for which older clients
get COORDINATOR_NOT_AVAILABLE; 3 is flexible and has member, generation and instance id (KIP-447); 4 may
return TRANSACTION_ABORTABLE, for which older clients get INVALID_TXN_STATE; from 5 on the broker adds the
partition of the offsets to the transaction (KIP-890).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.txn_offset_commit.v5 import request as requests
from kio.schema.txn_offset_commit.v5 import response as responses

from headrace.broker.answers import Later, when_done
from headrace.broker.api import Context, Typed
from headrace.broker.asking_groups import asked, offset_to_commit
from headrace.broker.broker import Broker
from headrace.broker.coordinators.groups import refused_commit
from headrace.coordination.decision import Producer
from headrace.coordination.group import Committer
from headrace.coordination.replies import PartitionResult
from headrace.coordination.requests import CommitRequest, OffsetToCommit
from headrace.coordination.transactions.states import EPOCH_BUMP_VERSION
from headrace.wire.messages import NO_THROTTLE

_LOADING_FROM: Final = 2
_ABORTABLE_FROM: Final = 4
_ADDS_PARTITION_FROM: Final = 5


def handle(
    broker: Broker, request: requests.TxnOffsetCommitRequest, context: Context
) -> Later[responses.TxnOffsetCommitResponse]:
    """One result for each partition."""
    refused: list[PartitionResult] = []
    offsets: list[OffsetToCommit] = []
    for named in request.topics:
        topic = broker.find_topic(named.name)
        for each in named.partitions:
            if topic is None or broker.partition(topic, each.partition_index) is None:
                unknown = ErrorCode.unknown_topic_or_partition
                refused.append(
                    PartitionResult(topic=named.name, partition=each.partition_index, error=unknown)
                )
            else:
                offsets.append(offset_to_commit(topic, each))
    if not offsets:
        return _message(refused, context)
    commit = CommitRequest(
        group_id=request.group_id,
        committer=Committer(
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id,
            transactional=True,
        ),
        offsets=tuple(offsets),
        producer=Producer(producer_id=request.producer_id, producer_epoch=request.producer_epoch),
    )
    reply = asked(
        lambda: broker.groups.commit_in_transaction(
            commit,
            transactional_id=request.transactional_id,
            client_version=EPOCH_BUMP_VERSION if context.version >= _ADDS_PARTITION_FROM else 0,
        ),
        lambda error: refused_commit(commit, error),
    )
    return when_done(reply, lambda reply: _message([*refused, *reply.partitions], context))


def _as_known(error: ErrorCode, version: int) -> ErrorCode:
    """The code that Kafka's group coordinator sends to clients of this version."""
    if error is ErrorCode.producer_fenced:
        return ErrorCode.invalid_producer_epoch
    if error is ErrorCode.transaction_abortable and version < _ABORTABLE_FROM:
        return ErrorCode.invalid_txn_state
    if error is ErrorCode.coordinator_load_in_progress and version < _LOADING_FROM:
        return ErrorCode.coordinator_not_available
    return error


def _message(results: Iterable[PartitionResult], context: Context) -> responses.TxnOffsetCommitResponse:
    topics: dict[str, list[responses.TxnOffsetCommitResponsePartition]] = {}
    for each in results:
        topics.setdefault(each.topic, []).append(
            responses.TxnOffsetCommitResponsePartition(
                partition_index=each.partition,
                error_code=_as_known(each.error, context.version),
            )
        )
    return responses.TxnOffsetCommitResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            responses.TxnOffsetCommitResponseTopic(name=name, partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
    )


HANDLER = Typed(requests.TxnOffsetCommitRequest, responses.TxnOffsetCommitResponse, handle)
