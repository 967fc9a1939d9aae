"""Checks a batch against the topic's settings before it is appended, and changes it where they require.

There are three levels of work, cheapest first. Checking the header: counts, kinds of batches that clients may
not write, and the newest timestamp against `message.timestamp.after.max.ms`; with default settings this is
all. Patching the header: `message.timestamp.type=LogAppendTime`. Reading the records, decompressed if
necessary: keys on a compacted topic, `message.timestamp.before.max.ms`, and a `compression.type` other than
the batch's codec.

Invariants: a batch is accepted or refused as a whole, with Kafka's words and one message for each faulty
record. Only the last step changes the bytes, so a refused batch is unchanged. Unlike Kafka, which reads every
record of every batch, we trust the header if the topic's settings need nothing from the records. Where the
records are read, their number must be right, their offsets are renumbered from 0 without gaps, and the
header's newest timestamp is corrected.

Byte format: that of `wire.record_batch` and `wire.records`. Crash behaviour: nothing is written. Who may
call: the partition log, before it writes; from any thread, as there is no state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headrace.log.config import FOREVER, LogConfig
from headrace.log.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    InvalidTransactionStateError,
    RecordTooLargeError,
    UnsupportedCompressionError,
)
from headrace.log.producers.verification import Coordinator, Permission
from headrace.wire import compression as codecs
from headrace.wire.errors import CorruptBatchError
from headrace.wire.record_batch import (
    COMPRESSION_MASK,
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    set_log_append_time,
    write_header,
)
from headrace.wire.records import (
    Outline,
    Record,
    batch_of,
    encode_record,
    payload,
    read_outlines,
    read_records,
)

MutableBuffer = bytearray | memoryview

CODEC_OF: Final = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
NO_TIMESTAMP: Final = -1
_LARGEST_TIMESTAMP: Final = 2**63 - 1
_SPECIAL_KINDS: Final = CONTROL | TRANSACTIONAL


def prepare(  # noqa: PLR0917
    records: MutableBuffer,
    header: BatchHeader,
    config: LogConfig,
    now_ms: int,
    partition: str = "",
    permission: Permission | None = None,
) -> tuple[MutableBuffer, BatchHeader]:
    """Return the batch to be written: the same objects if nothing changed, or others.

    `partition` (`topic-0`) is for messages. The caller has verified the checksum. Coordinators may write what
    clients may not: control records, and records of a producer without sequence numbers. Raises
    InvalidRecordError, InvalidTimestampError, InvalidTransactionStateError, UnsupportedCompressionError,
    RecordTooLargeError.
    """
    attributes = header.attributes
    count = header.record_count
    if (
        count <= 0
        or header.last_offset_delta + 1 != count
        or attributes & _SPECIAL_KINDS
        or header.base_offset
        or (header.base_sequence < 0 and header.producer_id >= 0)
        or attributes & COMPRESSION_MASK > codecs.ZSTD
    ):
        _check_header(header, partition, by_client=not isinstance(permission, Coordinator))
        if attributes & CONTROL:
            # Kafka neither compresses markers nor checks their timestamps.
            if config.timestamp_type == "LogAppendTime":
                header = set_log_append_time(records, header, now_ms)
            return records, header
    wanted = config.compression_type
    if (
        "compact" in config.cleanup_policy
        or (wanted != "producer" and CODEC_OF[wanted] != attributes & COMPRESSION_MASK)
        or attributes & LOG_APPEND_TIME
    ):
        return _look(records, header, config, now_ms, partition)
    if config.timestamp_type == "LogAppendTime":
        return records, set_log_append_time(records, header, now_ms)
    newest = header.max_timestamp
    if (
        newest - now_ms > config.timestamp_after_max_ms
        or config.timestamp_before_max_ms != FOREVER
        # A correct producer never sends this: find the real newest timestamp.
        or newest < header.base_timestamp
    ):
        return _look(records, header, config, now_ms, partition)
    return records, header


def _check_header(header: BatchHeader, partition: str, *, by_client: bool) -> None:
    """Raise an error if the header is wrong; checks are in Kafka's order."""
    place = f"in topic partition {partition}"
    first, last = header.base_offset, header.last_offset
    if first:
        raise InvalidRecordError(
            f"The baseOffset of the record batch in the append to {partition} should be 0, but it is {first}"
        )
    if header.compression > codecs.ZSTD:
        raise UnsupportedCompressionError(f"Unknown compression type id: {header.compression}")
    if last < first:
        raise InvalidRecordError(f"Batch has an invalid offset range: [{first}, {last}] {place}")
    if header.record_count <= 0:
        raise InvalidRecordError(f"Invalid reported count for record batch: {header.record_count} {place}")
    if last - first + 1 != header.record_count:
        raise InvalidRecordError(
            f"Inconsistent batch offset range [{first}, {last}] and count of records "
            f"{header.record_count} {place}"
        )
    if header.control and by_client:
        raise InvalidRecordError(f"Clients are not allowed to write control records {place}")
    if header.producer_id >= 0 and header.base_sequence < 0 and by_client:
        raise InvalidRecordError(
            f"Invalid sequence number {header.base_sequence} in record batch with producerId "
            f"{header.producer_id} {place}"
        )
    if header.producer_id < 0 and header.transactional:
        raise InvalidTransactionStateError(f"Transactional records without a producer {place}")


