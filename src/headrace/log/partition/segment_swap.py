"""Putting a cleaned segment in the place of those that it was made of, while the log is in use.

The steps, and what a crash between them leaves: `swap_files`. The files of the segments that are replaced get
`.deleted` behind their names and are removed after `file.delete.delay.ms` (`deleted_files`).

Invariants: a segment in memory is good at every step: while its last renames have not succeeded, it goes by
the name `.swap`. A `FileRange` of a segment that was replaced stays readable. Byte format: that of segments.
Who may call: the partition log, for the cleaner. Never touches the last segment.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from typing import TYPE_CHECKING

from headrace.log.errors import StorageError
from headrace.log.segments import swap_files
from headrace.log.segments.segment_indexes import Newest
from headrace.log.segments.swap_files import SWAP, CleanedSegment

if TYPE_CHECKING:
    from headrace.log.partition.parts import LogParts
    from headrace.log.segments.segment import Segment

_log = logging.getLogger(__name__)


class ReplacedMeanwhileError(StorageError):
    """Segments that were to be replaced are not part of the log any more: the round is of no use."""


def put_in_place(parts: LogParts, cleaned: CleanedSegment, *, truncations: int, now_ms: int) -> None:
    """Replace segments of a log by a cleaned one. Raises ReplacedMeanwhileError, StorageError.

    `truncations` is how many there were when the cleaning began. If it raises, the log is as it was, and the
    cleaned files are gone.
    """
    try:
        if parts.flush.truncations != truncations:
            raise ReplacedMeanwhileError(f"{parts.segments.name} was truncated.")
        _replace(parts, cleaned, now_ms)
    except StorageError:
        swap_files.discard(parts.segments.filesystem, parts.segments.path, cleaned)
        raise


def _replace(parts: LogParts, cleaned: CleanedSegment, now_ms: int) -> None:
    segments = parts.segments
    base_offset = cleaned.bases[0]
    first = bisect_left(segments.bases, base_offset)
    last = first + len(cleaned.bases)
    bases = tuple(segments.bases[first:last])
    if parts.status.closed or bases != cleaned.bases or last >= len(segments):
        raise ReplacedMeanwhileError(f"segments of {segments.name} have changed while they were cleaned.")
    try:
        swap_files.begin_swap(segments.filesystem, segments.path, base_offset)
    except OSError as error:
        raise StorageError(f"segments of {segments.name} cannot be replaced: {error}.") from error
    segment = segments.new(base_offset, now_ms=now_ms, size=cleaned.size)
    segment.rename(SWAP)
    segment.know_newest(Newest(cleaned.max_timestamp, cleaned.max_timestamp_offset))
    if cleaned.aborted:
        parts.aborted.found(segment)
    replaced = segments.replace(first, last, segment)
    parts.flush.names_changed()
    if _mark_deleted(parts, replaced, now_ms):
        _finish(segment)
    if len(replaced) > 1:
        parts.snapshots.segments_joined()
    parts.status.changed()


def _mark_deleted(parts: LogParts, replaced: list[Segment], now_ms: int) -> bool:
    done = True
    for segment in replaced:
        try:
            parts.deleted.add(segment.mark_deleted(), now_ms)
        except OSError as error:
            # Its name would make it a part of the log again: the new segment keeps its own until a start.
            _log.warning("%s cannot be renamed: %s", segment.log_path, error)
            segment.forget()
            done = False
    return done


def _finish(segment: Segment) -> None:
    """Give a segment that is in place its name; where that does not work, a start does it."""
    try:
        swap_files.finish_swap(segment.filesystem, segment.folder, segment.base_offset)
    except OSError as error:
        _log.warning("%s cannot be renamed: %s", segment.log_path, error)
    else:
        segment.rename("")
