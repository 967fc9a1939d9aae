"""The rarely needed steps of appending: the first append, a full segment, markers of transactions.

Byte format: none of its own. Crash behaviour: that of `PartitionLog.append`. Invariant: what fails here
leaves the log as it was. Who may call: the partition log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.log.errors import BatchTooLargeError, StorageError
from headrace.log.partition.rolling import roll
from headrace.wire.record_batch import read_header

if TYPE_CHECKING:
    from headrace.log.partition.parts import LogParts
    from headrace.log.segments.segment_files import SegmentFile
    from headrace.wire.control_batches import EndMarker


class Appended(NamedTuple):
    """The place of a batch in the log; `duplicate` if it was there before."""

    base_offset: int
    last_offset: int
    log_append_time: int
    log_start_offset: int
    duplicate: bool


def activate(parts: LogParts) -> SegmentFile:
    """Prepare the last segment for appends. Called for the first append. Raises StorageError."""
    name = parts.segments.name
    if parts.status.closed:
        raise StorageError(f"{name} is closed.")
    make_folder = parts.status.make_folder
    if make_folder is not None:
        try:
            make_folder()
            parts.epochs.write()
        except OSError as error:
            raise StorageError(f"The folder of {name} cannot be created: {error}.") from error
        parts.status.folder_made()
        parts.flush.folder_made()
    return parts.segments.active.prepare_appends()


def make_room(parts: LogParts, size: int, now_ms: int) -> SegmentFile:
    """Begin a new segment for a batch that the last one cannot take. Raises LogError."""
    most = parts.segments.config.segment_bytes
    if size > most:
        raise BatchTooLargeError(
            f"Message batch size is {size} bytes in append to partition {parts.segments.name}, which exceeds "
            f"the maximum configured segment size of {most}."
        )
    roll(parts, now_ms)
    return parts.segments.active.file or activate(parts)


def prepare_marker(parts: LogParts) -> None:
    """Do what can fail before a marker is appended, as it counts afterwards. Raises StorageError."""
    parts.aborted.of(parts.segments.active)


def marker_appended(parts: LogParts, batch: bytearray, marker: EndMarker, base_offset: int) -> None:
    """Record the end of a transaction, whose marker is in the log now."""
    header = read_header(batch)
    ended = parts.producers.ended(header, marker, base_offset, header.max_timestamp)
    if ended is not None:
        if parts.flush.durable:
            parts.producers.await_sync(ended)
        parts.aborted.add(parts.segments.active, ended.aborted)
