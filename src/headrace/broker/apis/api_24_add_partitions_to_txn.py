"""AddPartitionsToTxn (key 24), versions 0 to 5: adds partitions to a transaction before their records.

Behaviour: all partitions of a transaction are added, or none: if one is missing (UNKNOWN_TOPIC_OR_PARTITION),
the others get OPERATION_NOT_ATTEMPTED. Clients may not add internal topics (TOPIC_AUTHORIZATION_FAILED);
AddOffsetsToTxn adds the partition for offsets. Clients that use Produce from version 12 on no longer send
this request.

Version notes: 2 may return PRODUCER_FENCED (KIP-588), for which older clients get INVALID_PRODUCER_EPOCH; 3
is flexible; 4 and 5 are for brokers: they carry several transactions, which can be verified only
(`verify_only`, KIP-890), and in 5 use version 2 of the transaction protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kio.schema.add_partitions_to_txn.v5 import request as requests
from kio.schema.add_partitions_to_txn.v5 import response as responses
from kio.schema.errors import ErrorCode

from headrace.broker.answers import Answer, Later, when_all_done
from headrace.broker.api import Context, Typed
from headrace.broker.asking_groups import asked
from headrace.broker.broker import Broker
from headrace.broker.topic_names import is_internal
from headrace.broker.transaction_errors import fenced_as_known
from headrace.coordination.transactions.records import TopicPartition
from headrace.coordination.transactions.requests import AddPartitions, AddPartitionsReply
from headrace.coordination.transactions.states import EPOCH_BUMP_VERSION
from headrace.wire.messages import NO_THROTTLE

_FENCED_FROM: Final = 2
_FOR_BROKERS_FROM: Final = 4
_EPOCH_BUMP_FROM: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnRequest(requests.AddPartitionsToTxnRequest):
    """Adds the single transaction of versions 0 to 3."""

    v3_and_below_transactional_id: str = ""
    v3_and_below_producer_id: int = -1
    v3_and_below_producer_epoch: int = -1
    v3_and_below_topics: tuple[requests.AddPartitionsToTxnTopic, ...] = ()

    def one_transaction(self) -> requests.AddPartitionsToTxnTransaction:
        return requests.AddPartitionsToTxnTransaction(
            transactional_id=self.v3_and_below_transactional_id,
            producer_id=self.v3_and_below_producer_id,
            producer_epoch=self.v3_and_below_producer_epoch,
            topics=self.v3_and_below_topics,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnResponse(responses.AddPartitionsToTxnResponse):
    """Adds the single result of versions 0 to 3."""

    results_by_topic_v3_and_below: tuple[responses.AddPartitionsToTxnTopicResult, ...]


def handle(
    broker: Broker, request: AddPartitionsToTxnRequest, context: Context
) -> Later[AddPartitionsToTxnResponse]:
    """One result for each partition of each transaction."""
    several = context.version >= _FOR_BROKERS_FROM
    transactions = request.transactions if several else (request.one_transaction(),)

    def message(replies: Sequence[AddPartitionsReply]) -> AddPartitionsToTxnResponse:
        results = tuple(
            responses.AddPartitionsToTxnResult(
                transactional_id=each.transactional_id, topic_results=_topics(reply, context)
            )
            for each, reply in zip(transactions, replies, strict=True)
        )
        return AddPartitionsToTxnResponse(
            throttle_time=NO_THROTTLE,
            error_code=ErrorCode.none,
            results_by_transaction=results,
            results_by_topic_v3_and_below=() if several else results[0].topic_results,
        )

    return when_all_done([_add(broker, each, context) for each in transactions], message)


def _add(
    broker: Broker, transaction: requests.AddPartitionsToTxnTransaction, context: Context
) -> Answer[AddPartitionsReply]:
    partitions = [
        TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions
    ]
    errors = {place: _error_of(broker, place, context) for place in partitions}
    if any(error is not ErrorCode.none for error in errors.values()):
        return AddPartitionsReply(
            partitions=tuple(
                (place, ErrorCode.operation_not_attempted if error is ErrorCode.none else error)
                for place, error in errors.items()
            )
        )
    add = AddPartitions(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        partitions=frozenset(errors),
        verify_only=transaction.verify_only,
        client_version=EPOCH_BUMP_VERSION if context.version >= _EPOCH_BUMP_FROM else 0,
    )
    return asked(
        lambda: broker.transactions.add_partitions(add),
        lambda error: AddPartitionsReply(partitions=tuple((place, error) for place in errors)),
    )


def _error_of(broker: Broker, place: TopicPartition, context: Context) -> ErrorCode:
    if context.version < _FOR_BROKERS_FROM and is_internal(place.topic):
        return ErrorCode.topic_authorization_failed
    if broker.partition(broker.find_topic(place.topic), place.partition) is None:
        return ErrorCode.unknown_topic_or_partition
    return ErrorCode.none


def _topics(
    reply: AddPartitionsReply, context: Context
) -> tuple[responses.AddPartitionsToTxnTopicResult, ...]:
    by_topic: dict[str, list[responses.AddPartitionsToTxnPartitionResult]] = {}
    for place, error in reply.partitions:
        by_topic.setdefault(place.topic, []).append(
            responses.AddPartitionsToTxnPartitionResult(
                partition_index=place.partition,
                partition_error_code=fenced_as_known(error, context, _FENCED_FROM),
            )
        )
    return tuple(
        responses.AddPartitionsToTxnTopicResult(name=name, results_by_partition=tuple(results))
        for name, results in by_topic.items()
    )


HANDLER = Typed(AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, handle)
