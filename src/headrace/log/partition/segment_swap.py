"""Replaces segments with the cleaned segment that was made from them, while the log is in use.

The steps, and the effect of a crash between them: `swap_files`. The files of the replaced segments get the
suffix `.deleted` and are removed after `file.delete.delay.ms` (`deleted_files`).

Invariants: the segment in memory is usable at every step: until its last renames succeed, it keeps the suffix
`.swap`. A `FileRange` of a replaced segment stays readable. Byte format: that of segments. Who may call: the
partition log, for the cleaner. Never touches the last segment.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from typing import TYPE_CHECKING

from headrace.log.errors import StorageError
from headrace.log.segments import swap_files
from headrace.log.segments.segment_indexes import Newest
from headrace.log.segments.swap_files import CLEANED, SWAP, CleanedSegment

if TYPE_CHECKING:
    from headrace.log.partition.parts import LogParts
    from headrace.log.segments.segment import Segment

_log = logging.getLogger(__name__)


class ReplacedMeanwhileError(StorageError):
    """The segments to be replaced are no longer part of the log: the cleaning round is useless."""


def put_in_place(parts: LogParts, cleaned: CleanedSegment, *, now_ms: int) -> None:
    """Replace segments of a log with a cleaned one. Raises ReplacedMeanwhileError, StorageError.

    If this raises, the log is unchanged, and the cleaned files are gone.
    """
    try:
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
        raise ReplacedMeanwhileError(f"segments of {segments.name} changed while they were cleaned.")
    try:
        swap_files.rename_all(segments.filesystem, segments.path, base_offset, CLEANED, SWAP)
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
            # A restart would take it for a part of the log: the new segment keeps its suffix until then.
            _log.warning("%s cannot be renamed: %s", segment.log_path, error)
            segment.forget()
            done = False
    return done


def _finish(segment: Segment) -> None:
    """Give the files their final names; if that fails, the next start does it."""
    try:
        swap_files.rename_all(segment.filesystem, segment.folder, segment.base_offset, SWAP, "")
    except OSError as error:
        _log.warning("%s cannot be renamed: %s", segment.log_path, error)
    else:
        segment.rename("")
