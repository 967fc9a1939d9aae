"""The indexes of a segment, between memory, their files and the batches that they can be built from.

Byte formats: `offset_index`, `time_index`, `transaction_index` (which is only saved here: it is built with
what is known of producers, in `transactions`). Crash behaviour: a file that is missing, or whose last
entries do not say what their batches say, is built anew from the batches, with the same entries that
appending them had given. Who may call: segments, and who checkpoints or closes one. Invariant: an index in
memory never points behind the segment's `size`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from headrace.log.errors import StorageError
from headrace.log.filesystem import read_file, write_fully
from headrace.log.segments.batch_walk import walk
from headrace.log.segments.offset_index import ENTRY_SIZE as OFFSET_ENTRY
from headrace.log.segments.offset_index import CorruptIndexError, OffsetIndex
from headrace.log.segments.time_index import ENTRY_SIZE as TIME_ENTRY
from headrace.log.segments.time_index import TimeIndex, last_entry
from headrace.log.segments.transaction_index import ENTRY_SIZE as TRANSACTION_ENTRY

if TYPE_CHECKING:
    from headrace.log.segments.segment import Segment

_log = logging.getLogger(__name__)
_NO_TIMESTAMP: Final = -1
# Enough of an offset index to find a batch near the end of a segment, where its newest record mostly is.
_INDEX_END: Final = 512 * OFFSET_ENTRY


def load(segment: Segment) -> None:
    """Give a segment its indexes, from their files or from the batches. Raises StorageError."""
    if not segment.size:
        segment.take_indexes(OffsetIndex(), TimeIndex())
        return
    filesystem = segment.files.filesystem
    try:
        index = OffsetIndex.parse(read_file(filesystem, segment.path("index")), segment.size)
        times = TimeIndex.parse(read_file(filesystem, segment.path("timeindex")))
        if not len(index) and _needs_entries(segment):
            raise CorruptIndexError("it is empty")
        segment.take_indexes(index, times)
        if len(times) and not is_right(segment, times, -1):
            raise CorruptIndexError("its last entry is wrong")
    except (CorruptIndexError, FileNotFoundError) as error:
        _log.warning("building the indexes of %s anew: %s", segment.log_path, error)
        rebuild(segment)
    except OSError as error:
        raise StorageError(f"the indexes of {segment.log_path} cannot be read: {error}") from error


def newest_from_ends(segment: Segment) -> tuple[int, int] | None:
    """The newest timestamp and its offset, from the last bytes of both files; None if they cannot tell.

    Retention asks every log for it, and an index may have megabytes. Raises StorageError.
    """
    try:
        times, _ = _last_bytes(segment, "timeindex", TIME_ENTRY)
        content, before = _last_bytes(segment, "index", _INDEX_END)
        newest = last_entry(times)
        index = OffsetIndex.parse(content, segment.size)
    except (CorruptIndexError, FileNotFoundError):
        return None
    except OSError as error:
        raise StorageError(f"the indexes of {segment.log_path} cannot be read: {error}") from error
    if newest is None:
        return None
    timestamp, last_offset = newest[0], segment.base_offset + newest[1]
    entry = index.floor(newest[1])
    if entry >= 0:
        place, right = segment.search(
            last_offset, index.positions[entry], segment.base_offset + index.offsets[entry]
        )
    elif not before:
        place, right = segment.search(last_offset, 0, None)
    else:
        return None
    if not right or place is None or not _says(segment, place.position, last_offset, timestamp):
        return None
    return timestamp, last_offset


def _last_bytes(segment: Segment, kind: str, most: int) -> tuple[bytes, int]:
    """The end of a file, and how much there is before it. Raises OSError, CorruptIndexError."""
    filesystem = segment.files.filesystem
    descriptor = filesystem.open(segment.path(kind))
    try:
        size = filesystem.size(descriptor)
        if size % (TIME_ENTRY if kind == "timeindex" else OFFSET_ENTRY):
            raise CorruptIndexError(f"{size} bytes are not a whole number of entries")
        before = max(0, size - most)
        return filesystem.pread(descriptor, size - before, before), before
    finally:
        filesystem.close(descriptor)


def _needs_entries(segment: Segment) -> bool:
    """Whether there is a batch that begins behind the interval of the index."""
    if segment.size <= segment.interval:
        return False
    batches = walk(segment.open_file(), 0, segment.size, verify=False)
    return any(position > segment.interval for position, _fields in batches)


def is_right(segment: Segment, times: TimeIndex, entry: int) -> bool:
    """Whether an entry of the time index says what its batch says. Raises StorageError."""
    last_offset = segment.base_offset + times.offsets[entry]
    place = segment.locate(last_offset)
    return place is not None and _says(segment, place.position, last_offset, times.timestamps[entry])


def _says(segment: Segment, position: int, last_offset: int, timestamp: int) -> bool:
    """Whether the batch at a position ends with this offset and has this as its newest timestamp."""
    for _position, fields in walk(segment.open_file(), position, segment.size, verify=False):
        return fields[0] + fields[6] == last_offset and fields[8] == timestamp
    return False


def rebuild(segment: Segment) -> None:
    """Both indexes and the newest timestamp from the batches, to memory and files. Raises StorageError."""
    index, times = OffsetIndex(), TimeIndex()
    base_offset, interval = segment.base_offset, segment.interval
    newest, newest_offset, indexed = _NO_TIMESTAMP, base_offset, 0
    for position, fields in walk(segment.open_file(), 0, segment.size, verify=False):
        last_offset = fields[0] + fields[6]
        if fields[8] > newest:
            newest, newest_offset = fields[8], last_offset
        if position - indexed > interval:
            index.append(last_offset - base_offset, position)
            times.append_if_newer(newest, newest_offset - base_offset)
            indexed = position
    times.append_if_newer(newest, newest_offset - base_offset)
    segment.max_timestamp, segment.max_timestamp_offset = newest, newest_offset
    segment.timestamp_known = True
    segment.take_indexes(index, times)
    try:
        save(segment, whole=True)
    except OSError as error:
        # They are in memory, and will be built again if they are needed after a restart.
        _log.warning("the indexes of %s cannot be written: %s", segment.log_path, error)


def find_newest(segment: Segment) -> None:
    """The newest timestamp, from the time index and the batches behind it. Raises StorageError."""
    index, times = segment.offset_index(), segment.time_index()
    newest, newest_offset, position = _NO_TIMESTAMP, segment.base_offset, 0
    if len(times):
        newest, newest_offset = times.timestamps[-1], segment.base_offset + times.offsets[-1]
        entry = index.floor(times.offsets[-1])
        position = index.positions[entry] if entry >= 0 else 0
    for _position, fields in walk(segment.open_file(), position, segment.size, verify=False):
        if fields[8] > newest:
            newest, newest_offset = fields[8], fields[0] + fields[6]
    segment.max_timestamp, segment.max_timestamp_offset = newest, newest_offset
    segment.timestamp_known = True


def save(segment: Segment, *, whole: bool = False) -> None:
    """Bring the entries that are only in memory to the files. Raises OSError.

    With `whole` also if there are none: the files are there afterwards, and hold nothing else. Only that of
    the transactions need not be there.
    """
    filesystem = segment.files.filesystem
    for index, kind, entry_size, always in (
        (segment.index, "index", OFFSET_ENTRY, whole),
        (segment.times, "timeindex", TIME_ENTRY, whole),
        (segment.transactions, "txnindex", TRANSACTION_ENTRY, False),
    ):
        if index is None or not (always or index.file_longer or index.saved < len(index)):
            continue
        descriptor = filesystem.open(segment.path(kind), write=True, create=True)
        try:
            if index.saved < len(index):
                write_fully(filesystem, descriptor, index.to_bytes(index.saved), index.saved * entry_size)
            filesystem.truncate(descriptor, len(index) * entry_size)
            index.saved = len(index)
            index.file_longer = False
        finally:
            filesystem.close(descriptor)


def complete(segment: Segment) -> None:
    """As `save`, with the newest timestamp as the last entry. Raises OSError, StorageError."""
    newest = segment.newest_timestamp()
    segment.offset_index()
    segment.time_index().append_if_newer(newest, segment.max_timestamp_offset - segment.base_offset)
    save(segment, whole=True)
