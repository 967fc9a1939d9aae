"""What can go wrong in a partition log. The broker maps each type to Kafka's error code in one table.

Invariants: an append that raised one of these left the log as it was before; a read never raises anything
else. The message names the offset, size or sequence in question, as it may be shown to the client. Never
says over which request something came in: `log/` knows none.
"""

from __future__ import annotations

from collections.abc import Iterable


class LogError(Exception):
    """The base of all errors of the log."""


class OffsetOutOfRangeError(LogError):
    """An offset before the first one kept or after the end of the log."""

    def __init__(self, offset: int, start: int, end: int) -> None:
        super().__init__(f"offset {offset} is outside of the log, which holds offsets {start} to {end}")
        self.offset = offset
        self.start = start
        self.end = end


class StorageError(LogError):
    """The disk is full, or refuses to read or write. The log stays readable; a later append may succeed."""


class TopicExistsError(LogError):
    """A topic of this name, or one that would share its folders, is already there."""


class UnknownTopicError(LogError):
    """There is no topic of this name in the data folder."""


class CorruptRecordError(LogError):
    """Records whose length, checksum or content cannot be right."""


class RefusedRecordsError(LogError):
    """The base of errors that can name the records at fault: `records` holds (index, message) pairs."""

    def __init__(self, message: str, records: Iterable[tuple[int, str]] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.records: tuple[tuple[int, str], ...] = tuple(records)


class InvalidRecordError(RefusedRecordsError):
    """A record set that the topic does not take: none or several batches, a missing key, bad deltas."""


class MalformedRecordSetError(InvalidRecordError):
    """A record set that is not one whole batch of magic 2: refused before its log is looked at."""


class InvalidTimestampError(RefusedRecordsError):
    """Timestamps outside of what message.timestamp.before.max.ms and after.max.ms allow."""


class UnsupportedCompressionError(LogError):
    """A compression type that does not exist."""


class RecordTooLargeError(LogError):
    """A batch above max.message.bytes."""


class BatchTooLargeError(LogError):
    """A record set above segment.bytes: no segment could hold it."""


class ProducerError(LogError):
    """The base of what an idempotent producer can be refused for."""


class OutOfOrderSequenceError(ProducerError):
    """A sequence number that does not follow the last one of its producer."""


class DuplicateSequenceError(ProducerError):
    """A batch that was written before, so long ago that its offsets are no longer known."""


class InvalidProducerEpochError(ProducerError):
    """A producer epoch below the newest one seen: another instance took over."""


class UnknownProducerIdError(ProducerError):
    """A producer that the log has no state of, where state is needed."""


class InvalidTransactionStateError(ProducerError):
    """A transactional batch from a producer that has no transaction going on."""


class TransactionCoordinatorFencedError(ProducerError):
    """A marker from a coordinator that another one has followed since."""
