"""Begins the next segment. The rules for when are in `segment`; an idle log does not roll.

Byte format: none of its own. Crash behaviour: the new file is created first; a crash leaves an empty last
segment, which is valid, with or without the indexes of the closed one. Who may call: the partition log,
retention. Invariant: a roll that fails changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.log.errors import StorageError
from headrace.log.filesystem import remove_file

if TYPE_CHECKING:
    from headrace.log.partition.parts import LogParts


def roll(parts: LogParts, now_ms: int) -> None:
    """Begin a new segment, unless the last one is empty. Raises StorageError."""
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
