"""Making and opening logs: what is looked at when a log is opened, and what is done about what is found.

Without a scan: everything before the point that a log is known to have reached (`checkpoints`): the written
point after a clean stop, or if the machine has not been started again since; else the flushed offset. From
there on every batch is checked (length, checksum, offsets that rise), indexes and producer state are built
from them, and the first bytes that are not a good batch end the log: the rest of the file is cut off, the
segments behind it are removed. The same for a segment that does not begin where the one before it ends,
unless it was compacted: what a power loss took from the middle must not leave a hole. A replacement of
segments by cleaned ones that was broken off is finished first (`segment_swap`).

An open after which something may be missing begins a new leader epoch (KIP-101), so that a consumer that
had read what is no more can find that out (KIP-320).

Crash behaviour: opening only removes what does not count, so it may be broken off and done again. Byte
format: none of its own. Who may call: the data folder. Never trusts an index entry behind the point.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from headrace.log.compaction import segment_swap
from headrace.log.errors import StorageError
from headrace.log.filesystem import read_file, remove_file
from headrace.log.folder.checkpoints import Point
from headrace.log.partition import snapshots, transactions
from headrace.log.partition.leader_epochs import CorruptCheckpointError, LeaderEpochs
from headrace.log.partition.partition_log import EPOCHS_FILE, LogOwner, PartitionLog
from headrace.log.partition.retention import START_FILE
from headrace.log.producers.producer_state import ProducerState
from headrace.log.segments import segment_indexes
from headrace.log.segments.batch_walk import header_of, walk
from headrace.log.segments.offset_index import OffsetIndex
from headrace.log.segments.segment import DELETED, LARGEST_RELATIVE_OFFSET, NO_TIMESTAMP, Segment
from headrace.log.segments.time_index import TimeIndex
from headrace.wire.record_batch import CONTROL, LOG_OVERHEAD

if TYPE_CHECKING:
    from headrace.log.config import LogConfig
    from headrace.log.segments.segment_files import SegmentFiles

_log = logging.getLogger(__name__)
_DIGITS: Final = 20


def open_log(
    folder: str,
    *,
    config: LogConfig,
    files: SegmentFiles,
    durable: bool,
    owner: LogOwner,
    now_ms: int,
    point: Point | None = None,
    flushed_offset: int = 0,
    cleaned_offset: int = 0,
    clean: bool = False,
    same_boot: bool = False,
    make_folder: Callable[[], None] | None = None,
) -> PartitionLog:
    """The log in a folder; a new one if there is nothing in it. Raises StorageError.

    `point` only if it can be believed, `cleaned_offset` if the log was ever compacted. `clean` if nothing was
    written after the point, `same_boot` if nothing that was written can be lost. `make_folder` if there is no
    folder yet: it is made when something is appended.
    """
    log = PartitionLog(
        folder,
        config=config,
        files=files,
        durable=durable,
        owner=owner,
        producers=ProducerState(folder.rpartition("/")[2]),
        epochs=LeaderEpochs(),
        make_folder=make_folder,
    )
    if make_folder is not None:
        _find_segments(log, {}, now_ms)
        _adopt(log, 0)
        log.epochs.assign(0, 0)
        return log
    try:
        found = files.filesystem.files(folder)
        segment_swap.recover(files.filesystem, folder, found)
        _remove_leftovers(log, found)
        _find_segments(log, found, now_ms)
        _read_epochs(log, found)
        _find_end(
            log,
            point,
            flushed_offset=flushed_offset,
            cleaned_offset=cleaned_offset,
            clean=clean,
            same_boot=same_boot,
            now_ms=now_ms,
        )
        if durable:
            # Somebody may have been told of all that is there, and only what is synced can be read.
            log.flush()
    except OSError as error:
        raise StorageError(f"{folder} cannot be opened: {error}.") from error
    return log


def _remove_leftovers(log: PartitionLog, found: dict[str, int]) -> None:
    """Files of deleted segments, files that were not finished, and indexes without a log."""
    for name in list(found):
        stem, _, kind = name.partition(".")
        orphan = kind in ("index", "timeindex", "txnindex") and f"{stem}.log" not in found
        if orphan or name.endswith((DELETED, ".tmp")):
            remove_file(log.filesystem, f"{log.path}/{name}")
            del found[name]


def _find_segments(log: PartitionLog, found: Mapping[str, int], now_ms: int) -> None:
    with_aborted = {name[:_DIGITS] for name, size in found.items() if size and name.endswith(".txnindex")}
    for name, size in found.items():
        stem, _, kind = name.partition(".")
        if len(stem) == _DIGITS and stem.isdigit():
            if kind == "log":
                log.bases.append(int(stem))
                segment = _empty_segment(log, int(stem), now_ms)
                segment.size, segment.timestamp_known = size, not size
                if stem in with_aborted:
                    segment.transactions = None
                    log.any_aborted = True
                log.segments.append(segment)
            elif kind == "snapshot":
                log.snapshots.append(int(stem))
    log.bases.sort()
    log.snapshots.sort()
    log.segments.sort(key=lambda segment: segment.base_offset)
    start = _read_start(log) if START_FILE in found else 0
    if not log.segments:
        log.bases.append(start)
        log.segments.append(_empty_segment(log, start, now_ms))
        log.new_names = True
    log.start_offset = max(start, log.bases[0])
    log.size_bytes = sum(segment.size for segment in log.segments)


def _empty_segment(log: PartitionLog, base_offset: int, now_ms: int) -> Segment:
    interval = log.config.index_interval_bytes
    return Segment(log.path, base_offset, log.files, size=0, interval=interval, created_ms=now_ms)


def _read_start(log: PartitionLog) -> int:
    content = read_file(log.filesystem, f"{log.path}/{START_FILE}").strip()
    if content.isdigit():
        return int(content)
    # A power loss took the content, which is synced only if everything is.
    _log.warning("%s/%s is damaged and left out", log.path, START_FILE)
    return 0


def _read_epochs(log: PartitionLog, found: Mapping[str, int]) -> None:
    if EPOCHS_FILE in found:
        try:
            log.epochs.load(read_file(log.filesystem, f"{log.path}/{EPOCHS_FILE}"))
        except CorruptCheckpointError as error:
            _log.warning("%s/%s is damaged and left out: %s", log.path, EPOCHS_FILE, error)


def _find_end(
    log: PartitionLog,
    point: Point | None,
    *,
    flushed_offset: int,
    cleaned_offset: int,
    clean: bool,
    same_boot: bool,
    now_ms: int,
) -> None:
    last = log.segments[-1]
    if point is not None and not _fits(log, point, clean):
        _log.warning("%s is not what its written point says: checking it", log.name)
        point, clean, same_boot = None, False, False
    if point is not None and point.segment == last.base_offset and point.position == last.size:
        _trust(log, last, point)
        _adopt(log, point.end_offset)
        if point.producers:
            snapshots.restore(log, point.end_offset, now_ms)
    else:
        clean = clean and not log.size_bytes
        _scan(log, point, flushed_offset, cleaned_offset, now_ms)
    if not clean:
        # Names from before a crash may not be on the disk yet: the next flush has to see to them.
        log.new_names = log.new_folder = True
    log.flushed_offset = (
        log.end_offset if clean else min(max(flushed_offset, log.start_offset), log.end_offset)
    )
    _set_epoch(log, nothing_lost=clean or same_boot)


def _fits(log: PartitionLog, point: Point, clean: bool) -> bool:
    """Whether the segment of a point is there and has its last batch where the point says."""
    number = bisect_right(log.bases, point.segment) - 1
    if number < 0 or log.bases[number] != point.segment:
        return False
    segment = log.segments[number]
    if segment.size < point.position or point.end_offset < log.start_offset:
        return False
    if point.last_batch < 0 or (clean and point.position == segment.size):
        return True
    for position, fields in walk(segment.open_file(), point.last_batch, point.position, verify=True):
        return (
            position + fields[1] + LOG_OVERHEAD == point.position
            and fields[0] + fields[6] + 1 == point.end_offset
        )
    return False


def _trust(log: PartitionLog, segment: Segment, point: Point) -> None:
    if point.max_timestamp_offset >= 0:
        segment.max_timestamp = point.max_timestamp
        segment.max_timestamp_offset = point.max_timestamp_offset
        segment.timestamp_known = True
    if point.end_offset < log.start_offset:
        raise StorageError(f"{log.name} ends at {point.end_offset}, before it starts.")


def _adopt(log: PartitionLog, end_offset: int) -> None:
    log.active = log.segments[-1]
    log.active.active = True
    log.end_offset = end_offset


def _scan(
    log: PartitionLog, point: Point | None, flushed_offset: int, cleaned_offset: int, now_ms: int
) -> None:
    """Check all batches from the last point that is known to be good on."""
    if point is not None:
        first = bisect_right(log.bases, point.segment) - 1
        expected, position = point.end_offset, point.position
        _trust(log, log.segments[first], point)
    else:
        first = max(0, bisect_right(log.bases, flushed_offset) - 1)
        expected, position = log.bases[first], 0
    # The state of the producers at the point; the scan goes on from there.
    snapshots.restore(log, expected, now_ms)
    end_offset = expected
    for number in range(first, len(log.segments)):
        segment = log.segments[number]
        hole = number > first and segment.base_offset != end_offset
        # Compaction makes holes; those that it made stay when the topic is not compacted any more.
        hole = hole and not log.config.compact and segment.base_offset > cleaned_offset
        if not hole:
            before = segment.size
            end_offset = _scan_segment(
                log, segment, position if number == first else 0, max(end_offset, segment.base_offset)
            )
        if hole or segment.size != before:
            _remove_from(log, number if hole else number + 1)
            break
    log.size_bytes = sum(segment.size for segment in log.segments)
    _adopt(log, max(end_offset, log.start_offset))


def _scan_segment(  # noqa: PLR0915
    log: PartitionLog, segment: Segment, position: int, expected: int
) -> int:
    """Check the batches from a position on and build the rest of the indexes; the offset that follows."""
    if not segment.size:
        return expected
    file = segment.open_file()
    base_offset = segment.base_offset
    transactions.begin_scan(log, segment, position, expected)
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
    latest_epoch = log.epochs.latest
    appended = log.producers.appended
    largest = base_offset + LARGEST_RELATIVE_OFFSET
    batches = 0
    good = position
    for at, fields in walk(file, position, segment.size, verify=True):
        first_offset, length, epoch = fields[0], fields[1], fields[2]
        last_offset = first_offset + fields[6]
        if first_offset < expected or last_offset < first_offset or last_offset > largest:
            break
        if fields[8] > newest:
            newest, newest_offset = fields[8], last_offset
        if at - indexed > interval:
            index.append(last_offset - base_offset, at)
            times.append_if_newer(newest, newest_offset - base_offset)
            indexed = at
        if fields[9] >= 0:
            if fields[5] & CONTROL:
                transactions.replay_marker(log, segment, at, fields)
            else:
                appended(header_of(fields), first_offset, fields[8])
        if epoch >= 0 and (latest_epoch is None or epoch > latest_epoch):
            log.epochs.assign(epoch, first_offset)
            latest_epoch = epoch
        expected = last_offset + 1
        good = at + length + LOG_OVERHEAD
        batches += 1
    if good < segment.size:
        _log.warning("cutting the last %d bytes off %s", segment.size - good, segment.log_path)
        log.filesystem.truncate(file.descriptor, good)
    segment.size = good
    segment.max_timestamp, segment.max_timestamp_offset = newest, newest_offset
    segment.timestamp_known = True
    times.append_if_newer(newest, newest_offset - base_offset)
    segment.take_indexes(index, times)
    segment_indexes.save(segment, whole=True)
    log.batches_since_snapshot += batches
    return expected


def _remove_from(log: PartitionLog, number: int) -> None:
    for segment in reversed(log.segments[number:]):
        _log.warning("removing %s, which follows what is damaged", segment.log_path)
        segment.remove()
    del log.segments[number:], log.bases[number:]


def _set_epoch(log: PartitionLog, *, nothing_lost: bool) -> None:
    latest = log.epochs.latest
    if nothing_lost and latest is not None:
        log.leader_epoch = latest
        return
    log.epochs.truncate_from_start(log.start_offset)
    log.epochs.truncate_from_end(log.end_offset)
    log.leader_epoch = 0 if latest is None else latest + 1
    log.epochs.assign(log.leader_epoch, log.end_offset)
    log.write_epochs()
    log.mark_dirty()
