"""Finds the end of a log that is being opened, checks what may be damaged, and cuts it off.

Everything before a known point is trusted (`checkpoints`): the written point after a clean stop, or if the
machine has not rebooted since; otherwise the flushed offset. From there on every batch is checked (length,
checksum, rising offsets), and indexes and producer state are built from the batches. The log ends at the
first bytes that are not a good batch: the rest of the file is cut off, and the segments after it are removed.
The same applies to a segment that does not begin where the one before it ends, unless the log was compacted:
data that a power loss took from the middle must not leave a hole.

A process that was killed may leave the beginning of a batch at the very end, which nobody was told of.
Whatever else is cut off may have been acknowledged, even if the machine has not rebooted (a write-back that
failed, a damaged disk): then the log continues behind its reservation, as after a power loss.

Crash behaviour: recovery removes only what does not count, so it can be interrupted and repeated. Byte
format: none of its own. Who may call: `opening`. Never trusts an index entry after the point.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.log.errors import StorageError
from headrace.log.partition.written_point import Point
from headrace.log.producers.snapshots import replay_batch
from headrace.log.segments.batch_walk import header_of, is_beginning, walk
from headrace.log.segments.offset_index import OffsetIndex
from headrace.log.segments.segment_indexes import NO_TIMESTAMP, Newest
from headrace.log.segments.time_index import TimeIndex
from headrace.wire.record_batch import CONTROL, LOG_OVERHEAD

if TYPE_CHECKING:
    from headrace.log.partition.parts import LogParts
    from headrace.log.segments.segment import Segment

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """Offsets that may have been used, and the newest leader epoch that used them."""

    bound: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownState:
    """What is known about a log before it is opened."""

    point: Point | None = None
    """None if it cannot be trusted."""
    flushed_offset: int = 0
    cleaned_offset: int = 0
    """Greater than 0 if the log was ever compacted."""
    clean: bool = False
    """Nothing was written after the point."""
    same_boot: bool = False
    """The machine has not rebooted, so nothing that was written is lost."""
    reserved: Reserved | None = None
    """Where the log continues if something may be lost."""


NOTHING_KNOWN: Final = KnownState()


def find_end(parts: LogParts, known: KnownState) -> bool:
    """Find the end of the log, with a scan if necessary. Return whether nothing can be missing.

    Raises OSError, StorageError.
    """
    segments = parts.segments
    last = segments[-1]
    if known.point is not None and not _fits(parts, known.point, known.clean):
        _log.warning("%s does not match its written point, checking it", segments.name)
        known = KnownState(flushed_offset=known.flushed_offset, cleaned_offset=known.cleaned_offset)
    clean, point, is_cut = known.clean, known.point, False
    if point is not None and point.segment == last.base_offset and point.position == last.size:
        _trust(parts, last, point)
        segments.end_at(point.end_offset)
        if point.producers:
            parts.snapshots.restore(point.end_offset)
    else:
        clean = clean and not segments.size_bytes
        is_cut = _scan(parts, known)
    end_offset = segments.end_offset
    flushed_offset = (
        end_offset if clean else min(max(known.flushed_offset, segments.start_offset), end_offset)
    )
    # Names from before a crash may not be on the disk yet: the next flush has to sync them.
    parts.flush.opened_at(flushed_offset, names_flushed=clean)
    return clean or (known.same_boot and not is_cut)


def _fits(parts: LogParts, point: Point, clean: bool) -> bool:
    """Whether the segment of a point exists and has its last batch where the point says."""
    segments = parts.segments
    number = segments.number_of(point.segment)
    if number < 0 or segments.bases[number] != point.segment:
        return False
    segment = segments[number]
    if segment.size < point.position or point.end_offset < segments.start_offset:
        return False
    if not point.position or (clean and point.position == segment.size):
        return True
    if point.last_batch < 0:
        return False
    for position, fields in walk(segment.open_file(), point.last_batch, point.position, verify=True):
        return (
            position + fields[1] + LOG_OVERHEAD == point.position
            and fields[0] + fields[6] + 1 == point.end_offset
        )
    return False


def _trust(parts: LogParts, segment: Segment, point: Point) -> None:
    if point.max_timestamp_offset >= 0:
        segment.know_newest(Newest(point.max_timestamp, point.max_timestamp_offset))
    if point.end_offset < parts.segments.start_offset:
        raise StorageError(f"{parts.segments.name} ends at {point.end_offset}, before it starts.")


def _scan(parts: LogParts, known: KnownState) -> bool:
    """Check all batches after the last point that is known to be good.

    Return whether anything was cut off that may have been acknowledged.
    """
    segments = parts.segments
    point = known.point
    if point is not None:
        first = segments.number_of(point.segment)
        end_offset, position = point.end_offset, point.position
        _trust(parts, segments[first], point)
    else:
        first = max(0, segments.number_of(known.flushed_offset))
        end_offset, position = segments.bases[first], 0
    # Restore the producers' state at the point; the scan continues from there.
    parts.snapshots.restore(end_offset)
    is_cut = False
    for number in range(first, len(segments)):
        segment = segments[number]
        hole = number > first and segment.base_offset != end_offset
        # Compaction makes holes, and they remain when the topic is no longer compacted.
        hole = hole and not segments.config.compact and segment.base_offset > known.cleaned_offset
        if not hole:
            before = segment.size
            end_offset, is_unfinished = _scan_segment(
                parts, segment, position if number == first else 0, max(end_offset, segment.base_offset)
            )
        if hole or segment.size != before:
            is_cut = hole or not is_unfinished or number + 1 < len(segments)
            _remove_from(parts, number if hole else number + 1)
            break
    segments.end_at(end_offset)
    return is_cut


def _scan_segment(parts: LogParts, segment: Segment, position: int, expected: int) -> tuple[int, bool]:
    """Check the batches from a position on and build the rest of the indexes.

    Return the next offset, and whether what was cut off is only the beginning of the batch that follows.
    """
    if not segment.size:
        return expected, False
    base_offset = segment.base_offset
    parts.aborted.begin_scan(segment, position, expected)
    if position:
        index, times = segment.offset_index(), segment.time_index()
        index.truncate(position)
        times.truncate(expected - base_offset)
        newest, newest_offset = segment.newest_timestamp(), segment.max_timestamp_offset
    else:
        index, times = OffsetIndex(), TimeIndex()
        newest, newest_offset = NO_TIMESTAMP, base_offset
    indexed = index.last_position()
    interval = segment.interval
    epochs = parts.epochs
    latest_epoch = epochs.latest
    appended = parts.producers.appended
    batches = 0
    good = position
    for at, fields in walk(segment.open_file(), position, segment.size, verify=True):
        first_offset, length, epoch = fields[0], fields[1], fields[2]
        last_offset = first_offset + fields[6]
        if not expected <= first_offset <= last_offset <= segment.last_offset_allowed:
            break
        if fields[8] > newest:
            newest, newest_offset = fields[8], last_offset
        if at - indexed > interval:
            index.append(last_offset - base_offset, at)
            times.append_if_newer(newest, newest_offset - base_offset)
            indexed = at
        if fields[9] >= 0:
            if not fields[5] & CONTROL:
                appended(header_of(fields), first_offset, fields[8])
            elif (ended := replay_batch(parts.producers, segment, at, fields)) is not None:
                parts.aborted.add(segment, ended.aborted)
        if epoch >= 0 and (latest_epoch is None or epoch > latest_epoch):
            epochs.assign(epoch, first_offset)
            latest_epoch = epoch
        expected = last_offset + 1
        good = at + length + LOG_OVERHEAD
        batches += 1
    is_unfinished = is_beginning(segment.open_file(), good, segment.size, expected)
    if good < segment.size:
        _log.warning("cutting the last %d bytes off %s", segment.size - good, segment.log_path)
    segment.scanned(good, index, times, Newest(newest, newest_offset))
    parts.snapshots.count(batches)
    return expected, is_unfinished


def _remove_from(parts: LogParts, number: int) -> None:
    segments = parts.segments
    for at in range(len(segments) - 1, number - 1, -1):
        _log.warning("removing %s, which follows damaged data", segments[at].log_path)
        segments[at].remove()
    segments.drop_from(number)
