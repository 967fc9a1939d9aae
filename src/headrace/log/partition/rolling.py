"""When a segment is full or old enough, and how the next one begins.

Rules as Kafka's, tried at each append: the batch would make the file larger than `segment.bytes`; the batch
is newer than the first one of the segment by more than `segment.ms`, or `max.compaction.lag.ms` if that is
less and the topic is compacted (by the clock since the segment was begun if its first batch has no
timestamp); an index is full (`segment.index.bytes`); or the offset is too large to be relative to the
segment's. An idle log is not rolled.

Byte format: none of its own. Crash behaviour: the new file is made before anything else; a crash leaves an
empty last segment, which is a good one, with or without the closed one's indexes. Who may call: the partition
log. Invariant: a roll that fails changes nothing.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from headrace.log.errors import StorageError
from headrace.log.filesystem import remove_file
from headrace.log.partition import snapshots
from headrace.log.segments import segment_indexes
from headrace.log.segments.offset_index import ENTRY_SIZE as OFFSET_ENTRY
from headrace.log.segments.segment import NEVER, Segment
from headrace.log.segments.time_index import ENTRY_SIZE as TIME_ENTRY

if TYPE_CHECKING:
    from headrace.log.config import LogConfig
    from headrace.log.partition.partition_log import PartitionLog


def first_batch(segment: Segment, config: LogConfig, timestamp: int, now_ms: int) -> None:
    """The first batch of a segment decides when it is time for the next one."""
    segment.first_timestamp = timestamp
    segment.created_ms = now_ms
    configure(segment, config)


def configure(segment: Segment, config: LogConfig) -> None:
    """Work out, from its first batch and the settings, when a segment is to be followed by another."""
    wait = config.segment_ms
    if config.compact:
        # Only closed segments can be compacted.
        wait = min(wait, config.max_compaction_lag_ms)
    most_jitter = min(config.segment_jitter_ms, config.segment_ms)
    if most_jitter > 0:
        # So that not all partitions of a topic roll at once.
        wait -= random.randrange(most_jitter)
    segment.roll_after_timestamp = segment.roll_after_clock = NEVER
    first = segment.first_timestamp
    if first is not None:
        if first >= 0:
            segment.roll_after_timestamp = first + wait
        else:
            segment.roll_after_clock = segment.created_ms + wait
    segment.full = segment.index is not None and indexes_full(segment, config)


def indexes_full(segment: Segment, config: LogConfig) -> bool:
    """One entry of the time index is kept for the newest timestamp, which closing the segment adds."""
    most = config.segment_index_bytes
    return (
        len(segment.offset_index()) >= most // OFFSET_ENTRY
        or len(segment.time_index()) >= most // TIME_ENTRY - 1
    )


def roll(log: PartitionLog, closing: Segment, now_ms: int) -> None:
    """Begin a new segment behind `closing`. Raises StorageError."""
    filesystem = log.filesystem
    segment = Segment(
        log.path,
        log.end_offset,
        log.files,
        size=0,
        interval=log.config.index_interval_bytes,
        created_ms=now_ms,
    )
    segment.active = True
    try:
        file = log.files.open(segment, create=True)
        filesystem.truncate(file.descriptor, 0)
        segment_indexes.complete(closing)
        snapshots.write(log, log.end_offset)
    except OSError as error:
        segment.forget()
        remove_file(filesystem, segment.log_path)
        raise StorageError(f"{log.name} cannot begin a new segment: {error}.") from error
    segment.offset_index()
    segment.appendable = True
    closing.end_appends()
    log.segments.append(segment)
    log.bases.append(segment.base_offset)
    log.active = segment
    log.new_names = True
    log.rolled = True
    log.mark_dirty()
