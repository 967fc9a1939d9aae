"""The end of a log at some moment, so that a start need not check what was written before.

Byte format: an entry of `written-points.json`, see `checkpoints`. Crash behaviour: what a point says of
indexes and producers was written to files before the point is given. Who may call: the partition log,
recovery.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.log.producers.snapshots import snapshot_path

if TYPE_CHECKING:
    from headrace.log.partition.parts import LogParts
    from headrace.log.segments.segment import Segment


class Point(NamedTuple):
    """The end of a log at one moment."""

    end_offset: int
    segment: int
    position: int
    last_batch: int
    """Where the last batch begins, or -1 if there is none. Recovery checks that the file has this batch."""
    max_timestamp: int
    max_timestamp_offset: int
    producers: int
    """The number of known producers: without any, there is no snapshot to load."""


def save(parts: LogParts) -> None:
    """Write what is only in memory, so that a start need not read any batches. Raises OSError.

    A start checks offset and time indexes against the batches, and can build them again; it believes the
    others, so that these must be synced before the mark of a clean stop.
    """
    active = parts.segments.active
    if active.index is not None:
        active.complete_indexes()
        if active.transactions is None or len(active.transactions):
            parts.flush.wrote(active.path("txnindex"))
    if parts.snapshots.batches_since:
        parts.snapshots.write()
        parts.snapshots.prune()
        if len(parts.producers):
            parts.flush.wrote(snapshot_path(parts.segments.path, parts.segments.end_offset))


def _last_batch(segment: Segment) -> int:
    if segment.tail_positions:
        return segment.tail_positions[-1]
    place = segment.locate(segment.end_offset - 1) if segment.size else None
    return -1 if place is None else place.position


def take_point(parts: LogParts) -> Point:
    """Save the indexes of a log and, if due, its producers. Return the current point.

    Raises OSError, StorageError.
    """
    segment = parts.segments.active
    if segment.index is not None:
        segment.save_indexes()
        segment.trim_tail()
    parts.snapshots.write_if_due()
    return Point(
        segment.end_offset,
        segment.base_offset,
        segment.size,
        _last_batch(segment),
        segment.max_timestamp if segment.timestamp_known else -1,
        segment.max_timestamp_offset if segment.timestamp_known else -1,
        len(parts.producers),
    )
