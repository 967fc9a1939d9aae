"""Batches for tests of the log, and reading the records of a log back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.log.config import DEFAULT_CONFIG, LogConfig
from headrace.log.filesystem import FileSystem
from headrace.log.folder.data_folder import DataFolder
from headrace.log.partition.partition_log import PartitionLog
from headrace.wire.record_batch import scan
from headrace.wire.records import Record, build_batch, read_records

NOW = 1_800_000_000_000
TOPIC = "events"


def batch(
    *values: bytes,
    timestamps: Sequence[int] | None = None,
    compression: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
) -> bytearray:
    """A batch with a record for each value, by default with the timestamp NOW."""
    times = timestamps or [NOW] * len(values)
    return build_batch(
        [Record(number, times[number] - times[0], None, value, ()) for number, value in enumerate(values)],
        base_timestamp=times[0],
        compression=compression,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
    )


def open_folder(
    path: Path,
    config: LogConfig = DEFAULT_CONFIG,
    *,
    filesystem: FileSystem | None = None,
    durable: bool = False,
) -> DataFolder:
    return DataFolder.open(
        path, config_of=lambda _overrides: config, durable=durable, filesystem=filesystem, clock=lambda: NOW
    )


def open_log(
    path: Path,
    config: LogConfig = DEFAULT_CONFIG,
    *,
    filesystem: FileSystem | None = None,
    durable: bool = False,
) -> tuple[DataFolder, PartitionLog]:
    """A data folder with one topic of one partition, created if necessary, and its log."""
    folder = open_folder(path, config, filesystem=filesystem, durable=durable)
    if TOPIC not in folder.topics:
        folder.create_topic(TOPIC, 1, {}, config)
    return folder, folder.topics[TOPIC].partitions[0]


def contents(log: PartitionLog, max_bytes: int = 1 << 20) -> list[tuple[int, int, bytes]]:
    """Offset, timestamp and value of all records, read as a consumer reads them."""
    found: list[tuple[int, int, bytes]] = []
    offset = log.start_offset
    while (result := log.read(offset, max_bytes, at_least_one=True)).ranges is not None:
        data = whole_batches(result.ranges.read())
        for header in scan(data):
            for record in read_records(data, header):
                at = header.base_offset + record.offset_delta
                if at >= offset:
                    time = header.max_timestamp if header.log_append_time else header.base_timestamp
                    delta = 0 if header.log_append_time else record.timestamp_delta
                    found.append((at, time + delta, record.value or b""))
            offset = header.next_offset
    return found


def whole_batches(data: bytes) -> bytes:
    """The bytes read, without an incomplete batch at the end."""
    end = 0
    while end + 12 <= len(data):
        size = 12 + int.from_bytes(data[end + 8 : end + 12], "big")
        if end + size > len(data):
            break
        end += size
    return data[:end]
