"""Chooses the log to compact next, and takes over the results of a round of cleaning.

A round works like this. On the log's thread `begin` chooses the dirtiest log that is due and returns a
`CleaningJob` with a task. The task is carried out by `cleaning_process.CleaningProcess` in a separate
process, so that the broker's interpreter does not wait for it, or by `clean` here and now. Each result goes
to `take`, on the log's thread again, which puts segments in place and finally records the cleaned offset. A
failed round goes to `give_up`.

Invariants: one round at a time. Appends, reads and retention continue meanwhile; if a segment that is being
cleaned is removed, the round is useless and is given up. Only synced data is cleaned: a power loss must not
take the record that supersedes one that is already gone. A log with a damaged batch is skipped until the next
start, as in Kafka, so that the others are cleaned.

Crash behaviour: `segment_swap` for segments; the cleaned offset is written after all of them are in place, so
an interrupted round is repeated. Byte format: `cleaner-offset-checkpoint`, see `checkpoints`. Who may call:
the broker, from the thread of the logs. Never reads a clock itself.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.log.compaction import segment_writer
from headrace.log.compaction.cleaning_task import CleaningTask, Pace, RoundDone
from headrace.log.compaction.last_records import BYTES_PER_KEY
from headrace.log.compaction.retained_records import ClosedSegment, DirtyPart, LastBatch, dirty_part
from headrace.log.compaction.segment_rewriting import Round
from headrace.log.config import FOREVER
from headrace.log.errors import StorageError
from headrace.log.folder.data_folder import DataFolder
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.partition.segment_swap import ReplacedMeanwhileError
from headrace.log.segments import swap_files
from headrace.log.segments.swap_files import CleanedSegment
from headrace.log.segments.transaction_index import AbortedTransaction
from headrace.wire.errors import WireError

_log = logging.getLogger(__name__)

AbortedIn = Callable[[PartitionLog, int, int], Sequence[AbortedTransaction]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """Kafka's `log.cleaner.dedupe.buffer.size` and `log.cleaner.io.max.bytes.per.second`."""

    key_memory_bytes: int = 128 << 20
    bytes_per_second: float = 1.7976931348623157e308


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CleaningJob:
    """A round in progress."""

    log: PartitionLog
    task: CleaningTask


