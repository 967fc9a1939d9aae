"""ListTransactions (key 66), versions 0 to 2: the transactional ids that the broker knows (KIP-664).

Behaviour: returns the ids that pass all filters; unknown state names are returned as such. While the
coordinator loads, the answer is COORDINATOR_LOAD_IN_PROGRESS, because an incomplete list would look complete.

Version notes: 1 filters by duration (KIP-994), 2 by a pattern of ids (KIP-1152).
"""

from __future__ import annotations

from kio.schema.list_transactions.v2 import request as requests
from kio.schema.list_transactions.v2 import response as responses

from headrace.broker.api import Context, Typed
from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError
from headrace.coordination.transactions.requests import ListedTransactions, ListTransactions
from headrace.wire.messages import NO_THROTTLE


def handle(
    broker: Broker, request: requests.ListTransactionsRequest, _context: Context
) -> responses.ListTransactionsResponse:
    """Id, producer and state of each transaction."""
    asked_for = ListTransactions(
        states=frozenset(request.state_filters),
        producer_ids=frozenset(request.producer_id_filters),
        duration_ms=request.duration_filter,
        pattern=request.transactional_id_pattern,
    )
    try:
        listed = broker.transactions.list(asked_for)
    except ApiError as error:
        listed = ListedTransactions(error=error.code)
    return responses.ListTransactionsResponse(
        throttle_time=NO_THROTTLE,
        error_code=listed.error,
        unknown_state_filters=listed.unknown_states,
        transaction_states=tuple(
            responses.TransactionState(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=each.state,
            )
            for each in listed.transactions
        ),
    )


HANDLER = Typed(requests.ListTransactionsRequest, responses.ListTransactionsResponse, handle)
