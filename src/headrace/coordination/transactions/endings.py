"""How a transaction ends: the outcome of a request to end it, and the transaction afterwards.

Invariants: what depends on the state is in the tables of `states.py`; what depends on ids and epochs is here.
In version 2 of the protocol, an end has its own epoch, one higher than that of the records that it ends,
whoever decides it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kio.schema.errors import ErrorCode

from headrace.coordination.transactions.records import NO_EPOCH, NO_PRODUCER_ID, Transaction
from headrace.coordination.transactions.requests import EndTransaction
from headrace.coordination.transactions.states import (
    ENDINGS_V1,
    ENDINGS_V2,
    EPOCH_BUMP_VERSION,
    Ending,
    Event,
    State,
    can,
    following,
)

LARGEST_EPOCH: Final = 32767

_ERROR_OF: Final = {
    Ending.PREPARE: ErrorCode.none,
    Ending.DONE: ErrorCode.none,
    Ending.WAIT: ErrorCode.concurrent_transactions,
    Ending.INVALID: ErrorCode.invalid_txn_state,
    Ending.FENCED: ErrorCode.producer_fenced,
}


def is_exhausted(epoch: int) -> bool:
    """Whether no client may get a higher epoch. The largest is reserved for fencing."""
    return epoch >= LARGEST_EPOCH - 1


def ends_epochs(transaction: Transaction, request: EndTransaction) -> bool:
    """Whether the producer has to continue with another id after this end."""
    return request.client_version >= EPOCH_BUMP_VERSION and is_exhausted(transaction.producer_epoch)


def ending_of(transaction: Transaction, request: EndTransaction) -> Ending:
    """The outcome of a request from a producer with the right id."""
    is_current = request.producer_epoch == transaction.producer_epoch
    if request.client_version < EPOCH_BUMP_VERSION:
        return ENDINGS_V1[transaction.state][request.committed] if is_current else Ending.FENCED
    abort, commit, abort_again, commit_again = ENDINGS_V2[transaction.state]
    if can(Event.MARKED, transaction.state) or is_current:
        return commit if request.committed else abort
    if _goes_on_with_other_id(transaction, request) or (
        request.producer_epoch + 1 == transaction.producer_epoch
    ):
        return commit_again if request.committed else abort_again
    return Ending.FENCED


def end_error(transaction: Transaction | None, request: EndTransaction) -> ErrorCode:
    """Why a request to end a transaction is refused."""
    if not request.transactional_id:
        return ErrorCode.invalid_request
    if transaction is None:
        return ErrorCode.invalid_producer_id_mapping
    if request.producer_id != transaction.producer_id and not (
        request.client_version >= EPOCH_BUMP_VERSION and _goes_on_with_other_id(transaction, request)
    ):
        return ErrorCode.invalid_producer_id_mapping
    return _ERROR_OF[ending_of(transaction, request)]


def _goes_on_with_other_id(transaction: Transaction, request: EndTransaction) -> bool:
    """Whether the request repeats the one that used up the epochs of the previous producer id."""
    return (
        request.producer_id == transaction.previous_producer_id
        and request.producer_id != transaction.producer_id
        and request.producer_epoch == LARGEST_EPOCH - 1
        and transaction.producer_epoch == 0
    )


def prepared(
    before: Transaction, event: Event, *, client_version: int, next_producer_id: int, now_ms: int
) -> Transaction:
    """The transaction with its end decided. One that has not begun begins and ends at once (KIP-890)."""
    epoch, last_epoch = before.producer_epoch, before.last_producer_epoch
    if client_version >= EPOCH_BUMP_VERSION:
        epoch, last_epoch = min(epoch + 1, LARGEST_EPOCH), epoch
    return replace(
        before,
        state=following(before.state, event),
        previous_producer_id=before.producer_id,
        next_producer_id=next_producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        started_ms=before.started_ms if before.state is State.ONGOING else now_ms,
        updated_ms=now_ms,
        client_version=client_version,
    )


def aborted_by_coordinator(
    before: Transaction, event: Event, *, server_version: int, now_ms: int
) -> Transaction:
    """Abort an open transaction that took too long, or whose producer was replaced.

    The epoch rises by one in both versions of the protocol: in version 1 as a fence, after which nobody may
    repeat a request of the previous epoch; in version 2 as with every end (KAFKA-19367).
    """
    if server_version < EPOCH_BUMP_VERSION:
        epoch = min(before.producer_epoch + 1, LARGEST_EPOCH)
        before = replace(before, producer_epoch=epoch, last_producer_epoch=NO_EPOCH)
    return prepared(
        before,
        event,
        client_version=server_version,
        next_producer_id=NO_PRODUCER_ID,
        now_ms=now_ms,
    )


def completed(before: Transaction, now_ms: int) -> Transaction:
    """The transaction after its markers are written."""
    producer_id, epoch = before.producer_id, before.producer_epoch
    if before.client_version >= EPOCH_BUMP_VERSION and before.next_producer_id != NO_PRODUCER_ID:
        producer_id, epoch = before.next_producer_id, 0
    return replace(
        before,
        state=following(before.state, Event.MARKED),
        producer_id=producer_id,
        previous_producer_id=before.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        producer_epoch=epoch,
        partitions=frozenset(),
        updated_ms=now_ms,
    )