class Cleaner:
    """The cleaner of one data folder."""

    def __init__(
        self,
        logs: DataFolder,
        settings: CleanerSettings | None = None,
        *,
        aborted_in: AbortedIn = PartitionLog.aborted_between,
    ) -> None:
        """`aborted_in` returns the aborted transactions of a log between two offsets."""
        self._logs: Final = logs
        self.settings = settings or CleanerSettings()
        self._aborted_in: Final = aborted_in
        self._under_way: CleaningJob | None = None
        self.waits_for_disk = False
        """Whether `begin` found closed segments that are not synced yet, and has asked for that."""
        # Logs that could not be cleaned.
        self.left_alone: set[PartitionLog] = set()

    @property
    def busy(self) -> bool:
        return self._under_way is not None

    def dirty_part(self, log: PartitionLog, now_ms: int) -> DirtyPart:
        """The part of a log that a round would clean now. Raises StorageError."""
        config = log.config
        closed = [
            ClosedSegment(
                segment.base_offset,
                segment.size,
                segment.newest_timestamp() if config.min_compaction_lag_ms > 0 else -1,
                segment.first_header().max_timestamp
                if config.max_compaction_lag_ms < FOREVER and segment.size
                else -1,
            )
            for segment in log.segments.closed
        ]
        return dirty_part(
            closed,
            config,
            start_offset=log.start_offset,
            active_base=log.segments.active.base_offset,
            end_offset=log.end_offset,
            limit_offset=min(log.last_stable_offset, log.flushed_offset),
            cleaned_offset=self._logs.cleaned_offset(log),
            now_ms=now_ms,
        )

    def begin(self, now_ms: int) -> CleaningJob | None:
        """Choose the dirtiest log that is due; None if there is none, or a round is in progress."""
        if self.busy:
            return None
        self.left_alone = {log for log in self.left_alone if not log.closed}
        self.waits_for_disk = False
        best: tuple[float, PartitionLog, DirtyPart] | None = None
        for topic in self._logs.topics.values():
            for log in topic.partitions:
                if not log.config.compact or len(log.segments) == 1 or log in self.left_alone:
                    continue
                if any(segment.suffix for segment in log.segments):
                    continue  # a rename failed; the next start repeats it
                try:
                    part = self.dirty_part(log, now_ms)
                except StorageError as error:
                    self._leave_alone(log, error)
                    continue
                if log.flushed_offset < log.segments.active.base_offset:
                    # Only synced data can be cleaned: ask for a sync.
                    self.waits_for_disk = True
                    log.want_closed_segments()
                if part.is_due(log.config) and (best is None or part.ratio > best[0]):
                    best = part.ratio, log, part
        if best is None:
            return None
        self._under_way = self._job(best[1], best[2], now_ms)
        return self._under_way

    def _job(self, log: PartitionLog, part: DirtyPart, now_ms: int) -> CleaningJob:
        config = log.config
        first = log.segments.bases[0]
        task = CleaningTask(
            folder=log.path,
            segments=tuple(
                (segment.base_offset, segment.size)
                for segment in log.segments.closed
                if segment.base_offset < part.end_offset
            ),
            first_dirty=part.first_dirty,
            end_offset=part.end_offset,
            now_ms=now_ms,
            delete_retention_ms=config.delete_retention_ms,
            segment_bytes=config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            most_keys=max(1, self.settings.key_memory_bytes // BYTES_PER_KEY),
            bytes_per_second=self.settings.bytes_per_second,
            last_batches=tuple(_last_batches(log)),
            aborted=tuple(
                AbortedTransaction(*each) for each in self._aborted_in(log, first, part.end_offset)
            ),
        )
        return CleaningJob(log=log, task=task)

    def take(self, job: CleaningJob, said: CleanedSegment | RoundDone, *, now_ms: int) -> bool:
        """Take over a result of a round. Return False when the round is over or given up."""
        if job is not self._under_way:
            if isinstance(said, CleanedSegment):
                swap_files.discard(self._logs.filesystem, job.log.path, said)
            return False
        try:
            if isinstance(said, CleanedSegment):
                job.log.replace_segments(said, now_ms=now_ms)
                return True
            self._under_way = None
            if not job.log.closed:
                self._logs.set_cleaned_offset(job.log, said.cleaned_offset)
                _log.info(
                    "cleaned %s up to offset %d: %d keys, %d bytes read, %d written",
                    *(job.log.name, said.cleaned_offset, said.keys, said.bytes_read, said.bytes_written),
                )
        except ReplacedMeanwhileError as error:
            _log.info("giving up the cleaning of %s: %s", job.log.name, error)
            self._under_way = None
        except StorageError as error:
            self.give_up(job, error)
        return False

    def give_up(self, job: CleaningJob, reason: object, *, lasting: bool = False) -> None:
        """End a failed round. If the reason is `lasting`, skip the log from now on."""
        if job is self._under_way:
            self._under_way = None
        if lasting and not job.log.closed:
            self._leave_alone(job.log, reason)
        else:
            _log.warning("cleaning %s failed: %s", job.log.name, reason)

    def tidy(self, job: CleaningJob) -> None:
        """Remove the files that an abandoned round left in the folder of its log."""
        try:
            segment_writer.remove_cleaned(self._logs.filesystem, job.log.path)
        except OSError as error:
            _log.warning("leftover files of cleaning %s cannot be removed: %s", job.log.name, error)

    def _leave_alone(self, log: PartitionLog, reason: object) -> None:
        _log.error("%s cannot be cleaned and is skipped until the next start: %s", log.name, reason)
        self.left_alone.add(log)

    def clean(self, now_ms: int) -> bool:
        """Carry out a whole round here and now if a log is due. Return whether there was one."""
        job = self.begin(now_ms)
        if job is None:
            return False
        pace = Pace(job.task.bytes_per_second, time.monotonic, time.sleep)
        try:
            for said in Round(job.task, self._logs.filesystem, pace).run():
                if not self.take(job, said, now_ms=now_ms):
                    break
        except (OSError, WireError) as error:
            self.give_up(job, error, lasting=isinstance(error, WireError))
        return True


def _last_batches(log: PartitionLog) -> list[LastBatch]:
    return [
        LastBatch(
            producer.producer_id, producer.batches[-1].last_offset if producer.batches else -1, producer.epoch
        )
        for producer in log.active_producers()
    ]