def _look(
    records: MutableBuffer, header: BatchHeader, config: LogConfig, now_ms: int, partition: str
) -> tuple[MutableBuffer, BatchHeader]:
    """Read the outlines of the records, check them, and change what the topic's settings require."""
    try:
        content = payload(records, header)
        outlines = read_outlines(content, header.record_count)
    except CorruptBatchError as error:
        # The checksum was right, so a retry cannot help: this is not CORRUPT_MESSAGE.
        raise InvalidRecordError(f"{error} in topic partition {partition}") from error
    _check_records(header, outlines, config, now_ms, partition)
    changed = _with_timestamps(header, outlines, config, now_ms)
    wanted = config.compression_type
    codec = header.compression if wanted == "producer" else CODEC_OF[wanted]
    counted = all(outline[0] == index for index, outline in enumerate(outlines))
    if counted and codec == header.compression:
        if changed == header:
            return records, header
        with memoryview(records) as view:
            batch = view[header.position : header.position + header.size]
            written = write_header(batch, changed._replace(position=0))
            batch.release()
        return records, written._replace(position=header.position)
    if not counted:
        content = _counted_from_zero(records, header)
    attributes = changed.attributes & ~COMPRESSION_MASK | codec
    level = _level(config, codec)
    rebuilt, rebuilt_header = batch_of(changed._replace(attributes=attributes), content, level=level)
    if rebuilt_header.size > config.max_message_bytes:
        raise RecordTooLargeError(
            f"Message batch size is {rebuilt_header.size} bytes in append to partition {partition} "
            f"which exceeds the maximum configured size of {config.max_message_bytes}."
        )
    return rebuilt, rebuilt_header


def _check_records(
    header: BatchHeader, outlines: Sequence[Outline], config: LogConfig, now_ms: int, partition: str
) -> None:
    compacted = "compact" in config.cleanup_policy
    create_time = config.timestamp_type == "CreateTime"
    earliest = now_ms - config.timestamp_before_max_ms
    latest = now_ms + config.timestamp_after_max_ms
    errors = []
    wrong_timestamps = False
    arrival = header.max_timestamp if header.log_append_time else None
    for index, (offset, delta, key_size, value_size) in enumerate(outlines):
        if compacted and key_size < 0:
            message = f"Compacted topic cannot accept message without key in topic partition {partition}"
            errors.append((index, message))
            continue
        timestamp = header.base_timestamp + delta if arrival is None else arrival
        if create_time and timestamp != NO_TIMESTAMP:
            if not earliest <= timestamp <= latest:
                wrong_timestamps = True
                errors.append((index, _out_of_range(timestamp, offset, earliest, latest)))
        elif arrival is not None:
            wrong_timestamps = True
            errors.append((index, _wrong_type(timestamp, offset, key_size, value_size)))
    if wrong_timestamps:
        raise InvalidTimestampError("One or more records have been rejected due to invalid timestamp", errors)
    if errors:
        shown = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index, text in errors[:3])
        raise InvalidRecordError(
            f"One or more records have been rejected due to {len(errors)} record errors in total, and only "
            f"showing the first three errors at most: [{shown}]",
            errors,
        )


def _out_of_range(timestamp: int, offset: int, earliest: int, latest: int) -> str:
    return (
        f"Timestamp {timestamp} of message with offset {offset} is out of range. "
        f"The timestamp should be within [{earliest}, {latest}]"
    )


def _wrong_type(timestamp: int, offset: int, key_size: int, value_size: int) -> str:
    return (
        f"Invalid timestamp type in message DefaultRecord(offset={offset}, timestamp={timestamp}, "
        f"key={max(key_size, 0)} bytes, value={max(value_size, 0)} bytes). "
        "Producer should not set timestamp type to LogAppendTime."
    )


def _with_timestamps(
    header: BatchHeader, outlines: Sequence[Outline], config: LogConfig, now_ms: int
) -> BatchHeader:
    """The header with the topic's timestamp type and the newest timestamp that goes with it."""
    if config.timestamp_type == "LogAppendTime":
        return header._replace(attributes=header.attributes | LOG_APPEND_TIME, max_timestamp=now_ms)
    newest = header.max_timestamp
    if not header.log_append_time:
        newest = header.base_timestamp + max(outline[1] for outline in outlines)
    if not -_LARGEST_TIMESTAMP <= newest <= _LARGEST_TIMESTAMP:
        raise InvalidTimestampError(f"The newest timestamp of the batch, {newest}, has more than 64 bits")
    return header._replace(attributes=header.attributes & ~LOG_APPEND_TIME, max_timestamp=newest)


def _counted_from_zero(records: MutableBuffer, header: BatchHeader) -> bytes:
    """The records renumbered from 0, as Kafka does for clients that count wrongly."""
    renumbered: list[Record] = [
        record._replace(offset_delta=index) for index, record in enumerate(read_records(records, header))
    ]
    return b"".join(map(encode_record, renumbered))


def _level(config: LogConfig, codec: int) -> int | None:
    """The topic's compression level for a codec (KIP-390); snappy has none."""
    return {
        codecs.GZIP: config.compression_gzip_level,
        codecs.LZ4: config.compression_lz4_level,
        codecs.ZSTD: config.compression_zstd_level,
    }.get(codec)
