"""InitProducerId (key 22), versions 0 to 5: an id and an epoch for an idempotent or transactional producer.

Behaviour: without a transactional id, returns a new id with epoch 0, whatever the producer had before: it
raises its epoch itself and asks again only when the epochs are exhausted (KIP-360). With one, returns its id
and a higher epoch, which fences earlier producers; a transaction that one of them left open is aborted. An id
without an epoch, an epoch without an id, or an empty transactional id is an INVALID_REQUEST.

Version notes: 2 is flexible; 3 carries the producer's current id and epoch (KIP-360); 4 may return
PRODUCER_FENCED (KIP-588), for which older clients get INVALID_PRODUCER_EPOCH; 5 may return
TRANSACTION_ABORTABLE (KIP-890). Kafka does not advertise 6, for two-phase commit (KIP-939), yet.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v5 import request as requests
from kio.schema.init_producer_id.v5 import response as responses

from headrace.broker.answers import Answer, Later, when_done
from headrace.broker.api import Context, Typed
from headrace.broker.asking_groups import asked, milliseconds
from headrace.broker.broker import Broker
from headrace.broker.errors import kafka_code
from headrace.broker.transaction_errors import fenced_as_known
from headrace.coordination.transactions.requests import InitProducer, InitProducerReply
from headrace.log.errors import LogError
from headrace.wire.messages import NO_THROTTLE

_NONE: Final = -1
_FENCED_FROM: Final = 4


def handle(
    broker: Broker, request: requests.InitProducerIdRequest, context: Context
) -> Later[responses.InitProducerIdResponse]:
    """An id and an epoch, or an error."""
    return when_done(_init(broker, request), lambda reply: _message(reply, context))


def _init(broker: Broker, request: requests.InitProducerIdRequest) -> Answer[InitProducerReply]:
    producer_id = request.producer_id
    epoch = request.producer_epoch
    if (producer_id == _NONE) != (epoch == _NONE) or request.transactional_id == "":
        return InitProducerReply(error=ErrorCode.invalid_request)
    if request.transactional_id is None:
        try:
            return InitProducerReply(producer_id=broker.producer_ids.take(), producer_epoch=0)
        except LogError as error:
            return InitProducerReply(error=kafka_code(error))
    init = InitProducer(
        transactional_id=request.transactional_id,
        timeout_ms=milliseconds(request.transaction_timeout),
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    return asked(lambda: broker.transactions.init_producer(init), _refused)


def _refused(error: ErrorCode) -> InitProducerReply:
    return InitProducerReply(error=error)


def _message(reply: InitProducerReply, context: Context) -> responses.InitProducerIdResponse:
    return responses.InitProducerIdResponse(
        throttle_time=NO_THROTTLE,
        error_code=fenced_as_known(reply.error, context, _FENCED_FROM),
        producer_id=reply.producer_id,
        producer_epoch=reply.producer_epoch,
    )


HANDLER = Typed(requests.InitProducerIdRequest, responses.InitProducerIdResponse, handle)
