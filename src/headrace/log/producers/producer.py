"""One producer as seen by a partition: its epoch, its last batches, and where its open transaction begins.

Invariants: there are at most five batches, all of one epoch, oldest first. `kind` follows from
`transaction_first_offset`: the attributes of a batch that needs no further check. Byte format and crash
behaviour: `producer_snapshot`. Who may call: `producer_state`; API handlers read. Never decides anything.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from headrace.log.segments.transaction_index import AbortedTransaction
from headrace.wire.record_batch import TRANSACTIONAL, BatchHeader

NO_SEQUENCE: Final = -1
NO_TRANSACTION: Final = -1


class Duplicate(NamedTuple):
    """The place of a repeated batch in the log, and its newest timestamp."""

    base_offset: int
    last_offset: int
    timestamp: int


class AppendedBatch(NamedTuple):
    """What a partition remembers of a producer's batch."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int


class Ended(NamedTuple):
    """A transaction with records that a marker has ended, and the last stable offset since."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    committed: bool

    @property
    def aborted(self) -> AbortedTransaction | None:
        return None if self.committed else AbortedTransaction(*self[:4])


class Producer:
    """One producer: its epoch, its last batches, oldest first, and where its open transaction begins."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "kind",
        "last_timestamp",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(self, producer_id: int, epoch: int, last_timestamp: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.last_timestamp = last_timestamp
        self.coordinator_epoch = -1
        self.transaction_first_offset = NO_TRANSACTION
        # The attributes of a batch that needs no further check.
        self.kind = 0
        self.batches: list[AppendedBatch] = []

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def begin(self, first_offset: int) -> None:
        self.transaction_first_offset = first_offset
        self.kind = TRANSACTIONAL

    def end(self) -> None:
        self.transaction_first_offset = NO_TRANSACTION
        self.kind = 0

    def has(self, header: BatchHeader) -> bool:
        """Whether this batch is one of the remembered ones."""
        return header.producer_epoch == self.epoch and any(
            batch.first_sequence == header.base_sequence and batch.last_sequence == header.last_sequence
            for batch in self.batches
        )
