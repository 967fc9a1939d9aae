"""The rarely needed steps of appending: the first append, the next segment, markers of transactions.

The rules for when a segment begins are in `segment`; an idle log does not roll. Byte format: none of its own.
Crash behaviour: that of `PartitionLog.append`, and of `roll`. Invariant: what fails here leaves the log as it
was. Who may call: the partition log, retention.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.log.errors import BatchTooLargeError, StorageError
from headrace.log.filesystem import remove_file
from headrace.log.partition.leader_epochs import EPOCHS_FILE
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
        parts.flush.wrote(f"{parts.segments.path}/{EPOCHS_FILE}")
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


def roll(parts: LogParts, now_ms: int) -> None:
    """Begin a new segment, unless the last one is empty. If this raises StorageError, nothing has changed.

    The new file is created first: a crash leaves an empty last segment, which is valid, with or without the
    indexes of the closed one.
    """
    segments = parts.segments
    closing = segments.active
    if not closing.size:
        return
    segment = segments.new(closing.end_offset, now_ms=now_ms)
    try:
        if closing.torn:
            closing.truncate_file(closing.size)
        try:
            file = segments.files.open(segment, create=True)
            segments.filesystem.truncate(file.descriptor, 0)
            closing.complete_indexes()
            parts.snapshots.write()
        except (OSError, StorageError):
            segment.forget()
            remove_file(segments.filesystem, segment.log_path)
            raise
    except OSError as error:
        raise StorageError(f"{segments.name} cannot begin a new segment: {error}.") from error
    segments.append(segment)
    parts.flush.segment_closed()
    parts.status.changed()
    segment.prepare_appends()


def prepare_marker(parts: LogParts) -> None:
    """Do what can fail before a marker is appended, as it counts afterwards. Raises StorageError."""
    parts.aborted.of(parts.segments.active)


def marker_appended(parts: LogParts, batch: bytearray, marker: EndMarker, base_offset: int) -> None:
    """Record the end of a transaction, whose marker is in the log now."""
    header = read_header(batch)
    ended = parts.producers.ended(header, marker, base_offset, header.max_timestamp)
    if ended is not None:
        if parts.flush.shows_synced_only:
            parts.producers.await_sync(ended)
        parts.aborted.add(parts.segments.active, ended.aborted)
