"""Transactions as tools see them: DescribeTransactions and ListTransactions.

Invariants: replies show the current state, in the order of ids. Never changes anything.
"""

from __future__ import annotations

from collections.abc import Iterable

from kio.schema.errors import ErrorCode

from headrace.coordination.expressions import InvalidExpressionError, compile_expression
from headrace.coordination.transactions.records import Transaction
from headrace.coordination.transactions.requests import (
    DescribedTransaction,
    ListedTransaction,
    ListedTransactions,
    ListTransactions,
)
from headrace.coordination.transactions.states import BY_TITLE


def describe(transactional_id: str, transaction: Transaction | None) -> DescribedTransaction:
    if transaction is None:
        error = ErrorCode.transactional_id_not_found if transactional_id else ErrorCode.invalid_request
        return DescribedTransaction(transactional_id=transactional_id, error=error)
    return DescribedTransaction(
        transactional_id=transactional_id,
        state=transaction.state.title,
        timeout_ms=transaction.timeout_ms,
        started_ms=transaction.started_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        partitions=tuple(sorted(transaction.partitions)),
    )


def listed(transactions: Iterable[Transaction], request: ListTransactions, now_ms: int) -> ListedTransactions:
    try:
        expression = compile_expression(request.pattern) if request.pattern else None
    except InvalidExpressionError:
        return ListedTransactions(error=ErrorCode.invalid_regular_expression)
    unknown = tuple(sorted(title for title in request.states if title not in BY_TITLE))
    found = [
        ListedTransaction(
            transactional_id=each.transactional_id, producer_id=each.producer_id, state=each.state.title
        )
        for each in transactions
        if (not request.producer_ids or each.producer_id in request.producer_ids)
        and (not request.states or each.state.title in request.states)
        and (request.duration_ms < 0 or now_ms - each.started_ms > request.duration_ms)
        and (expression is None or expression.matches(each.transactional_id))
    ]
    found.sort(key=lambda each: each.transactional_id)
    return ListedTransactions(unknown_states=unknown, transactions=tuple(found))
