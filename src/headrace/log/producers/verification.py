"""Proof that the coordinator knows a transaction, required before its first record is appended (KIP-890).

A partition accepts the records of a transaction only if the coordinator has added the partition to it:
otherwise no marker would ever arrive, and readers of committed records would wait forever. The partition
hands out a guard (`begin`), the broker asks the coordinator, then appends with the guard. A marker written in
between invalidates the guard, so a reply about a transaction that has ended meanwhile cannot open a new one.
Once the first records are in the log, the open transaction is proof enough.

Invariants: a guard is valid for one producer, until its next transactional record or marker. While a producer
is being verified, the lowest sequence number seen is remembered: batches after it have to wait for it, as
they would be out of order. Byte format: none; after a restart producers are verified again. Crash behaviour:
none. Who may call: `producer_state`. Never asks the coordinator itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from headrace.log.errors import OutOfOrderSequenceError
from headrace.wire.control_batches import EndMarker

EPOCH_BUMP: Final = 2
"""The first version of the transaction protocol in which every transaction has its own epoch."""


class Guard:
    """Equal only to itself."""

    __slots__ = ()


class TransactionEnd(NamedTuple):
    """A marker that a coordinator writes, and the version of the transaction protocol it uses."""

    marker: EndMarker
    transaction_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinator:
    """Permission of a coordinator: it appends offsets in a transaction, or the end of one.

    Offsets have no sequence numbers. `guard` is used as for clients.
    """

    guard: Guard | None = None
    end: TransactionEnd | None = None


Permission = Guard | Coordinator


class _Verification:
    __slots__ = ("epoch", "epoch_bump", "guard", "lowest_sequence", "since_ms")

    def __init__(self, sequence: int, epoch: int, *, epoch_bump: bool, now_ms: int) -> None:
        self.guard = Guard()
        self.lowest_sequence = sequence
        self.epoch = epoch
        self.epoch_bump = epoch_bump
        self.since_ms = now_ms


class Verifications:
    """The producers of one partition that are being verified."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, _Verification] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def begin(self, producer_id: int, sequence: int, epoch: int, *, epoch_bump: bool, now_ms: int) -> Guard:
        """The guard of the producer's verification; begin one if necessary."""
        verification = self._by_producer.get(producer_id)
        if verification is None:
            verification = _Verification(sequence, epoch, epoch_bump=epoch_bump, now_ms=now_ms)
            self._by_producer[producer_id] = verification
        elif epoch > verification.epoch:
            # A new epoch counts from 0 again; the lowest sequence of the old one no longer matters.
            verification.epoch, verification.lowest_sequence = epoch, sequence
        elif epoch == verification.epoch and sequence < verification.lowest_sequence:
            verification.lowest_sequence = sequence
        return verification.guard

    def holds(self, producer_id: int, permission: Permission | None) -> bool:
        """Whether this is the guard of the producer's verification."""
        guard = permission.guard if isinstance(permission, Coordinator) else permission
        verification = self._by_producer.get(producer_id)
        return guard is not None and verification is not None and verification.guard is guard

    def check_sequence(self, producer_id: int, sequence: int, place: str, *, known: bool) -> None:
        """Refuse a batch that cannot be the first. `known`: there are batches of this epoch."""
        verification = self._by_producer.get(producer_id)
        if verification is None:
            return
        if verification.epoch_bump and sequence and not known:
            raise OutOfOrderSequenceError(
                f"Invalid sequence number for producer {producer_id} at {place}: {sequence} (incoming seq. "
                "number). Expected sequence 0 for transactions v2 idempotent producer with no existing state."
            )
        if sequence > verification.lowest_sequence:
            raise OutOfOrderSequenceError(
                f"Out of order sequence number for producer {producer_id} at {place}: {sequence} (incoming "
                f"seq. number), {verification.lowest_sequence} (earliest seen sequence)"
            )

    def end(self, producer_id: int) -> None:
        self._by_producer.pop(producer_id, None)

    def remove_older(self, oldest_ms: int) -> None:
        """Forget verifications that began at this time or before: nobody waits for them any more."""
        for producer_id, verification in list(self._by_producer.items()):
            if verification.since_ms <= oldest_ms:
                del self._by_producer[producer_id]

    def clear(self) -> None:
        self._by_producer.clear()
