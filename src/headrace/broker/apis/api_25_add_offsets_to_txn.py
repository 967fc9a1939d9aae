"""AddOffsetsToTxn (key 25), versions 0 to 4: a transaction will commit offsets of a group.

Behaviour: adds the group's partition of `__consumer_offsets` to the transaction. Clients that use
TxnOffsetCommit from version 5 on no longer send this request.

Version notes: 2 may return PRODUCER_FENCED (KIP-588), for which older clients get INVALID_PRODUCER_EPOCH; 3
is flexible; 4 may return TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from typing import Final

from kio.schema.add_offsets_to_txn.v4 import request as requests
from kio.schema.add_offsets_to_txn.v4 import response as responses
from kio.schema.errors import ErrorCode

from headrace.broker.answers import Answer, Later, when_done
from headrace.broker.api import Context, Typed
from headrace.broker.asking_groups import asked
from headrace.broker.broker import Broker
from headrace.broker.topic_names import CONSUMER_OFFSETS
from headrace.broker.transaction_errors import fenced_as_known
from headrace.coordination.transactions.records import TopicPartition
from headrace.coordination.transactions.requests import AddPartitions, AddPartitionsReply
from headrace.wire.messages import NO_THROTTLE

_FENCED_FROM: Final = 2


def handle(
    broker: Broker, request: requests.AddOffsetsToTxnRequest, context: Context
) -> Later[responses.AddOffsetsToTxnResponse]:
    """Whether the transaction includes the partition now."""
    reply = asked(lambda: _add(broker, request), _refused)
    return when_done(
        reply,
        lambda reply: responses.AddOffsetsToTxnResponse(
            throttle_time=NO_THROTTLE, error_code=fenced_as_known(reply.error, context, _FENCED_FROM)
        ),
    )


def _add(broker: Broker, request: requests.AddOffsetsToTxnRequest) -> Answer[AddPartitionsReply]:
    """Raises ApiError."""
    place = TopicPartition(CONSUMER_OFFSETS, broker.groups.partition_of(request.group_id))
    return broker.transactions.add_partitions(
        AddPartitions(
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            partitions=frozenset({place}),
        )
    )


def _refused(error: ErrorCode) -> AddPartitionsReply:
    return AddPartitionsReply(partitions=((TopicPartition(CONSUMER_OFFSETS, 0), error),))


HANDLER = Typed(requests.AddOffsetsToTxnRequest, responses.AddOffsetsToTxnResponse, handle)
