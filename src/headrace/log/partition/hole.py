"""Leads a log over offsets that may have been used before a power loss.

The hole is an empty batch (no records, but a last offset), as compaction leaves them. Every client knows such
batches, so that readers before, in and behind the hole go on behind it. It belongs to the last leader epoch
before the loss: consumers that have read lost records are ahead of nothing, and need no reset (KIP-320).

Byte format: `wire.record_batch`, with a record count of 0 and without timestamps. Crash behaviour: as for any
append: an incomplete batch is cut off by the next start, which makes the hole again. Who may call: `opening`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headrace.log.filesystem import write_fully
from headrace.log.partition import appending
from headrace.log.segments.segment_indexes import NO_TIMESTAMP
from headrace.wire.record_batch import HEADER_SIZE, empty_batch

if TYPE_CHECKING:
    from headrace.log.partition.parts import LogParts

_log = logging.getLogger(__name__)


def skip_to(parts: LogParts, offset: int, now_ms: int) -> None:
    """Let the log end at an offset, which is not before its end. Raises OSError, StorageError."""
    segments = parts.segments
    first = segments.end_offset
    if first < offset:
        _log.warning(
            "%s lost records in a power loss; offsets %d to %d are left out", segments.name, first, offset - 1
        )
    while segments.end_offset < offset:
        _append_empty(parts, offset - 1, now_ms)


def _append_empty(parts: LogParts, last_offset: int, now_ms: int) -> None:
    file = appending.activate(parts)
    segment = parts.segments.active
    if segment.size + HEADER_SIZE > segment.config.segment_bytes or (
        segment.end_offset > segment.last_offset_allowed
    ):
        file = appending.make_room(parts, HEADER_SIZE, now_ms)
        segment = parts.segments.active
    last_offset = min(last_offset, segment.last_offset_allowed)
    batch = empty_batch(segment.end_offset, last_offset, parts.epochs.current)
    write_fully(file.filesystem, file.descriptor, batch, segment.size)
    segment.appended(last_offset, NO_TIMESTAMP, len(batch), now_ms)
    parts.snapshots.count(1)
    parts.status.changed()
