"""How a producer begins to use a transactional id and adds partitions: the rules about ids and epochs.

Invariants: a producer that begins anew gets a higher epoch than any before it, which fences those. A producer
that goes on (KIP-360) must have the current epoch, or repeat a request of the epoch before.
"""

from __future__ import annotations

from dataclasses import replace

from kio.schema.errors import ErrorCode

from headrace.coordination.transactions.endings import LARGEST_EPOCH, is_exhausted
from headrace.coordination.transactions.records import NOT_BEGUN, Transaction
from headrace.coordination.transactions.requests import AddPartitions, InitProducer
from headrace.coordination.transactions.states import Event, State, can, following


def needs_producer_id(transaction: Transaction | None, request: InitProducer) -> bool:
    """Whether there is no producer id yet, or its epochs are used up. No client gets the largest epoch."""
    if transaction is None:
        return True
    return is_exhausted(transaction.producer_epoch) and (
        not request.goes_on or transaction.producer_epoch in (request.producer_epoch, LARGEST_EPOCH)
    )


def begun(
    before: Transaction | None, request: InitProducer, new_producer_id: int | None, now_ms: int
) -> Transaction:
    """The transaction of a producer that has just begun. Nothing may be open."""
    if needs_producer_id(before, request):
        if new_producer_id is None:
            raise AssertionError("a new producer id is needed")
        producer_id, epoch, last_epoch = new_producer_id, 0, request.producer_epoch
    elif before is None:
        raise AssertionError("a transaction that is new has no producer yet")
    elif request.goes_on and request.producer_epoch == before.last_producer_epoch:
        # A repeated request. Nobody else has begun in between: that would have cleared the last epoch.
        return replace(
            before,
            state=following(before.state, Event.INITIALIZED),
            timeout_ms=request.timeout_ms,
            partitions=frozenset(),
            started_ms=NOT_BEGUN,
            updated_ms=now_ms,
        )
    else:
        producer_id, epoch, last_epoch = before.producer_id, before.producer_epoch + 1, request.producer_epoch
    begins = Transaction(
        transactional_id=request.transactional_id,
        producer_id=producer_id,
        previous_producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=request.timeout_ms,
        state=State.EMPTY,
        started_ms=NOT_BEGUN,
        updated_ms=now_ms,
    )
    if before is None:
        return begins
    return replace(
        begins,
        state=following(before.state, Event.INITIALIZED),
        previous_producer_id=before.producer_id,
        last_producer_epoch=last_epoch,
        client_version=before.client_version,
    )


def is_same_producer(transaction: Transaction, request: InitProducer) -> bool:
    """Whether the current producer wants to go on, and not one that was replaced.

    Kafka checks the epoch only while no transaction is open: a fenced producer can abort the transaction of
    its successor. Here it cannot.
    """
    if request.producer_epoch == transaction.producer_epoch:
        return request.producer_id == transaction.producer_id
    if transaction.state is State.ONGOING or request.producer_epoch != transaction.last_producer_epoch:
        return False
    return request.producer_id == transaction.producer_id or (
        request.producer_id == transaction.previous_producer_id and is_exhausted(request.producer_epoch)
    )


def add_error(transaction: Transaction | None, request: AddPartitions) -> ErrorCode:
    """Why partitions cannot be added or verified."""
    if not request.transactional_id:
        return ErrorCode.invalid_request
    if transaction is None:
        return ErrorCode.invalid_producer_id_mapping
    ending = not can(Event.EXTENDED, transaction.state)
    if ending and not request.verify_only:
        # First of all: if epochs are used up, the client may already know the next producer id.
        return ErrorCode.concurrent_transactions
    if request.producer_id != transaction.producer_id:
        return ErrorCode.invalid_producer_id_mapping
    if request.producer_epoch != transaction.producer_epoch:
        return ErrorCode.producer_fenced
    return ErrorCode.concurrent_transactions if ending else ErrorCode.none
