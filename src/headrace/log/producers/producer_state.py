"""What a partition knows about its producers: the order of their batches, and their open transactions.

A producer numbers its records from 0 for each partition and epoch. A batch that continues the sequence is
new; a batch equal to one of the last five is a retry after a lost reply and gets the same reply as the first
time (KIP-98); anything else is refused. Numbers wrap to 0 after the largest 32-bit integer. A higher epoch
starts again at 0 (KIP-360). An unknown producer, whose records were deleted or which was idle for too long,
may begin at any number.

Example: after batches with the sequences 0-9 and 10-14, the batch 15-15 is new, 0-9 is a retry, 10-12 and
20-20 are out of order.

A transactional batch opens a transaction, if the coordinator has confirmed it (`verification`), and a marker
ends it. A marker is refused if it comes from an older coordinator, has an older epoch, or, from version 2 of
the protocol on, has the epoch of an open transaction: it belongs to an earlier one (KIP-890, KIP-1228).

Invariants: `check` changes nothing; `appended` and `ended` are called only for batches that are in the log,
so a failed write leaves the state unchanged. A producer has at most one open transaction; `ongoing` is
ordered by first offset. Byte format and crash behaviour are those of `producer_snapshot`: the state is a
function of the log's batches, a snapshot is a shortcut, and after a crash the batches after the newest
snapshot are replayed. Never reads a clock and never looks into records.

Who may call: the partition log that owns it, from one thread; API handlers read `active`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headrace.log.errors import (
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from headrace.log.producers.producer import (
    NO_SEQUENCE,
    NO_TRANSACTION,
    AppendedBatch,
    Duplicate,
    Ended,
    Producer,
)
from headrace.log.producers.producer_snapshot import (
    BatchSnapshot,
    CorruptSnapshotError,
    ProducerSnapshot,
    decode,
    encode,
)
from headrace.log.producers.verification import (
    EPOCH_BUMP,
    Coordinator,
    Guard,
    Permission,
    TransactionEnd,
    Verifications,
)
from headrace.wire.control_batches import EndMarker
from headrace.wire.record_batch import CONTROL, TRANSACTIONAL, BatchHeader

__all__ = ["Duplicate", "Ended", "Producer", "ProducerState"]

BATCHES_REMEMBERED: Final = 5
EXPIRATION_MS: Final = 86_400_000
NO_EPOCH: Final = -1
LARGEST_SEQUENCE: Final = 0x7FFFFFFF
_KIND: Final = TRANSACTIONAL | CONTROL


class ProducerState:
    """The producers of one partition. `partition` (`topic-0`) is for error messages."""

    __slots__ = ("_producers", "_unsynced", "expiration_ms", "ongoing", "partition", "verifications")

    def __init__(self, partition: str = "") -> None:
        self.partition = partition
        self.expiration_ms = EXPIRATION_MS
        self.verifications: Final = Verifications()
        # First offset of the open transaction of each producer.
        self.ongoing: dict[int, int] = {}
        self._producers: dict[int, Producer] = {}
        # First offset and marker of transactions whose marker may not be on the disk yet.
        self._unsynced: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._producers)

    def active(self) -> Iterator[Producer]:
        """All known producers."""
        return iter(self._producers.values())

    def get(self, producer_id: int) -> Producer | None:
        return self._producers.get(producer_id)

    def check(  # noqa: PLR0911, PLR0912
        self, header: BatchHeader, offset: int = -1, permission: Permission | None = None
    ) -> Duplicate | None:
        """Return None if a batch may be appended at `offset`, or its place in the log if it is a retry.

        Raises OutOfOrderSequenceError, InvalidProducerEpochError, InvalidTransactionStateError,
        TransactionCoordinatorFencedError.
        Flat on purpose: this runs for every batch of an idempotent producer.
        """
        producer_id = header.producer_id
        if producer_id < 0:
            return None
        producer = self._producers.get(producer_id)
        kind = header.attributes & _KIND
        if producer is None:
            if kind == TRANSACTIONAL:
                self._check_beginning(header, None, offset, permission)
            return None
        if kind != producer.kind:
            if kind & CONTROL:
                self._check_end(header, producer, offset, permission)
                return None
            self._check_kind(header, producer, offset, permission)
        epoch = header.producer_epoch
        sequence = header.base_sequence
        batches = producer.batches
        if epoch == producer.epoch:
            last = batches[-1].last_sequence if batches else NO_SEQUENCE
            if sequence == last + 1 or (sequence == 0 and last == LARGEST_SEQUENCE):
                return None
            if sequence < 0:
                return None  # offsets, written by a coordinator
            last_sequence = header.last_sequence
            for batch in batches:
                if batch.first_sequence == sequence and batch.last_sequence == last_sequence:
                    return Duplicate(
                        batch.last_offset - batch.offset_delta, batch.last_offset, batch.timestamp
                    )
            if epoch == NO_EPOCH:
                return None
            raise OutOfOrderSequenceError(
                f"Out of order sequence number for producer {producer_id} at offset {offset} in partition "
                f"{self.partition}: {sequence} (incoming seq. number), {last} (current end sequence number)"
            )
        if epoch < producer.epoch:
            # The text is Kafka 4.3's; its end names the version of the transaction protocol, -1 for none.
            raise InvalidProducerEpochError(
                f"Epoch of producer {producer_id} at offset {offset} in {self.partition} is {epoch}, "
                f"which is < the last seen epoch {producer.epoch} (TV-1)"
            )
        if kind and kind == producer.kind:
            # The open transaction belongs to an earlier epoch and proves nothing for this one.
            self._check_beginning(header, None, offset, permission)
        if sequence > 0 and producer.epoch != NO_EPOCH:
            raise OutOfOrderSequenceError(
                f"Invalid sequence number for new epoch of producer {producer_id} at offset {offset} in "
                f"partition {self.partition}: {epoch} (request epoch), {sequence} (seq. number), "
                f"{producer.epoch} (current producer epoch)"
            )
        return None

    def _check_kind(
        self, header: BatchHeader, producer: Producer, offset: int, permission: Permission | None
    ) -> None:
        """Handle transactional records without an open transaction, or other records with one."""
        if header.base_sequence >= 0 and producer.has(header):
            return
        if header.attributes & TRANSACTIONAL:
            self._check_beginning(header, producer, offset, permission)
        elif header.producer_epoch >= producer.epoch:
            raise InvalidTransactionStateError(
                f"Expected transactional write from producer {header.producer_id} at offset {offset} in "
                f"partition {self.partition}"
            )

    def _check_beginning(
        self, header: BatchHeader, producer: Producer | None, offset: int, permission: Permission | None
    ) -> None:
        """Check whether the first records of a transaction may be appended."""
        producer_id = header.producer_id
        if not self.verifications.holds(producer_id, permission):
            raise InvalidTransactionStateError("Record was not part of an ongoing transaction")
        if header.base_sequence >= 0 and (producer is None or header.producer_epoch >= producer.epoch):
            known = producer is not None and bool(producer.batches)
            place = f"offset {offset} in partition {self.partition}"
            self.verifications.check_sequence(producer_id, header.base_sequence, place, known=known)

    def _check_end(
        self, header: BatchHeader, producer: Producer, offset: int, permission: Permission | None
    ) -> None:
        """Check whether a marker may end the transaction of a producer."""
        end = _end_of(permission)
        epoch, current = header.producer_epoch, producer.epoch
        bumps = end.transaction_version >= EPOCH_BUMP
        # A marker that is repeated after a crash finds its transaction ended and does no harm (KAFKA-19999).
        again = bumps and epoch == current and producer.transaction_first_offset == NO_TRANSACTION
        if epoch < current or (bumps and epoch == current and not again):
            raise InvalidProducerEpochError(
                f"Epoch of producer {header.producer_id} at offset {offset} in {self.partition} is {epoch}, "
                f"which is {'<=' if bumps else '<'} the last seen epoch {current} "
                f"(TV{end.transaction_version})"
            )
        if producer.coordinator_epoch > end.marker.coordinator_epoch:
            raise TransactionCoordinatorFencedError(
                f"Invalid coordinator epoch for producerId {header.producer_id} at offset {offset} in "
                f"partition {self.partition}: {end.marker.coordinator_epoch} (zombie), "
                f"{producer.coordinator_epoch} (current)"
            )

    def begin_verification(
        self, producer_id: int, sequence: int, epoch: int, *, epoch_bump: bool, now_ms: int
    ) -> Guard | None:
        """The guard for appending once the coordinator has agreed; None if it need not be asked.

        `epoch_bump`: the client uses version 2 of the protocol. Raises InvalidProducerEpochError.
        """
        producer = self._producers.get(producer_id)
        if producer is not None:
            if epoch < producer.epoch:
                raise InvalidProducerEpochError(
                    f"Epoch of producer {producer_id} is {epoch}, which is smaller than the last seen epoch "
                    f"{producer.epoch}"
                )
            if producer.kind and epoch == producer.epoch:
                return None
        return self.verifications.begin(producer_id, sequence, epoch, epoch_bump=epoch_bump, now_ms=now_ms)

    def appended(self, header: BatchHeader, base_offset: int, timestamp: int) -> None:
        """Remember a batch that is in the log now, at `base_offset` and with `timestamp` as its newest.

        Control batches are ignored: whoever reads their marker calls `ended`.
        """
        producer_id = header.producer_id
        if producer_id < 0:
            return
        kind = header.attributes & _KIND
        if kind and kind != TRANSACTIONAL:
            return
        producer = self._producers.get(producer_id)
        epoch = header.producer_epoch
        if producer is None:
            producer = self._producers[producer_id] = Producer(producer_id, epoch, timestamp)
        elif epoch != producer.epoch:
            producer.epoch = epoch
            producer.batches.clear()
        if kind and not producer.kind:
            producer.begin(base_offset)
            self.ongoing[producer_id] = base_offset
            self.verifications.end(producer_id)
        delta = header.last_offset_delta
        sequence = header.base_sequence
        batches = producer.batches
        if len(batches) == BATCHES_REMEMBERED:
            del batches[0]
        last_sequence = (sequence + delta) & LARGEST_SEQUENCE if sequence >= 0 else NO_SEQUENCE
        batches.append(AppendedBatch(sequence, last_sequence, base_offset + delta, delta, timestamp))
        producer.last_timestamp = timestamp

    def ended(self, header: BatchHeader, marker: EndMarker, base_offset: int, timestamp: int) -> Ended | None:
        """Remember a marker that is in the log now. Return the transaction it ended, if that had records."""
        producer_id = header.producer_id
        producer = self._producers.get(producer_id)
        epoch = header.producer_epoch
        if producer is None:
            producer = self._producers[producer_id] = Producer(producer_id, epoch, timestamp)
        elif epoch != producer.epoch:
            producer.epoch = epoch
            producer.batches.clear()
        first_offset = producer.transaction_first_offset
        producer.end()
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = timestamp
        self.verifications.end(producer_id)
        if self.ongoing.pop(producer_id, None) is None:
            return None
        stable = next(iter(self.ongoing.values()), base_offset + 1)
        return Ended(producer_id, first_offset, base_offset, stable, marker.committed)

    def first_unstable_offset(self, high_water_mark: int) -> int | None:
        """Where the first transaction begins whose end cannot be read yet; None if there is none."""
        first = next(iter(self.ongoing.values()), None)
        if self._unsynced:
            self._unsynced = [known for known in self._unsynced if known[1] >= high_water_mark]
            starts = [begins for begins, _marker in self._unsynced]
            first = min(starts if first is None else [first, *starts], default=None)
        return first

    def await_sync(self, ended: Ended) -> None:
        """Treat this transaction as open until its marker is before the high-water mark."""
        self._unsynced.append((ended.first_offset, ended.last_offset))

    def expire_after(self, milliseconds: int) -> None:
        """Set how long an idle producer is remembered."""
        self.expiration_ms = milliseconds

    def remove_expired(self, now_ms: int) -> int:
        """Forget producers whose newest record has expired. Return how many there were."""
        oldest = now_ms - self.expiration_ms
        expired = [
            producer.producer_id
            for producer in self._producers.values()
            if producer.transaction_first_offset < 0 and producer.last_timestamp <= oldest
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        self.verifications.remove_older(oldest)
        return len(expired)

    def clear(self) -> None:
        self._producers.clear()
        self.ongoing.clear()
        self.verifications.clear()
        self._unsynced.clear()

    def snapshot(self) -> bytes:
        """The content of a snapshot file for the current state."""
        producers = self._producers.values()
        return encode(
            [_newest_of(producer) for producer in producers],
            [
                BatchSnapshot(producer.producer_id, *batch[1:])
                for producer in producers
                for batch in producer.batches[:-1]
            ],
        )

    def load(self, content: bytes) -> None:
        """Replace the state with a snapshot.

        Raises CorruptSnapshotError and then leaves the state unchanged.
        """
        producers, batches = decode(content)
        loaded: dict[int, Producer] = {}
        for entry in producers:
            producer = Producer(entry.producer_id, entry.epoch, entry.timestamp)
            producer.coordinator_epoch = entry.coordinator_epoch
            if entry.transaction_first_offset >= 0:
                producer.begin(entry.transaction_first_offset)
            loaded[entry.producer_id] = producer
        for batch in batches:
            if batch.producer_id not in loaded:
                raise CorruptSnapshotError(f"a batch of producer {batch.producer_id}, which has no entry")
            loaded[batch.producer_id].batches.append(_appended(*batch[1:]))
        for entry in producers:
            if entry.last_offset >= 0:
                loaded[entry.producer_id].batches.append(_appended(*entry[2:6]))
        self._producers = loaded
        first_offsets = ((each.transaction_first_offset, each.producer_id) for each in loaded.values())
        self.ongoing = {producer_id: offset for offset, producer_id in sorted(first_offsets) if offset >= 0}


def _end_of(permission: Permission | None) -> TransactionEnd:
    if not isinstance(permission, Coordinator) or permission.end is None:
        raise InvalidTransactionStateError("Only a coordinator ends transactions")
    return permission.end


def _newest_of(producer: Producer) -> ProducerSnapshot:
    last = producer.batches[-1] if producer.batches else None
    return ProducerSnapshot(
        producer_id=producer.producer_id,
        epoch=producer.epoch,
        last_sequence=last.last_sequence if last else NO_SEQUENCE,
        last_offset=last.last_offset if last else -1,
        offset_delta=last.offset_delta if last else 0,
        timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        transaction_first_offset=producer.transaction_first_offset,
    )


def _appended(last_sequence: int, last_offset: int, offset_delta: int, timestamp: int) -> AppendedBatch:
    first_sequence = NO_SEQUENCE if last_sequence < 0 else (last_sequence - offset_delta) & LARGEST_SEQUENCE
    return AppendedBatch(first_sequence, last_sequence, last_offset, offset_delta, timestamp)
