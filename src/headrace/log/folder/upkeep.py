"""Periodic work for logs: checkpoints of how far they are written, and syncing closed segments.

Owns the set of logs that changed since the last checkpoint, the files of `checkpoints`, and a thread that
syncs closed segments, so that little has to be checked after a power loss even if nobody asks for syncs.
Invariants: the files of `checkpoints` say what was true when they were written; a log without changes costs
nothing. Byte format and crash behaviour: `checkpoints`. Who may call: the data folder.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Final

from headrace.log.errors import StorageError
from headrace.log.filesystem import FileSystem
from headrace.log.folder import checkpoints
from headrace.log.folder.checkpoints import WrittenPoints, read_offsets
from headrace.log.partition.flushing import FlushTicket
from headrace.log.partition.recovery import KnownState, Reserved

if TYPE_CHECKING:
    from headrace.log.partition.partition_log import PartitionLog

_log = logging.getLogger(__name__)

# Like Kafka's log.flush.offset.checkpoint.interval.ms.
_RECOVERY_POINTS_EVERY_MS: Final = 60_000
_CLOSING_THREADS: Final = 8


class Upkeep:
    """The upkeep of one data folder."""

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        self._filesystem: Final = filesystem
        self._path: Final = path
        self._dirty: set[PartitionLog] = set()
        self._written = WrittenPoints()
        self._recovery_points: dict[str, int] = {}
        self._cleaned_offsets: dict[str, int] = {}
        self._clean = False
        self._same_boot = False
        self._with_deleted_files: set[PartitionLog] = set()
        self._next_recovery_points = 0
        self._syncing: list[tuple[PartitionLog, FlushTicket, Future[None]]] = []
        self._saving: Future[None] | None = None
        # Writes of the cleaned offsets, in order.
        self._noting: list[Future[None]] = []
        self._worker: ThreadPoolExecutor | None = None

    @property
    def was_clean(self) -> bool:
        """Whether the folder was closed with the mark of a clean stop."""
        return self._clean

    def load(self, boot: str) -> None:
        """Read the files and keep what can be trusted: `boot` is the note of this boot. Raises OSError."""
        written = checkpoints.read_written_points(self._filesystem, self._path)
        self._clean = written.clean
        self._same_boot = boot != "" and written.boot == boot
        if not (self._clean or self._same_boot):
            written.points.clear()
        self._written = WrittenPoints(boot=boot, points=written.points)
        self._recovery_points = read_offsets(self._filesystem, self._path, checkpoints.RECOVERY_POINTS)
        self._cleaned_offsets = read_offsets(self._filesystem, self._path, checkpoints.CLEANED_OFFSETS)

    def begin(self) -> None:
        """Remove the mark of a clean stop before anything is written to a log. Raises OSError."""
        if self._clean:
            checkpoints.write_written_points(self._filesystem, self._path, self._written, sync=True)

    def opened(self) -> None:
        """All logs have been opened. Raises OSError.

        Only now may the file name this boot: if a start is interrupted earlier, the next one has to do again
        what is done after a power loss.
        """
        if not (self._clean or self._same_boot):
            checkpoints.write_written_points(self._filesystem, self._path, self._written)

    def known_of(self, name: str, reserved: Reserved | None) -> KnownState:
        """What the files say about a log that is about to be opened."""
        return KnownState(
            point=self._written.points.get(name),
            flushed_offset=self._recovery_points.get(name, 0),
            cleaned_offset=self._cleaned_offsets.get(name, 0),
            clean=self._clean,
            same_boot=self._same_boot,
            reserved=reserved,
        )

    def forget(self, logs: Iterable[PartitionLog]) -> None:
        """Forget deleted logs: a new topic with the same name must not inherit their points.

        Failures are only logged: wrong points cost time at a start, and the next checkpoint removes them.
        """
        for log in logs:
            self._dirty.discard(log)
            self._with_deleted_files.discard(log)
        try:
            self._remove_points([log.name for log in logs])
        except OSError as error:
            _log.warning("the points of a deleted topic cannot be removed: %s", error)

    def cleaned_offset(self, log: PartitionLog) -> int | None:
        """The offset before which a compacted log is clean; None if it was never cleaned."""
        return self._cleaned_offsets.get(log.name)

    def set_cleaned_offset(self, log: PartitionLog, offset: int) -> None:
        """Record that a log is clean before an offset. The file is written in the background.

        While compaction writes, a small file can take the file system ten milliseconds; nobody should wait
        for it. The next checkpoint reports a failure. If the offset is lost, a start cleans again.
        """
        self._cleaned_offsets[log.name] = offset
        self._noting.append(
            self._in_background().submit(
                checkpoints.write_cleaned_offsets, self._filesystem, self._path, dict(self._cleaned_offsets)
            )
        )

    def _remove_points(self, names: Sequence[str]) -> None:
        """Remove all points of logs, from memory and from the files. Raises OSError."""
        if [name for name in names if self._cleaned_offsets.pop(name, 0)]:
            wait(self._noting)
            checkpoints.write_cleaned_offsets(self._filesystem, self._path, self._cleaned_offsets)
        if [name for name in names if self._written.points.pop(name, None) is not None]:
            checkpoints.write_written_points(self._filesystem, self._path, self._written)
        if [name for name in names if self._recovery_points.pop(name, 0)]:
            if self._saving is not None:
                wait([self._saving])
            checkpoints.write_recovery_points(self._filesystem, self._path, self._recovery_points)

    def changed(self, log: PartitionLog) -> None:
        """Include a log in the next checkpoint."""
        self._dirty.add(log)

    def checkpoint(self, logs: Iterable[PartitionLog], now_ms: int, failures: list[Exception]) -> None:
        """Write the points of the logs that changed; add failures to the list."""
        self._collect(failures)
        for log in tuple(self._with_deleted_files):
            try:
                log.remove_deleted(now_ms)
            except StorageError as error:
                failures.append(error)
            if not log.has_deleted_files:
                self._with_deleted_files.discard(log)
        if not self._dirty:
            return
        dirty = tuple(self._dirty)
        self._dirty.clear()
        for log in dirty:
            try:
                self._written.points[log.name] = log.take_point()
                if log.closed_segments_wait:
                    self._sync_closed(log)
            except (OSError, StorageError) as error:
                failures.append(error)
                log.mark_dirty()
            if log.has_deleted_files:
                self._with_deleted_files.add(log)
        try:
            checkpoints.write_written_points(self._filesystem, self._path, self._written)
        except OSError as error:
            failures.append(error)
        if now_ms >= self._next_recovery_points and self._saving is None:
            self._next_recovery_points = now_ms + _RECOVERY_POINTS_EVERY_MS
            self._save_recovery_points(logs)

    def sync_closed(self, failures: list[Exception]) -> None:
        """Begin to sync closed segments, and collect finished syncs. Writes no points."""
        self._collect(failures)
        for log in tuple(self._dirty):
            if log.closed_segments_wait:
                try:
                    self._sync_closed(log)
                except (OSError, StorageError) as error:
                    failures.append(error)

    def close(self, logs: list[PartitionLog], failures: list[Exception]) -> None:
        """Save and sync everything, with the mark of a clean stop if nothing failed."""
        if self._worker is not None:
            self._worker.shutdown(wait=True)
        self._collect(failures)
        with ThreadPoolExecutor(max_workers=_CLOSING_THREADS, thread_name_prefix="log-close") as pool:
            for log in logs:
                if log.has_unsaved:
                    try:
                        log.save()
                        self._written.points[log.name] = log.take_point()
                    except (OSError, StorageError) as error:
                        failures.append(error)
                try:
                    ticket = log.begin_flush(small_files=True)
                except StorageError as error:
                    failures.append(error)
                else:
                    if ticket is not None:
                        self._syncing.append((log, ticket, pool.submit(ticket.sync)))
        self._collect(failures)
        try:
            checkpoints.write_recovery_points(self._filesystem, self._path, _flushed_offsets(logs))
            self._written.clean = not failures
            checkpoints.write_written_points(self._filesystem, self._path, self._written)
        except OSError as error:
            failures.append(error)

    def stop(self) -> None:
        """End the thread and ignore its results."""
        if self._worker is not None:
            self._worker.shutdown(wait=True, cancel_futures=True)
            self._worker = None
        self._syncing.clear()
        self._noting.clear()

    def _sync_closed(self, log: PartitionLog) -> None:
        if any(log is syncing for syncing, _, _ in self._syncing):
            log.mark_dirty()
            return
        ticket = log.begin_flush(closed_only=True)
        if ticket is not None:
            self._syncing.append((log, ticket, self._in_background().submit(ticket.sync)))

    def _save_recovery_points(self, logs: Iterable[PartitionLog]) -> None:
        points = _flushed_offsets(logs)
        if points != self._recovery_points:
            self._recovery_points = points
            self._saving = self._in_background().submit(
                checkpoints.write_recovery_points, self._filesystem, self._path, dict(points)
            )

    def _in_background(self) -> ThreadPoolExecutor:
        if self._worker is None:
            self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="log-sync")
        return self._worker

    def _collect(self, failures: list[Exception]) -> None:
        """Collect the results of the threads."""
        waiting = []
        for log, ticket, future in self._syncing:
            if not future.done():
                waiting.append((log, ticket, future))
            elif (error := future.exception()) is None:
                log.flushed(ticket)
            else:
                failures.append(StorageError(f"{log.name} cannot be synced: {error}."))
                log.mark_dirty()
        self._syncing = waiting
        if self._saving is not None and self._saving.done():
            if (error := self._saving.exception()) is not None:
                failures.append(StorageError(f"The recovery points cannot be written: {error}."))
            self._saving = None
        for noting in [each for each in self._noting if each.done()]:
            self._noting.remove(noting)
            if (error := noting.exception()) is not None:
                failures.append(StorageError(f"The cleaned offsets cannot be written: {error}."))


def _flushed_offsets(logs: Iterable[PartitionLog]) -> dict[str, int]:
    return {log.name: log.flushed_offset for log in logs if log.flushed_offset}
