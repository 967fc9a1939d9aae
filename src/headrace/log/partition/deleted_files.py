"""Files of segments that have left the log, removed after `file.delete.delay.ms`.

Until then they have the suffix `.deleted`, and readers can finish. Crash behaviour: a start removes them.
Byte format: none. Who may call: the partition log and its parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.log.errors import StorageError
from headrace.log.filesystem import remove_file

if TYPE_CHECKING:
    from headrace.log.segments.segment_list import SegmentList


class DeletedFiles:
    """The deleted files of one log."""

    __slots__ = ("_segments", "_waiting")

    def __init__(self, segments: SegmentList) -> None:
        self._segments: Final = segments
        # When to remove which files. None until `remove_due` gives the first time.
        self._waiting: list[tuple[int | None, list[str]]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, paths: list[str], now_ms: int | None) -> None:
        """Remove these files after the delay, counted from now or from the next `remove_due`."""
        self._waiting.append((None if now_ms is None else self._due(now_ms), paths))

    def remove_due(self, now_ms: int) -> None:
        """Remove the files that are due. Raises StorageError."""
        kept: list[tuple[int | None, list[str]]] = []
        failure: OSError | None = None
        for due, paths in self._waiting:
            if due is None or now_ms < due:
                kept.append((self._due(now_ms) if due is None else due, paths))
                continue
            try:
                for path in paths:
                    remove_file(self._segments.filesystem, path)
            except OSError as error:
                failure = error
                kept.append((due, paths))
        self._waiting = kept
        if failure is not None:
            raise StorageError(f"files of {self._segments.name} cannot be removed: {failure}.") from failure

    def _due(self, now_ms: int) -> int:
        return now_ms + self._segments.config.file_delete_delay_ms
