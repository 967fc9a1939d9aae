"""Topic settings and batches: timestamp limits, log append time, codecs, keys, correct counts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.config import LogConfig
from headrace.log.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    InvalidTransactionStateError,
    LogError,
    RecordTooLargeError,
    UnsupportedCompressionError,
)
from headrace.log.partition.append_rules import prepare
from headrace.wire.record_batch import HEADER_SIZE, BatchHeader, read_header, scan, write_header
from headrace.wire.records import Record, build_batch, read_records

NOW = 1_750_000_000_000
HOUR = 3_600_000
DEFAULT = LogConfig()
COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))
LOG_APPEND_TIME = LogConfig(timestamp_type="LogAppendTime")
CODECS = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def records_at(*timestamps: int, key: bytes | None = b"k") -> list[Record]:
    return [
        Record(index, timestamp - NOW, key, b"value %d" % index) for index, timestamp in enumerate(timestamps)
    ]


def batch(records: Sequence[Record] | None = None, *, compression: int = 0, **fields: int) -> bytearray:
    """A batch with these header fields and a correct checksum."""
    built = build_batch(records or records_at(NOW), base_timestamp=NOW, compression=compression)
    write_header(built, read_header(built)._replace(**fields))
    return built


def refused(buffer: bytearray, config: LogConfig = DEFAULT) -> LogError:
    """The error; the bytes must be unchanged."""
    before = bytes(buffer)
    (header,) = scan(buffer)
    with pytest.raises(LogError) as caught:
        prepare(buffer, header, config, NOW, "events-0")
    assert buffer == before
    return caught.value


def accepted(buffer: bytearray, config: LogConfig = DEFAULT) -> tuple[bytearray | memoryview, BatchHeader]:
    (header,) = scan(buffer)
    prepared, prepared_header = prepare(buffer, header, config, NOW, "events-0")
    assert scan(prepared) == [prepared_header]
    return prepared, prepared_header


def unchanged(buffer: bytearray, config: LogConfig = DEFAULT) -> None:
    before = bytes(buffer)
    (header,) = scan(buffer)
    prepared, prepared_header = prepare(buffer, header, config, NOW, "events-0")
    assert prepared is buffer
    assert prepared_header is header
    assert buffer == before


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
def test_a_topic_with_default_settings_takes_the_batch_as_it_is(compression: int) -> None:
    unchanged(batch(compression=compression))


def test_a_topic_with_default_settings_never_looks_into_the_records() -> None:
    nonsense = bytearray(HEADER_SIZE) + b"this is not a record"
    write_header(nonsense, read_header(batch()))
    unchanged(nonsense)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        (
            {"base_offset": 5},
            InvalidRecordError,
            "The baseOffset of the record batch in the append to events-0 should be 0, but it is 5",
        ),
        (
            {"last_offset_delta": -1},
            InvalidRecordError,
            "Batch has an invalid offset range: [0, -1] in topic partition events-0",
        ),
        (
            {"record_count": 0},
            InvalidRecordError,
            "Invalid reported count for record batch: 0 in topic partition events-0",
        ),
        (
            {"record_count": -7},
            InvalidRecordError,
            "Invalid reported count for record batch: -7 in topic partition events-0",
        ),
        (
            {"record_count": 2},
            InvalidRecordError,
            "Inconsistent batch offset range [0, 0] and count of records 2 in topic partition events-0",
        ),
        (
            {"attributes": 0x20},
            InvalidRecordError,
            "Clients are not allowed to write control records in topic partition events-0",
        ),
        (
            {"producer_id": 3, "producer_epoch": 0},
            InvalidRecordError,
            "Invalid sequence number -1 in record batch with producerId 3 in topic partition events-0",
        ),
        ({"attributes": 5}, UnsupportedCompressionError, "Unknown compression type id: 5"),
        (
            {"attributes": 0x10},
            InvalidTransactionStateError,
            "Transactional records without a producer in topic partition events-0",
        ),
    ],
)
@pytest.mark.parametrize("config", [DEFAULT, COMPACTED, LOG_APPEND_TIME])
def test_headers_that_clients_may_not_send(
    fields: dict[str, int], error: type[LogError], message: str, config: LogConfig
) -> None:
    caught = refused(batch(**fields), config)
    assert type(caught) is error
    assert str(caught) == message


@pytest.mark.parametrize("compression", [0, 3])
def test_timestamps_from_the_future(compression: int) -> None:
    unchanged(batch(records_at(NOW + HOUR), compression=compression))
    error = refused(batch(records_at(NOW, NOW + HOUR + 1, NOW + 2 * HOUR), compression=compression))
    assert isinstance(error, InvalidTimestampError)
    assert error.message == "One or more records have been rejected due to invalid timestamp"
    earliest = NOW - (2**63 - 1)
    assert error.records == (
        (
            1,
            f"Timestamp {NOW + HOUR + 1} of message with offset 1 is out of range. "
            f"The timestamp should be within [{earliest}, {NOW + HOUR}]",
        ),
        (
            2,
            f"Timestamp {NOW + 2 * HOUR} of message with offset 2 is out of range. "
            f"The timestamp should be within [{earliest}, {NOW + HOUR}]",
        ),
    )


def test_timestamps_from_the_past() -> None:
    unchanged(batch(records_at(0)))
    config = LogConfig(timestamp_before_max_ms=1_000)
    unchanged(batch(records_at(NOW - 1_000, NOW), compression=4), config)
    error = refused(batch(records_at(NOW, NOW - 1_001)), config)
    assert isinstance(error, InvalidTimestampError)
    assert [index for index, _ in error.records] == [1]


def test_records_without_a_timestamp_are_not_held_to_limits() -> None:
    without = build_batch([Record(0, value=b"v")], base_timestamp=-1)
    unchanged(without, LogConfig(timestamp_before_max_ms=1_000))


def test_limits_do_not_hold_for_log_append_time() -> None:
    strict = LogConfig(timestamp_type="LogAppendTime", timestamp_before_max_ms=1, timestamp_after_max_ms=1)
    accepted(batch(records_at(5)), strict)


def test_a_wrong_newest_timestamp_is_made_true_where_it_cannot_be() -> None:
    prepared, header = accepted(batch(records_at(NOW + 1, NOW + 9), max_timestamp=-1))
    assert header.max_timestamp == NOW + 9
    assert len(list(read_records(prepared, header))) == 2


def test_a_wrong_newest_timestamp_is_made_true_where_the_records_are_looked_at() -> None:
    lying = batch(records_at(NOW, NOW + 9), max_timestamp=NOW + 1_000)
    prepared, header = accepted(lying, COMPACTED)
    assert prepared is lying
    assert header.max_timestamp == NOW + 9


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
@pytest.mark.parametrize(
    "config",
    [
        LOG_APPEND_TIME,
        LogConfig(**{"timestamp_type": "LogAppendTime", "cleanup_policy": frozenset({"compact", "delete"})}),
    ],
)
def test_log_append_time_is_given_in_place(compression: int, config: LogConfig) -> None:
    buffer = batch(records_at(5, 6), compression=compression)
    prepared, header = accepted(buffer, config)
    assert prepared is buffer
    assert header.log_append_time
    assert header.max_timestamp == NOW
    assert header.compression == compression
    assert [record.value for record in read_records(prepared, header)] == [b"value 0", b"value 1"]


def test_producers_may_not_claim_log_append_time() -> None:
    error = refused(batch(records_at(NOW), attributes=0x08), LOG_APPEND_TIME)
    assert isinstance(error, InvalidTimestampError)
    assert error.records == (
        (
            0,
            f"Invalid timestamp type in message DefaultRecord(offset=0, timestamp={NOW}, key=1 bytes, "
            "value=7 bytes). Producer should not set timestamp type to LogAppendTime.",
        ),
    )


def test_claimed_log_append_time_is_dropped_on_a_topic_with_create_time() -> None:
    _, header = accepted(batch(records_at(NOW), attributes=0x08, max_timestamp=NOW + 3))
    assert not header.log_append_time
    assert header.max_timestamp == NOW + 3


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
def test_a_compacted_topic_wants_keys(compression: int) -> None:
    unchanged(batch(records_at(NOW, NOW), compression=compression), COMPACTED)
    unchanged(batch(records_at(NOW, key=b""), compression=compression), COMPACTED)
    records = [
        record._replace(key=b"k" if index == 1 else None)
        for index, record in enumerate(records_at(NOW, NOW, NOW, NOW, NOW))
    ]
    error = refused(batch(records, compression=compression), COMPACTED)
    assert isinstance(error, InvalidRecordError)
    each = "Compacted topic cannot accept message without key in topic partition events-0"
    assert error.records == tuple((index, each) for index in (0, 2, 3, 4))
    assert error.message == (
        "One or more records have been rejected due to 4 record errors in total, and only showing the first "
        f"three errors at most: [RecordError(batchIndex=0, message='{each}'), "
        f"RecordError(batchIndex=2, message='{each}'), RecordError(batchIndex=3, message='{each}')]"
    )


def test_a_wrong_timestamp_decides_the_error_of_a_batch_that_also_lacks_keys() -> None:
    records = records_at(NOW, NOW + 2 * HOUR)
    error = refused(batch([records[0]._replace(key=None), records[1]]), COMPACTED)
    assert isinstance(error, InvalidTimestampError)
    assert [index for index, _ in error.records] == [0, 1]


@pytest.mark.parametrize("wanted", CODECS)
@pytest.mark.parametrize("sent", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_the_topics_codec_wins(wanted: str, sent: int, timestamp_type: str) -> None:
    config = LogConfig(compression_type=wanted, timestamp_type=timestamp_type)
    records = [Record(index, index, b"k", b"v" * 100, ((b"h", None),)) for index in range(50)]
    buffer = batch(records, compression=sent, producer_id=5, producer_epoch=1, base_sequence=9)
    before = bytes(buffer)
    prepared, header = accepted(buffer, config)
    assert header.compression == CODECS[wanted]
    assert list(read_records(prepared, header)) == records
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 1, 9)
    assert (header.base_timestamp, header.record_count, header.last_offset_delta) == (NOW, 50, 49)
    assert header.max_timestamp == (NOW + 49 if timestamp_type == "CreateTime" else NOW)
    assert header.log_append_time == (timestamp_type == "LogAppendTime")
    if CODECS[wanted] == sent:
        assert prepared is buffer
    else:
        assert bytes(buffer) == before


@pytest.mark.parametrize(
    ("wanted", "low", "high"),
    [
        ("gzip", {"compression_gzip_level": 1}, {"compression_gzip_level": 9}),
        ("zstd", {"compression_zstd_level": -100}, {"compression_zstd_level": 22}),
        ("lz4", {"compression_lz4_level": 1}, {"compression_lz4_level": 17}),
    ],
)
def test_levels_reach_the_codec(wanted: str, low: dict[str, int], high: dict[str, int]) -> None:
    text = b" ".join(b"%d" % (number * number) for number in range(4_000))
    sizes = [
        len(accepted(batch([Record(0, value=text)]), LogConfig(compression_type=wanted, **level))[0])
        for level in (low, high)
    ]
    assert sizes[0] != sizes[1]


def test_a_batch_that_grows_beyond_the_limit_is_too_large() -> None:
    config = LogConfig(compression_type="uncompressed", max_message_bytes=1_000)
    error = refused(batch([Record(0, value=bytes(5_000))], compression=4), config)
    assert isinstance(error, RecordTooLargeError)
    assert "exceeds the maximum configured size of 1000" in str(error)


@pytest.mark.parametrize("compression", [0, 4])
def test_offsets_that_do_not_count_from_0_are_made_to(compression: int) -> None:
    records = [
        Record(0, value=b"a", key=b"k"),
        Record(7, value=b"b", key=b"k"),
        Record(7, value=b"c", key=b"k"),
    ]
    buffer = batch(records, compression=compression, last_offset_delta=2)
    prepared, header = accepted(buffer, COMPACTED)
    assert [(record.offset_delta, record.value) for record in read_records(prepared, header)] == [
        (0, b"a"),
        (1, b"b"),
        (2, b"c"),
    ]
    assert header.compression == compression


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
def test_a_wrong_count_shows_where_records_are_looked_at(compression: int) -> None:
    buffer = batch(records_at(NOW, NOW), compression=compression, record_count=3, last_offset_delta=2)
    unchanged(buffer)
    assert isinstance(refused(buffer, COMPACTED), InvalidRecordError)


def test_data_that_is_not_what_the_codec_says() -> None:
    assert isinstance(refused(batch(attributes=4), COMPACTED), InvalidRecordError)


def test_a_timestamp_of_more_than_64_bits() -> None:
    buffer = build_batch([Record(0, 2**62, b"k")], base_timestamp=0)
    write_header(buffer, read_header(buffer)._replace(base_timestamp=2**63 - 1, max_timestamp=2**63 - 1))
    config = LogConfig(cleanup_policy=frozenset({"compact"}), timestamp_after_max_ms=2**63 - 1)
    assert isinstance(refused(buffer, config), InvalidTimestampError)


def test_a_batch_in_the_middle_of_a_larger_buffer() -> None:
    inner = batch(records_at(NOW, NOW))
    buffer = bytearray(b"....") + inner + b"...."
    header = read_header(buffer, 4)
    view = memoryview(buffer)
    prepared, prepared_header = prepare(view, header, LOG_APPEND_TIME, NOW, "events-0")
    assert prepared is view
    assert prepared_header.position == 4
    assert scan(buffer[4:-4])[0].log_append_time


def test_a_rebuilt_batch_begins_its_own_buffer() -> None:
    buffer = bytearray(b"....") + batch(records_at(NOW, NOW)) + b"...."
    recompressing = LogConfig(compression_type="lz4")
    prepared, prepared_header = prepare(buffer, read_header(buffer, 4), recompressing, NOW, "events-0")
    assert prepared_header.position == 0
    assert scan(prepared) == [prepared_header]


configs = st.builds(
    LogConfig,
    cleanup_policy=st.sampled_from([frozenset({"delete"}), frozenset({"compact"})]),
    timestamp_type=st.sampled_from(["CreateTime", "LogAppendTime"]),
    compression_type=st.sampled_from(["producer", *CODECS]),
    timestamp_before_max_ms=st.sampled_from([1_000, 2**63 - 1]),
    timestamp_after_max_ms=st.sampled_from([1_000, HOUR, 2**63 - 1]),
)


@given(config=configs, data=st.binary(max_size=80), attributes=st.integers(0, 0x3F), count=st.integers(-1, 4))
@settings(max_examples=500)
def test_any_bytes_with_a_right_checksum_are_taken_or_refused(
    config: LogConfig, data: bytes, attributes: int, count: int
) -> None:
    buffer = bytearray(HEADER_SIZE) + data
    fields = {"attributes": attributes, "record_count": count, "last_offset_delta": count - 1}
    header = write_header(buffer, read_header(batch())._replace(**fields))
    before = bytes(buffer)
    try:
        prepared, prepared_header = prepare(buffer, header, config, NOW, "events-0")
    except LogError as error:
        indexes = [index for index, _ in getattr(error, "records", ())]
        prepared, prepared_header = before, None
    else:
        indexes = []
    assert all(0 <= index < count for index in indexes)
    if prepared_header is None:
        assert buffer == before
    else:
        assert scan(prepared) == [prepared_header]
