"""EndTxn (key 26), versions 0 to 5: commit or abort a transaction.

Behaviour: once the decision is written it is final, and markers are written to all partitions of the
transaction. They are there before the broker handles any request that was sent after the reply, so the
producer finds its id free.

Version notes: 2 may return PRODUCER_FENCED (KIP-588), for which older clients get INVALID_PRODUCER_EPOCH; 3
is flexible; 4 may return TRANSACTION_ABORTABLE; 5 uses version 2 of the transaction protocol: every
transaction has an epoch of its own, and the reply returns the id and epoch of the next one (KIP-890).
"""

from __future__ import annotations

from typing import Final

from kio.schema.end_txn.v5 import request as requests
from kio.schema.end_txn.v5 import response as responses
from kio.schema.errors import ErrorCode

from headrace.broker.answers import Later, when_done
from headrace.broker.api import Context, Typed
from headrace.broker.asking_groups import asked
from headrace.broker.broker import Broker
from headrace.broker.transaction_errors import fenced_as_known
from headrace.coordination.transactions.requests import EndReply, EndTransaction
from headrace.coordination.transactions.states import EPOCH_BUMP_VERSION
from headrace.wire.messages import NO_THROTTLE

_FENCED_FROM: Final = 2
_EPOCH_BUMP_FROM: Final = 5


def handle(
    broker: Broker, request: requests.EndTxnRequest, context: Context
) -> Later[responses.EndTxnResponse]:
    """Whether the transaction ended as requested."""
    end = EndTransaction(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        committed=request.committed,
        client_version=EPOCH_BUMP_VERSION if context.version >= _EPOCH_BUMP_FROM else 0,
    )
    reply = asked(lambda: broker.transactions.end(end), _refused)
    return when_done(reply, lambda reply: _message(reply, context))


def _refused(error: ErrorCode) -> EndReply:
    return EndReply(error=error)


def _message(reply: EndReply, context: Context) -> responses.EndTxnResponse:
    return responses.EndTxnResponse(
        throttle_time=NO_THROTTLE,
        error_code=fenced_as_known(reply.error, context, _FENCED_FROM),
        producer_id=reply.producer_id,
        producer_epoch=reply.producer_epoch,
    )


HANDLER = Typed(requests.EndTxnRequest, responses.EndTxnResponse, handle)
