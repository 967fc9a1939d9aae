"""ListTransactions (key 66), versions 0 to 2: the transactional ids that the broker knows (KIP-664).

Behaviour: those that pass all filters; names of states that do not exist are given back. While the
coordinator loads them the answer is COORDINATOR_LOAD_IN_PROGRESS: a list with gaps would be taken for all.

Version notes: 1 filters by how long a transaction is open (KIP-994), 2 by a pattern of ids (KIP-1152).
"""

from __future__ import annotations

from typing import Any

from headrace.broker.api import Api, Context
from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError
from headrace.coordination.transactions.requests import ListedTransactions, ListTransactions


def handle(broker: Broker, request: Any, context: Context) -> Any:
    """Id, producer and state of each."""
    asked_for = ListTransactions(
        states=frozenset(request.state_filters),
        producer_ids=frozenset(request.producer_id_filters),
        duration_ms=getattr(request, "duration_filter", -1),
        pattern=getattr(request, "transactional_id_pattern", None),
    )
    try:
        listed = broker.transactions.list(asked_for)
    except ApiError as error:
        listed = ListedTransactions(error=error.code)
    return context.reply(
        error_code=listed.error,
        unknown_state_filters=listed.unknown_states,
        transaction_states=tuple(
            context.make(
                "TransactionState",
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=each.state,
            )
            for each in listed.transactions
        ),
    )


API = Api(key=66, name="ListTransactions", versions=(0, 2), handle=handle)
