"""Compacted logs for tests: keyed batches, reading them back with keys, and rounds of cleaning."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headrace.log.compaction.cleaner import Cleaner
from headrace.log.config import LogConfig
from headrace.log.folder.data_folder import DataFolder
from headrace.log.partition.partition_log import PartitionLog
from headrace.wire.record_batch import BatchHeader, assign, read_header, scan
from headrace.wire.records import Headers, Record, build_batch, read_records
from tests.log.batches import NOW, whole_batches

KeyValue = tuple[bytes, bytes | None]
DELETE_HORIZON = 0x40


class Kept(NamedTuple):
    """A record as a consumer sees it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def compact_config(**changes: Any) -> LogConfig:
    """Small segments, cleaned as soon as anything is dirty; files are removed at once."""
    values: dict[str, Any] = {
        "cleanup_policy": frozenset({"compact"}),
        "segment_bytes": 400,
        "index_interval_bytes": 100,
        "min_cleanable_dirty_ratio": 0.0,
        "delete_retention_ms": 1000,
        "file_delete_delay_ms": 0,
    }
    return LogConfig(**{**values, **changes})


def keyed(
    *records: KeyValue,
    timestamps: Sequence[int] | None = None,
    compression: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    headers: Headers = (),
) -> bytearray:
    times = timestamps or [NOW] * len(records)
    return build_batch(
        [
            Record(number, times[number] - times[0], key, value, headers)
            for number, (key, value) in enumerate(records)
        ],
        base_timestamp=times[0],
        compression=compression,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def append(log: PartitionLog, *records: KeyValue, **fields: Any) -> int:
    """Append a batch. Return its first offset."""
    return log.append(keyed(*records, **fields), now_ms=NOW).base_offset


def headers_of(log: PartitionLog) -> list[BatchHeader]:
    """The headers of all batches, from the files of the segments."""
    found = []
    for segment in log.segments:
        if segment.size:
            found += scan(segment.open_file().pread(segment.size, 0))
    return found


def records_of(log: PartitionLog, max_bytes: int = 1 << 20) -> list[Kept]:
    """All records, read as a consumer reads them."""
    found: list[Kept] = []
    offset = log.start_offset
    while (result := log.read(offset, max_bytes, at_least_one=True)).ranges is not None:
        data = whole_batches(result.ranges.read())
        for header in scan(data):
            if header.control:
                offset = header.next_offset
                continue
            for record in read_records(data, header):
                at = header.base_offset + record.offset_delta
                if at >= offset:
                    time = header.base_timestamp + record.timestamp_delta
                    time = header.max_timestamp if header.log_append_time else time
                    found.append(Kept(at, time, record.key, record.value, record.headers))
            offset = header.next_offset
    return found


def offsets_of(log: PartitionLog) -> list[int]:
    return [record.offset for record in records_of(log)]


def clean(folder: DataFolder, log: PartitionLog, now_ms: int = NOW, *, roll: bool = True) -> bool:
    """Close and sync the segments, then carry out a round of cleaning if one is due."""
    if roll:
        log.roll(now_ms=now_ms)
    log.flush()
    return Cleaner(folder).clean(now_ms)


def names_in(log: PartitionLog) -> set[str]:
    return {path.name for path in Path(log.path).iterdir()}


def write(log: PartitionLog, batch: bytearray) -> None:
    """Write a batch to the end of a log without append's checks: of a transaction, or a marker."""
    header = read_header(batch)
    assign(batch, header, log.end_offset, log.leader_epoch)
    segment = log.segments.active
    log.segments.filesystem.pwrite(segment.open_file().descriptor, batch, segment.size)
    segment.appended(log.end_offset + header.last_offset_delta, header.max_timestamp, len(batch), NOW)
