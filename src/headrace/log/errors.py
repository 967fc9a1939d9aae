"""Errors of partition logs. The broker maps each type to Kafka's error code in one table.

Invariants: an append that raises one of these leaves the log unchanged; a read never raises anything else.
The message names the offset, size or sequence in question and may be shown to the client. It never mentions a
request: `log/` knows no requests.
"""

from __future__ import annotations

from collections.abc import Iterable


class LogError(Exception):
    """Base class of all log errors."""


class OffsetOutOfRangeError(LogError):
    """The offset lies before the start or after the end of the log."""

    def __init__(self, offset: int, start: int, end: int) -> None:
        super().__init__(f"offset {offset} is outside of the log, which holds offsets {start} to {end}")
        self.offset = offset
        self.start = start
        self.end = end


class StorageError(LogError):
    """The disk is full, or a read or write failed. The log stays readable; a later append may succeed."""


class TopicExistsError(LogError):
    """A topic with this name, or one that would share its folders, already exists."""


class UnknownTopicError(LogError):
    """The data folder has no topic with this name."""


class CorruptRecordError(LogError):
    """Records with an impossible length, checksum or content."""


class RefusedRecordsError(LogError):
    """Base class of errors that can name the faulty records: `records` holds (index, message) pairs."""

    def __init__(self, message: str, records: Iterable[tuple[int, str]] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.records: tuple[tuple[int, str], ...] = tuple(records)


class InvalidRecordError(RefusedRecordsError):
    """A record set that the topic does not accept: no batch or several, a missing key, bad deltas."""


class MalformedRecordSetError(InvalidRecordError):
    """A record set that is not one complete batch of magic 2: refused before the log is looked up."""


class InvalidTimestampError(RefusedRecordsError):
    """Timestamps outside the range set by message.timestamp.before.max.ms and after.max.ms."""


class UnsupportedCompressionError(LogError):
    """An unknown compression type."""


class RecordTooLargeError(LogError):
    """A batch larger than max.message.bytes."""


class BatchTooLargeError(LogError):
    """A record set larger than segment.bytes: no segment could hold it."""


class ProducerError(LogError):
    """Base class of the errors that an idempotent producer can get."""


class OutOfOrderSequenceError(ProducerError):
    """A sequence number that does not follow the producer's last one."""


class InvalidProducerEpochError(ProducerError):
    """A producer epoch lower than the newest one seen: another instance has taken over."""


class InvalidTransactionStateError(ProducerError):
    """A transactional batch from a producer without an open transaction."""


class TransactionCoordinatorFencedError(ProducerError):
    """A marker from a coordinator that has been replaced since."""
