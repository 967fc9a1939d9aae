"""What a partition knows of its idempotent producers, and the checks that keep their batches in order, once.

A producer numbers its records from 0 for each partition and epoch. A batch that continues the numbers is
new; one that equals one of the last five is a repetition after a lost answer and is answered like the
first time (KIP-98); anything else is refused. Numbers wrap to 0 after the largest 32-bit integer. A
higher epoch starts again at 0 (KIP-360). A producer that is not known here, for its records were deleted
or it was idle for too long, may begin at any number.

Example: after batches with the sequences 0-9 and 10-14, the batch 15-15 is new, 0-9 is a repetition,
10-12 and 20-20 are out of order.

Invariants: `check` changes nothing; `appended` is told only of batches that are in the log, so a failed
write leaves the state as it was. Byte format and crash behaviour are those of `producer_snapshot`: state
is a function of the log's batches, a snapshot is a shortcut, and after a crash the batches behind the
newest snapshot are told to `appended` again. Never reads a clock and never looks into records.

Who may call: the partition log that owns it, from one thread; API handlers read `active`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from headrace.log.errors import InvalidProducerEpochError, OutOfOrderSequenceError
from headrace.log.producer_snapshot import (
    BatchSnapshot,
    CorruptSnapshotError,
    ProducerSnapshot,
    decode,
    encode,
)
from headrace.wire.record_batch import BatchHeader

BATCHES_REMEMBERED: Final = 5
EXPIRATION_MS: Final = 86_400_000
NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
LARGEST_SEQUENCE: Final = 0x7FFFFFFF


class Duplicate(NamedTuple):
    """Where the batch that came again stands in the log already, and its newest timestamp."""

    base_offset: int
    last_offset: int
    timestamp: int


class AppendedBatch(NamedTuple):
    """What is remembered of a producer's batch."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int


class Producer:
    """One producer: its epoch and its last batches, oldest first."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(self, producer_id: int, epoch: int, last_timestamp: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.last_timestamp = last_timestamp
        self.coordinator_epoch = -1
        self.transaction_first_offset = -1
        self.batches: list[AppendedBatch] = []

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class ProducerState:
    """The producers of one partition. `partition` (`topic-0`) is for the messages of errors."""

    __slots__ = ("_producers", "expiration_ms", "partition")

    def __init__(self, partition: str = "", *, expiration_ms: int = EXPIRATION_MS) -> None:
        self.partition = partition
        self.expiration_ms = expiration_ms
        self._producers: dict[int, Producer] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def active(self) -> Iterator[Producer]:
        """All producers that are known."""
        return iter(self._producers.values())

    def get(self, producer_id: int) -> Producer | None:
        return self._producers.get(producer_id)

    def check(self, header: BatchHeader, offset: int = -1) -> Duplicate | None:
        """None for a batch that may be appended at `offset`, or where the same batch already is.

        Raises OutOfOrderSequenceError, InvalidProducerEpochError.
        """
        producer_id = header.producer_id
        if producer_id < 0:
            return None
        producer = self._producers.get(producer_id)
        if producer is None:
            return None
        epoch = header.producer_epoch
        sequence = header.base_sequence
        batches = producer.batches
        if epoch == producer.epoch:
            last = batches[-1].last_sequence if batches else NO_SEQUENCE
            if sequence == last + 1 or (sequence == 0 and last == LARGEST_SEQUENCE):
                return None
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
        if sequence != 0 and producer.epoch != NO_EPOCH:
            raise OutOfOrderSequenceError(
                f"Invalid sequence number for new epoch of producer {producer_id} at offset {offset} in "
                f"partition {self.partition}: {epoch} (request epoch), {sequence} (seq. number), "
                f"{producer.epoch} (current producer epoch)"
            )
        return None

    def appended(self, header: BatchHeader, base_offset: int, timestamp: int) -> None:
        """Remember a batch that is in the log now, at `base_offset` and with `timestamp` as its newest."""
        producer_id = header.producer_id
        if producer_id < 0:
            return
        producer = self._producers.get(producer_id)
        epoch = header.producer_epoch
        if producer is None:
            producer = self._producers[producer_id] = Producer(producer_id, epoch, timestamp)
        elif epoch != producer.epoch:
            producer.epoch = epoch
            producer.batches.clear()
        delta = header.last_offset_delta
        sequence = header.base_sequence
        batches = producer.batches
        if len(batches) == BATCHES_REMEMBERED:
            del batches[0]
        batches.append(
            AppendedBatch(
                sequence, (sequence + delta) & LARGEST_SEQUENCE, base_offset + delta, delta, timestamp
            )
        )
        producer.last_timestamp = timestamp

    def remove_expired(self, now_ms: int) -> int:
        """Forget producers whose newest record is older than the expiration; how many they were."""
        oldest = now_ms - self.expiration_ms
        expired = [
            producer.producer_id
            for producer in self._producers.values()
            if producer.transaction_first_offset < 0 and producer.last_timestamp <= oldest
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        return len(expired)

    def clear(self) -> None:
        self._producers.clear()

    def snapshot(self) -> bytes:
        """The content of a snapshot file for the state as it is."""
        producers = self._producers.values()
        return encode(
            [_newest_of(producer) for producer in producers],
            [
                BatchSnapshot(producer.producer_id, *batch[1:])
                for producer in producers
                for batch in producer.batches[:-1]
            ],
        )

    def load(self, content: bytes, now_ms: int | None = None) -> None:
        """Take over a snapshot in place of what is here, without producers that are expired at `now_ms`.

        Raises CorruptSnapshotError and then leaves the state as it was.
        """
        producers, batches = decode(content)
        loaded: dict[int, Producer] = {}
        for entry in producers:
            producer = Producer(entry.producer_id, entry.epoch, entry.timestamp)
            producer.coordinator_epoch = entry.coordinator_epoch
            producer.transaction_first_offset = entry.transaction_first_offset
            loaded[entry.producer_id] = producer
        for batch in batches:
            if batch.producer_id not in loaded:
                raise CorruptSnapshotError(f"a batch of producer {batch.producer_id}, which is not there")
            loaded[batch.producer_id].batches.append(_appended(*batch[1:]))
        for entry in producers:
            if entry.last_offset >= 0:
                loaded[entry.producer_id].batches.append(_appended(*entry[2:6]))
        self._producers = loaded
        if now_ms is not None:
            self.remove_expired(now_ms)


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
    first_sequence = (last_sequence - offset_delta) & LARGEST_SEQUENCE
    return AppendedBatch(first_sequence, last_sequence, last_offset, offset_delta, timestamp)
