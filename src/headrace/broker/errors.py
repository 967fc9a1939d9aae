"""Maps failures to Kafka's error codes, in one table.

Invariant: every LogError is in the table (a test checks it). A missing one raises an error; it never silently
becomes UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

import uuid
from typing import Final

from kio.schema.errors import ErrorCode

from headrace.log import errors as log
from headrace.wire import errors as wire


class ApiError(Exception):
    """A request, or one item of it, is refused with this code and message."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.name)
        self.code: Final = code
        self.message: Final = message


class CloseConnectionError(Exception):
    """The only possible answer is to close the connection, as Kafka does."""


KAFKA_CODE: Final[dict[type[Exception], ErrorCode]] = {
    log.OffsetOutOfRangeError: ErrorCode.offset_out_of_range,
    log.StorageError: ErrorCode.kafka_storage_error,
    log.TopicExistsError: ErrorCode.topic_already_exists,
    log.UnknownTopicError: ErrorCode.unknown_topic_or_partition,
    log.CorruptRecordError: ErrorCode.corrupt_message,
    log.InvalidRecordError: ErrorCode.invalid_record,
    log.MalformedRecordSetError: ErrorCode.invalid_record,
    log.InvalidTimestampError: ErrorCode.invalid_timestamp,
    log.UnsupportedCompressionError: ErrorCode.unsupported_compression_type,
    log.RecordTooLargeError: ErrorCode.message_too_large,
    log.BatchTooLargeError: ErrorCode.record_list_too_large,
    log.OutOfOrderSequenceError: ErrorCode.out_of_order_sequence_number,
    log.InvalidProducerEpochError: ErrorCode.invalid_producer_epoch,
    log.InvalidTransactionStateError: ErrorCode.invalid_txn_state,
    log.TransactionCoordinatorFencedError: ErrorCode.transaction_coordinator_fenced,
    wire.CorruptBatchError: ErrorCode.corrupt_message,
    wire.UnsupportedMagicError: ErrorCode.unsupported_for_message_format,
}


def kafka_code(error: Exception) -> ErrorCode:
    """The code to answer with. Raises KeyError for an error that is not in the table."""
    if isinstance(error, ApiError):
        return error.code
    for kind in type(error).__mro__:
        if issubclass(kind, Exception) and kind in KAFKA_CODE:
            return KAFKA_CODE[kind]
    raise KeyError(f"{type(error).__name__} has no Kafka error code") from error


def unknown_partition(key: str | uuid.UUID, topic: object | None) -> ErrorCode:
    """The code for a missing partition; a missing topic that was named by id has a code of its own."""
    if topic is None and isinstance(key, uuid.UUID):
        return ErrorCode.unknown_topic_id
    return ErrorCode.unknown_topic_or_partition
