"""The state machine of transactions: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, timeouts.

The state is one durable record for each transactional id (`records.py`). In the course of a transaction,
partitions are added, the end is decided (PrepareCommit, PrepareAbort), the runtime writes the markers that
`markers` names, and `decide_complete` records that all are written. After a load, `unfinished` finds the
transactions whose end was decided; their markers are written again, which does no harm if they were written
before (see `log/producers/`).

The runtime must keep an order, and wait until each step is as durable as the log promises: first the record
that adds a partition, then records of the transaction in it; first the record that decides, then markers;
first all markers, then the record that completes.

Epochs fence. InitProducerId raises the epoch, after which everything of an earlier producer with the same id
is refused (KIP-98). A transaction that is still open then, or times out, is aborted with its own epoch. Since
version 2 of the protocol, each end of a transaction raises the epoch too, so that a late request or marker
cannot be mistaken for one about the next transaction (KIP-890). When epochs are used up, the producer
continues with another id.

Invariants: decisions do not change the state; only `replay` does. Nothing is asked between a decision and its
replay, so whether a request is refused does not depend on writes in progress.
Never: writes markers, knows topics, chooses producer ids (they are arguments).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeVar

from kio.schema.errors import ErrorCode

from headrace.coordination.decision import Decision, Reply, SomeReply, Timer, TimerKey
from headrace.coordination.replies import NoReply
from headrace.coordination.transactions.beginnings import (
    add_error,
    begun,
    is_same_producer,
    needs_producer_id,
)
from headrace.coordination.transactions.endings import (
    aborted_by_coordinator,
    completed,
    end_error,
    ending_of,
    ends_epochs,
    prepared,
)
from headrace.coordination.transactions.listing import describe, listed
from headrace.coordination.transactions.records import (
    NO_PRODUCER_ID,
    Transaction,
    read_key,
    read_value,
    tombstone,
    transaction_record,
)
from headrace.coordination.transactions.requests import (
    AddPartitions,
    AddPartitionsReply,
    DescribedTransaction,
    EndReply,
    EndTransaction,
    InitProducer,
    InitProducerReply,
    ListedTransactions,
    ListTransactions,
    Markers,
)
from headrace.coordination.transactions.states import (
    AT_REST,
    EPOCH_BUMP_VERSION,
    Ending,
    Event,
    State,
    can,
    following,
)

MACHINE: Final = "transactions"
_TIMEOUT: Final = "timeout"
_EXPIRY: Final = "expiry"
# How soon an abort that could not be written is tried again.
_AGAIN_MS: Final = 1000

_Said = TypeVar("_Said", bound=Reply)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """The broker's settings (`transaction.*`, `transactional.id.*`), with Kafka's defaults."""

    max_timeout_ms: int = 15 * 60 * 1000
    id_expiration_ms: int = 7 * 24 * 60 * 60 * 1000
    expiry_interval_ms: int = 60 * 60 * 1000
    server_version: int = EPOCH_BUMP_VERSION
    """The version of the protocol in which the coordinator aborts by itself (`transaction.version`)."""


class Transactions:
    """The transactions in one partition of `__transaction_state` (`shard`)."""

    __slots__ = ("_settings", "_shard", "_transactions")

    def __init__(self, settings: TransactionSettings | None = None, *, shard: int = 0) -> None:
        self._settings = settings or TransactionSettings()
        self._shard = shard
        self._transactions: dict[str, Transaction] = {}

    def __len__(self) -> int:
        return len(self._transactions)

    def get(self, transactional_id: str) -> Transaction | None:
        return self._transactions.get(transactional_id)

    # Requests.

    def init_needs_producer_id(self, request: InitProducer) -> bool:
        """Whether `decide_init` needs a new producer id."""
        transaction = self._transactions.get(request.transactional_id)
        at_rest = transaction is None or transaction.state in AT_REST
        return (
            at_rest
            and needs_producer_id(transaction, request)
            and self._init_error(request) is ErrorCode.none
        )

    def decide_init(
        self, request: InitProducer, *, now_ms: int, new_producer_id: int | None = None
    ) -> Decision[InitProducerReply]:
        """InitProducerId: the producer id and a higher epoch, which fences earlier producers."""
        error = self._init_error(request)
        if error is not ErrorCode.none:
            return Decision(reply=InitProducerReply(error=error))
        before = self._transactions.get(request.transactional_id)
        if before is not None and following(before.state, Event.INITIALIZED) is State.PREPARE_ABORT:
            # Nobody learns the epoch of the abort: the client asks again and gets the next one.
            aborted = self._aborted(before, Event.INITIALIZED, now_ms)
            return _decision(before, aborted, InitProducerReply(error=ErrorCode.concurrent_transactions))
        after = begun(before, request, new_producer_id, now_ms)
        reply = InitProducerReply(producer_id=after.producer_id, producer_epoch=after.producer_epoch)
        return _decision(before, after, reply)

    def _init_error(self, request: InitProducer) -> ErrorCode:
        if not request.transactional_id:
            return ErrorCode.invalid_request
        if not self._is_timeout(request.timeout_ms):
            return ErrorCode.invalid_transaction_timeout
        transaction = self._transactions.get(request.transactional_id)
        if transaction is None:
            return ErrorCode.none
        if not can(Event.INITIALIZED, transaction.state):
            return ErrorCode.concurrent_transactions
        if request.goes_on and not is_same_producer(transaction, request):
            return ErrorCode.producer_fenced
        return ErrorCode.none

    def _is_timeout(self, timeout_ms: int) -> bool:
        return 0 < timeout_ms <= self._settings.max_timeout_ms

    def decide_add_partitions(self, request: AddPartitions, *, now_ms: int) -> Decision[AddPartitionsReply]:
        """AddPartitionsToTxn, AddOffsetsToTxn: add partitions. The transaction begins if necessary."""
        partitions = sorted(request.partitions)
        before = self._transactions.get(request.transactional_id)
        error = add_error(before, request)
        if before is None or error is not ErrorCode.none:
            reply = AddPartitionsReply(partitions=tuple((each, error) for each in partitions))
            return Decision(reply=reply)
        if request.verify_only:
            missing = ErrorCode.transaction_abortable
            return Decision(
                reply=AddPartitionsReply(
                    partitions=tuple(
                        (each, ErrorCode.none if each in before.partitions else missing)
                        for each in partitions
                    )
                )
            )
        reply = AddPartitionsReply(partitions=tuple((each, ErrorCode.none) for each in partitions))
        if before.state is State.ONGOING and request.partitions <= before.partitions:
            return Decision(reply=reply)
        after = replace(
            before,
            state=following(before.state, Event.EXTENDED),
            previous_producer_id=before.producer_id,
            partitions=before.partitions | request.partitions,
            started_ms=before.started_ms if before.state is State.ONGOING else now_ms,
            updated_ms=now_ms,
            client_version=request.client_version,
        )
        return _decision(before, after, reply)

    def end_needs_producer_id(self, request: EndTransaction) -> bool:
        """Whether `decide_end` needs a new producer id, because epochs are used up."""
        transaction = self._transactions.get(request.transactional_id)
        return (
            transaction is not None
            and ends_epochs(transaction, request)
            and end_error(transaction, request) is ErrorCode.none
            and ending_of(transaction, request) is Ending.PREPARE
        )

    def decide_end(
        self, request: EndTransaction, *, now_ms: int, new_producer_id: int | None = None
    ) -> Decision[EndReply]:
        """EndTxn: decide the end; its markers follow (`markers`). The reply may go out before them."""
        before = self._transactions.get(request.transactional_id)
        error = end_error(before, request)
        if before is None or error is not ErrorCode.none:
            return Decision(reply=EndReply(error=error))
        bumps = request.client_version >= EPOCH_BUMP_VERSION
        if ending_of(before, request) is Ending.DONE:
            done = before if bumps else None
            return Decision(reply=_end_reply(done))
        next_id = _given(new_producer_id) if ends_epochs(before, request) else NO_PRODUCER_ID
        after = prepared(
            before,
            Event.COMMITTED if request.committed else Event.ABORTED,
            client_version=request.client_version,
            next_producer_id=next_id,
            now_ms=now_ms,
        )
        # The client continues with the id and epoch after the markers are written.
        return _decision(before, after, _end_reply(completed(after, now_ms) if bumps else None))

    # Markers.

    def markers(self, transactional_id: str) -> Markers | None:
        """The markers to write for this id now; None if no end is decided."""
        transaction = self._transactions.get(transactional_id)
        if transaction is None or not can(Event.MARKED, transaction.state):
            return None
        return Markers(
            transactional_id=transactional_id,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            committed=transaction.state is State.PREPARE_COMMIT,
            client_version=transaction.client_version,
            partitions=transaction.partitions,
        )

    def unfinished(self) -> tuple[Markers, ...]:
        """The markers of all decided transactions, to be written again after a load."""
        found = map(self.markers, self._transactions)
        return tuple(markers for markers in found if markers is not None)

    def decide_complete(self, written: Markers, *, now_ms: int) -> Decision[NoReply]:
        """All these markers are written: the id is free for the next transaction.

        Decides nothing if the transaction does not wait for these markers (any more).
        """
        before = self._transactions.get(written.transactional_id)
        if before is None or self.markers(written.transactional_id) != written:
            return Decision(reply=NoReply())
        return _decision(before, completed(before, now_ms), NoReply())

    # Time.

    def timed_out(self, key: TimerKey, now_ms: int) -> Decision[NoReply]:
        """Abort a transaction that took too long, with markers as after EndTxn, or delete expired ids."""
        if key[1] == _EXPIRY:
            return self._expired(now_ms)
        before = self._transactions.get(str(key[2]))
        if before is None or not can(Event.TIMED_OUT, before.state):
            return Decision(reply=NoReply())
        if now_ms < before.started_ms + before.timeout_ms:
            return Decision(reply=NoReply(), timers=(_timeout(before),))
        return _decision(before, self._aborted(before, Event.TIMED_OUT, now_ms), NoReply())

    def _aborted(self, before: Transaction, event: Event, now_ms: int) -> Transaction:
        return aborted_by_coordinator(
            before, event, server_version=self._settings.server_version, now_ms=now_ms
        )

    def _expired(self, now_ms: int) -> Decision[NoReply]:
        oldest = now_ms - self._settings.id_expiration_ms
        return Decision(
            records=tuple(
                tombstone(transaction.transactional_id)
                for transaction in self._transactions.values()
                if transaction.state in AT_REST and transaction.updated_ms <= oldest
            ),
            reply=NoReply(),
            timers=(self._next_expiry(now_ms),),
        )

    def _next_expiry(self, now_ms: int) -> Timer:
        return Timer(key=(MACHINE, _EXPIRY, self._shard), at_ms=now_ms + self._settings.expiry_interval_ms)

    def write_failed(
        self, transactional_id: str, decision: Decision[SomeReply], error: ErrorCode, now_ms: int
    ) -> Decision[Reply]:
        """What happens instead of a decision whose record could not be written. The state is unchanged.

        The abort of a transaction that timed out is tried again soon. `markers` still names markers whose
        completion was not recorded.
        """
        timers: tuple[Timer, ...] = ()
        transaction = self._transactions.get(transactional_id)
        if transaction is not None and transaction.state is State.ONGOING:
            due = _timeout(transaction)
            at_ms = max(transaction.started_ms + transaction.timeout_ms, now_ms + _AGAIN_MS)
            timers = (replace(due, at_ms=at_ms),)
        reply = None if decision.reply is None else decision.reply.failed(error)
        return Decision(reply=reply, timers=timers)

    # State.

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply a record, live or at load. Raises CorruptRecordError."""
        transactional_id = read_key(key)
        if transactional_id is None:
            return
        if value is None:
            self._transactions.pop(transactional_id, None)
        else:
            self._transactions[transactional_id] = read_value(transactional_id, value)

    def loaded(self, now_ms: int) -> Decision[NoReply]:
        """Set the timers after a load. The runtime has to write the markers of `unfinished` now."""
        ongoing = (each for each in self._transactions.values() if each.state is State.ONGOING)
        return Decision(reply=NoReply(), timers=(*map(_timeout, ongoing), self._next_expiry(now_ms)))

    # Answers.

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """DescribeTransactions, for one id."""
        return describe(transactional_id, self._transactions.get(transactional_id))

    def list_transactions(self, request: ListTransactions, *, now_ms: int) -> ListedTransactions:
        """ListTransactions, for this partition."""
        return listed(self._transactions.values(), request, now_ms)


def _decision(before: Transaction | None, after: Transaction, reply: _Said) -> Decision[_Said]:
    """Write the new state of a transaction. The timer runs while it is open."""
    was_open = before is not None and before.state is State.ONGOING
    timers: tuple[Timer, ...] = ()
    if after.state is State.ONGOING:
        timers = () if was_open else (_timeout(after),)
    elif was_open:
        timers = (Timer(key=_timeout(after).key, at_ms=None),)
    return Decision(records=(transaction_record(after),), reply=reply, timers=timers)


def _timeout(transaction: Transaction) -> Timer:
    return Timer(
        key=(MACHINE, _TIMEOUT, transaction.transactional_id),
        at_ms=transaction.started_ms + transaction.timeout_ms,
    )


def _given(new_producer_id: int | None) -> int:
    if new_producer_id is None:
        raise AssertionError("a new producer id is needed")
    return new_producer_id


def _end_reply(transaction: Transaction | None) -> EndReply:
    if transaction is None:
        return EndReply()
    return EndReply(producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch)
