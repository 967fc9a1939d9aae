"""Loads, builds and saves the indexes of a segment.

Byte formats: `offset_index`, `time_index`, `transaction_index` (only saved here: building it requires the
state of producers, see `producers/aborted_transactions`). Crash behaviour: a missing index, or one whose last
entries disagree with their batches, is rebuilt from the batches, with the same entries that appending them
created. Who may call: `segment`. Never changes a segment: functions return values, which the segment keeps.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from headrace.log.errors import StorageError
from headrace.log.filesystem import read_file, write_fully
from headrace.log.segments.batch_file import BatchFile, Place
from headrace.log.segments.batch_walk import walk
from headrace.log.segments.offset_index import ENTRY_SIZE as OFFSET_ENTRY
from headrace.log.segments.offset_index import CorruptIndexError, OffsetIndex
from headrace.log.segments.time_index import ENTRY_SIZE as TIME_ENTRY
from headrace.log.segments.time_index import TimeIndex, last_entry
from headrace.log.segments.transaction_index import ENTRY_SIZE as TRANSACTION_ENTRY
from headrace.log.segments.transaction_index import TransactionIndex

NO_TIMESTAMP: Final = -1
# Enough of an offset index to find a batch near the end of a segment, where the newest record usually is.
_INDEX_END: Final = 512 * OFFSET_ENTRY


class Newest(NamedTuple):
    """The newest timestamp of a segment, -1 if it has none, and the last offset of the batch with it."""

    timestamp: int
    offset: int


def load(batches: BatchFile, interval: int) -> tuple[OffsetIndex, TimeIndex]:
    """Read both indexes from their files. Raises CorruptIndexError if they must be rebuilt, StorageError."""
    if not batches.size:
        return OffsetIndex(), TimeIndex()
    filesystem = batches.filesystem
    try:
        index = OffsetIndex.parse(read_file(filesystem, batches.path("index")), batches.size)
        times = TimeIndex.parse(read_file(filesystem, batches.path("timeindex")))
        if not len(index) and _needs_entries(batches, interval):
            raise CorruptIndexError("it is empty")
        if len(times) and not is_right(batches, index, times, -1):
            raise CorruptIndexError("its last entry is wrong")
    except FileNotFoundError as error:
        raise CorruptIndexError(str(error)) from error
    except OSError as error:
        raise StorageError(f"the indexes of {batches.log_path} cannot be read: {error}") from error
    return index, times


def newest_from_ends(batches: BatchFile) -> Newest | None:
    """The newest timestamp, from the last bytes of both files; None if these do not suffice.

    Retention asks every log for it, and an index may have megabytes. Raises StorageError.
    """
    try:
        times, _ = _last_bytes(batches, "timeindex", TIME_ENTRY)
        content, before = _last_bytes(batches, "index", _INDEX_END)
        newest = last_entry(times)
        index = OffsetIndex.parse(content, batches.size)
    except (CorruptIndexError, FileNotFoundError):
        return None
    except OSError as error:
        raise StorageError(f"the indexes of {batches.log_path} cannot be read: {error}") from error
    if newest is None or (before and index.floor(newest[1]) < 0):
        return None
    timestamp, last_offset = newest[0], batches.base_offset + newest[1]
    place = _find(batches, index, last_offset)
    if place is None or not _says(batches, place.position, last_offset, timestamp):
        return None
    return Newest(timestamp, last_offset)


def _last_bytes(batches: BatchFile, kind: str, most: int) -> tuple[bytes, int]:
    """The end of a file, and the number of bytes before it. Raises OSError, CorruptIndexError."""
    filesystem = batches.filesystem
    descriptor = filesystem.open(batches.path(kind))
    try:
        size = filesystem.size(descriptor)
        if size % (TIME_ENTRY if kind == "timeindex" else OFFSET_ENTRY):
            raise CorruptIndexError(f"{size} bytes are not a whole number of entries")
        before = max(0, size - most)
        return filesystem.pread(descriptor, size - before, before), before
    finally:
        filesystem.close(descriptor)


def _needs_entries(batches: BatchFile, interval: int) -> bool:
    """Whether a batch begins after the index interval."""
    if batches.size <= interval:
        return False
    found = walk(batches.open_file(), 0, batches.size, verify=False)
    return any(position > interval for position, _fields in found)


def is_right(batches: BatchFile, index: OffsetIndex, times: TimeIndex, entry: int) -> bool:
    """Whether an entry of the time index agrees with its batch. Raises StorageError."""
    last_offset = batches.base_offset + times.offsets[entry]
    place = _find(batches, index, last_offset)
    return place is not None and _says(batches, place.position, last_offset, times.timestamps[entry])


def _find(batches: BatchFile, index: OffsetIndex, offset: int) -> Place | None:
    """The first batch that ends at or after an offset; None if there is none or the index is wrong."""
    entry = index.floor(offset - batches.base_offset)
    if entry < 0:
        return batches.search(offset, 0, None)[0]
    return batches.search(offset, index.positions[entry], batches.base_offset + index.offsets[entry])[0]


def _says(batches: BatchFile, position: int, last_offset: int, timestamp: int) -> bool:
    """Whether the batch at a position has this last offset and this newest timestamp."""
    for _position, fields in walk(batches.open_file(), position, batches.size, verify=False):
        return fields[0] + fields[6] == last_offset and fields[8] == timestamp
    return False


def build(batches: BatchFile, interval: int) -> tuple[OffsetIndex, TimeIndex, Newest]:
    """Build both indexes, and find the newest timestamp, from the batches. Raises StorageError."""
    index, times = OffsetIndex(), TimeIndex()
    base_offset = batches.base_offset
    newest, newest_offset, indexed = NO_TIMESTAMP, base_offset, 0
    for position, fields in walk(batches.open_file(), 0, batches.size, verify=False):
        last_offset = fields[0] + fields[6]
        if fields[8] > newest:
            newest, newest_offset = fields[8], last_offset
        if position - indexed > interval:
            index.append(last_offset - base_offset, position)
            times.append_if_newer(newest, newest_offset - base_offset)
            indexed = position
    times.append_if_newer(newest, newest_offset - base_offset)
    return index, times, Newest(newest, newest_offset)


def save(
    batches: BatchFile,
    index: OffsetIndex | None,
    times: TimeIndex | None,
    transactions: TransactionIndex | None,
    *,
    whole: bool,
) -> None:
    """Write the entries that are only in memory to the files. Raises OSError.

    With `whole`, make sure that the offset and time index files exist and contain nothing else. The
    transaction index is only written if it has entries.
    """
    filesystem = batches.filesystem
    for each, kind, entry_size, always in (
        (index, "index", OFFSET_ENTRY, whole),
        (times, "timeindex", TIME_ENTRY, whole),
        (transactions, "txnindex", TRANSACTION_ENTRY, False),
    ):
        if each is None or not (always or each.file_longer or each.saved < len(each)):
            continue
        descriptor = filesystem.open(batches.path(kind), write=True, create=True)
        try:
            if each.saved < len(each):
                write_fully(filesystem, descriptor, each.to_bytes(each.saved), each.saved * entry_size)
            filesystem.truncate(descriptor, len(each) * entry_size)
            each.mark_saved()
        finally:
            filesystem.close(descriptor)
