"""Cuts off the end of a log: batches that were written but must not count.

Byte format: none of its own. Crash behaviour: segments are removed from the last one on, then the file of the
remaining one is cut, so a crash in between leaves a shorter but valid log. The checkpoints up to which a
start would trust the log are lowered first, as other batches may take the place of those removed. Who may
call: the partition log. Invariant: the log ends at the beginning of the first removed batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.log.errors import OffsetOutOfRangeError, StorageError

if TYPE_CHECKING:
    from headrace.log.partition.parts import LogParts


def truncate_to(parts: LogParts, offset: int, lower_points: Callable[[], None]) -> None:
    """Remove the batches from the one with `offset` on. Raises OffsetOutOfRangeError, StorageError.

    `lower_points` is called before anything is cut, and may raise OSError.
    """
    segments = parts.segments
    if offset < segments.start_offset or offset < segments.bases[0]:
        raise OffsetOutOfRangeError(offset, segments.start_offset, segments.end_offset)
    if offset >= segments.end_offset:
        return
    parts.flush.begin_truncation()
    try:
        lower_points()
        _cut(parts, offset)
        parts.flush.truncated()
        parts.epochs.truncated(segments.end_offset)
        parts.snapshots.restore(segments.end_offset, None)
    except OSError as error:
        raise StorageError(f"{segments.name} cannot be truncated: {error}.") from error
    finally:
        parts.status.changed()


def _cut(parts: LogParts, offset: int) -> None:
    segments = parts.segments
    while len(segments) > 1 and segments.active.base_offset >= offset:
        segments.end_at(segments.active.base_offset)
        segments.active.remove()
        segments.drop_last()
    segment = segments.active
    place = segment.locate(offset) if segment.size else None
    aborted = parts.aborted.of(segment)
    end_offset, position = (
        (segment.end_offset, segment.size) if place is None else (place.base_offset, place.position)
    )
    segment.cut(position, end_offset)
    aborted.truncate(end_offset)
    segments.end_at(end_offset)
