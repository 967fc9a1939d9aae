"""The end of a log at some moment, so that a start need not check what was written before.

Byte format: an entry of `written-points.json`, see `checkpoints`. Crash behaviour: what a point says of
indexes and producers was written to files before the point is given. Who may call: the partition log,
recovery.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from headrace.log.partition.parts import LogParts


class Point(NamedTuple):
    """The end of a log at one moment."""

    end_offset: int
    segment: int
    position: int
    last_batch: int
    """Where the last batch begins, or -1. Recovery checks that the file has this batch."""
    max_timestamp: int
    max_timestamp_offset: int
    producers: int
    """The number of known producers: without any, there is no snapshot to load."""


def save(parts: LogParts) -> None:
    """Write what is only in memory, so that a start need not read any batches. Raises OSError."""
    if parts.segments.active.index is not None:
        parts.segments.active.complete_indexes()
    if parts.snapshots.batches_since:
        parts.snapshots.write()
        parts.snapshots.prune()


def take_point(parts: LogParts) -> Point:
    """Save the indexes of a log and, if due, its producers. Return the current point. Raises OSError."""
    segment = parts.segments.active
    if segment.index is not None:
        segment.save_indexes()
        segment.trim_tail()
    parts.snapshots.write_if_due()
    return Point(
        segment.end_offset,
        segment.base_offset,
        segment.size,
        segment.tail_positions[-1] if segment.tail_positions else -1,
        segment.max_timestamp if segment.timestamp_known else -1,
        segment.max_timestamp_offset if segment.timestamp_known else -1,
        len(parts.producers),
    )
