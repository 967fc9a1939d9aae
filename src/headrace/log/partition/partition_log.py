"""The log of one partition: the operations that the broker uses, carried out by the log's parts.

Byte format: a folder `<topic>-<partition>` in Kafka's layout, which `kafka-dump-log` can read: segments
(`segment`), `<offset>.snapshot` (`snapshots`), `leader-epoch-checkpoint` (`leader_epochs`),
`partition.metadata`, and our own `log-start-offset` (a decimal number) once records were deleted.

Owns no state: its `parts` do. Invariants: offsets rise from `start_offset` to `end_offset`; they have gaps
where records were compacted or lost (`hole`), so differences of offsets count nothing. An append that raises
leaves the log unchanged. Readers may read up to `high_water_mark`: the end of what is reserved
(`reservation`), or with `durable` (fsync always) and with flush.messages=1 the end of what is known to be on
the disk. Nothing here waits, starts threads or reads the clock: times are arguments.

Crash behaviour: an append is one write after the last batch. Opening the log cuts off incomplete ones
(`recovery`). An append that fails half-way (disk full) is cut off at once; if even that fails, every later
append tries again, and none succeeds before.

Who may call: the broker, from one thread; only `FlushTicket.sync` and reading a `FileRange` may happen in
others.

Example: an empty log with `segment.bytes=1000` gets batches of 400 bytes with 10 records each: two go to
`00000000000000000000.log`, the third begins `00000000000000000020.log`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from headrace.log.errors import CorruptRecordError, RecordTooLargeError, StorageError
from headrace.log.partition import (
    appending,
    reading,
    record_set,
    retention,
    segment_swap,
    timestamps,
    written_point,
)
from headrace.log.partition.append_rules import MutableBuffer, prepare
from headrace.log.partition.appending import Appended
from headrace.log.partition.flushing import FlushTicket
from headrace.log.partition.parts import LogParts
from headrace.log.partition.reading import CommittedRead, ReadResult
from headrace.log.producers.verification import Coordinator, Guard, Permission, TransactionEnd
from headrace.log.segments.segment_files import FileRange, SegmentFiles
from headrace.wire.control_batches import build_end_marker
from headrace.wire.errors import WireError
from headrace.wire.record_batch import ATTRIBUTES_AT, LOG_OVERHEAD, assign, read_header

if TYPE_CHECKING:
    from headrace.log.config import LogConfig
    from headrace.log.partition.written_point import Point
    from headrace.log.producers.producer_state import Producer
    from headrace.log.segments.swap_files import CleanedSegment
    from headrace.log.segments.transaction_index import AbortedTransaction

__all__ = ["Appended", "CommittedRead", "FileRange", "FlushTicket", "PartitionLog", "ReadResult"]


class PartitionLog:
    """Created by `opening.open_log`, which also fills its parts.

    It calls `tell_change` for the first change after each checkpoint.
    """

    __slots__ = ("__weakref__", "_pwrite", "durable", "name", "parts", "path", "reservation", "segments")

    def __init__(
        self,
        folder: str,
        *,
        config: LogConfig,
        files: SegmentFiles,
        durable: bool,
        tell_change: Callable[[PartitionLog], None],
        make_folder: Callable[[], None] | None = None,
    ) -> None:
        self.parts: Final = LogParts(
            folder,
            files,
            config,
            durable=durable,
            make_folder=make_folder,
            tell_change=lambda: tell_change(self),
        )
        self.segments: Final = self.parts.segments
        self.reservation: Final = self.parts.reservation
        self.path: Final = folder
        self.name: Final = self.segments.name
        self.durable: Final = durable
        self._pwrite: Final = files.filesystem.pwrite

    def __repr__(self) -> str:
        return f"PartitionLog({self.path}, {self.start_offset}..{self.end_offset})"

    @property
    def folder(self) -> Path:
        return Path(self.path)

    @property
    def config(self) -> LogConfig:
        return self.segments.config

    @property
    def closed(self) -> bool:
        return self.parts.status.closed

    @property
    def start_offset(self) -> int:
        """The first offset that may be read."""
        return self.segments.start_offset

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.segments.active.end_offset

    @property
    def flushed_offset(self) -> int:
        """What lies before it survives a power loss."""
        return self.parts.flush.flushed_offset

    @property
    def high_water_mark(self) -> int:
        """The offset up to which the log may be read."""
        return self.parts.flush.high_water_mark

    @property
    def shows_synced_only(self) -> bool:
        """Whether readers have to wait for the disk: with `durable`, and with flush.messages=1."""
        return self.parts.flush.shows_synced_only

    @property
    def last_stable_offset(self) -> int:
        """Every transaction before this offset is decided; readers of committed records stop here."""
        return reading.last_stable_offset(self.parts)

    @property
    def has_closed_segments(self) -> bool:
        return len(self.segments) > 1

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def leader_epoch(self) -> int:
        """The epoch that is written into each batch."""
        return self.parts.epochs.current

    def epoch_of(self, offset: int) -> int | None:
        """The leader epoch that wrote an offset; None if it is not known."""
        return self.parts.epochs.epoch_for(offset)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """See `LeaderEpochs.end_offset_for`."""
        return self.parts.epochs.end_offset_for(epoch, self.end_offset)

    def configure(self, config: LogConfig) -> None:
        """Use other settings from now on."""
        self.segments.configure(config)
        self.parts.flush.show_synced_only(config.flush_messages == 1)

    # Appending

    def append(
        self, records: MutableBuffer, *, now_ms: int, permission: Permission | None = None
    ) -> Appended:
        """Append one batch, and write its offsets into it. Raises LogError.

        The first records of a transaction need a guard as `permission` (`begin_verification`); offsets that
        the group coordinator writes in a transaction need a `Coordinator` with the guard.
        Deliberately flat and long: this runs for every batch that anyone produces.
        """
        parts = self.parts
        segments = parts.segments
        config = segments.config
        try:
            header = read_header(records)
        except WireError as error:
            record_set.refuse(records, error, self.name)
        size = header[1] + LOG_OVERHEAD
        if size != len(records):
            records = record_set.only_batch(records, size, self.name)
        if (
            size > config.max_message_bytes
            and not header.base_offset
            and not isinstance(permission, Coordinator)
        ):
            raise RecordTooLargeError(
                f"The record batch size in the append to {self.name} is {size} bytes "
                f"which exceeds the maximum configured value of {config.max_message_bytes}."
            )
        if crc32c(memoryview(records)[ATTRIBUTES_AT:]) != header.crc:
            raise CorruptRecordError(
                f"Record is corrupt (stored crc = {header.crc}) in topic partition {self.name}."
            )
        records, header = prepare(records, header, config, now_ms, self.name, permission)
        segment = segments.active
        base_offset = segment.end_offset
        timestamp = header.max_timestamp
        log_append_time = timestamp if config.timestamp_type == "LogAppendTime" else -1
        producer_id = header.producer_id
        if producer_id >= 0:
            duplicate = parts.producers.check(header, base_offset, permission)
            if duplicate is not None:
                # Kafka gives the time of the first append whatever the timestamp type is.
                place, timestamp = duplicate.base_offset, duplicate.timestamp
                return Appended(place, duplicate.last_offset, timestamp, segments.start_offset, True)
        size = len(records)
        last_offset = base_offset + header.last_offset_delta
        file = (segment.appendable and segment.file) or appending.activate(parts)
        position = segment.size
        if (
            position + size > config.segment_bytes
            or segment.full
            or (timestamp > segment.roll_after_timestamp and position)
            or (now_ms > segment.roll_after_clock and position)
            or last_offset > segment.last_offset_allowed
        ):
            file = appending.make_room(parts, size, now_ms)
            segment = segments.active
            position = segment.size

        assign(records, header, base_offset, parts.epochs.current)
        try:
            written = self._pwrite(file.descriptor, records, position)
            if written != size or segment.torn:
                segment.write_rest(file, records, written)
        except OSError as error:
            segment.take_back_write(file)
            raise StorageError(f"The records cannot be written to {self.name}: {error}.") from error

        segment.appended(last_offset, timestamp, size, now_ms)
        if last_offset >= parts.reservation.bound:
            parts.reservation.hold(base_offset, last_offset)
        if producer_id >= 0:
            parts.producers.appended(header, base_offset, timestamp)
        parts.snapshots.count(1)
        if not parts.status.dirty:
            parts.status.changed()
        return Appended(base_offset, last_offset, log_append_time, segments.start_offset, False)

    def begin_verification(
        self, producer_id: int, sequence: int, epoch: int, *, epoch_bump: bool, now_ms: int
    ) -> Guard | None:
        """The guard for the first records of a transaction, to be used once its coordinator has agreed.

        None if the log already has records of it. `epoch_bump`: the client uses version 2 of the transaction
        protocol (KIP-890). Raises InvalidProducerEpochError.
        """
        return self.parts.producers.begin_verification(
            producer_id, sequence, epoch, epoch_bump=epoch_bump, now_ms=now_ms
        )

    def append_marker(
        self, end: TransactionEnd, *, producer_id: int, producer_epoch: int, now_ms: int
    ) -> Appended:
        """End the transaction of a producer, if it has one. Raises LogError.

        The same marker may be written again. A marker that is late for a newer transaction raises
        InvalidProducerEpochError, one of an older coordinator TransactionCoordinatorFencedError.
        """
        appending.prepare_marker(self.parts)
        batch = build_end_marker(
            end.marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp=now_ms
        )
        appended = self.append(batch, now_ms=now_ms, permission=Coordinator(end=end))
        appending.marker_appended(self.parts, batch, end.marker, appended.base_offset)
        return appended

    def roll(self, *, now_ms: int = 0) -> None:
        """Begin a new segment, unless the last is empty. If it raises StorageError, nothing has changed."""
        appending.roll(self.parts, now_ms)

    # Producers

    def active_producers(self) -> Iterator[Producer]:
        """All known producers, to be read only."""
        return self.parts.producers.active()

    @property
    def has_open_transactions(self) -> bool:
        return bool(self.parts.producers.ongoing)

    def expire_producers_after(self, milliseconds: int) -> None:
        """Set how long an idle producer is remembered."""
        self.parts.producers.expire_after(milliseconds)

    def remove_expired_producers(self, now_ms: int) -> None:
        """Forget producers that were idle for too long."""
        if len(self.parts.producers):
            self.parts.producers.remove_expired(now_ms)

    def aborted_between(self, start: int, end: int) -> list[AbortedTransaction]:
        """Aborted transactions with records from `start` to before `end`. Raises StorageError."""
        return self.parts.aborted.between(start, end)

    # Reading

    def read(
        self, offset: int, max_bytes: int, *, at_least_one: bool, limit_offset: int | None = None
    ) -> ReadResult:
        """The range to read from `offset` on: from the beginning of its batch, up to about `max_bytes`.

        With `at_least_one` the first batch is complete, even if it is larger; without, a larger one is left
        out. The last batch may be cut. The range ends before the high-water mark and `limit_offset`. Raises
        OffsetOutOfRangeError, StorageError.
        """
        return reading.read(self.parts, offset, max_bytes, at_least_one, limit_offset)

    def read_committed(self, offset: int, max_bytes: int, *, at_least_one: bool) -> CommittedRead:
        """Like `read`, up to the last stable offset, with the aborted transactions in the range."""
        return reading.read_committed(self.parts, offset, max_bytes, at_least_one)

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int, int] | None:
        """Timestamp, offset and leader epoch of the first record at or after a time. Raises StorageError."""
        return timestamps.first_at_or_after(self.parts, timestamp)

    def offset_of_max_timestamp(self) -> tuple[int, int, int] | None:
        """Timestamp, offset and leader epoch of the first record with the newest timestamp (KIP-734)."""
        return timestamps.newest(self.parts)

    # Removing segments and records

    def apply_retention(self, now_ms: int) -> int:
        """Remove segments that are too old or too many. Return how many. Raises StorageError."""
        return retention.apply(self.parts, now_ms)

    def delete_records_before(self, offset: int) -> int:
        """Move the start of the log to `offset`. Return it. Raises OffsetOutOfRangeError, StorageError."""
        retention.delete_records_before(self.parts, offset)
        return self.segments.start_offset

    def replace_segments(self, cleaned: CleanedSegment, *, now_ms: int) -> None:
        """See `segment_swap.put_in_place`. Raises ReplacedMeanwhileError, StorageError."""
        segment_swap.put_in_place(self.parts, cleaned, now_ms=now_ms)

    @property
    def has_deleted_files(self) -> bool:
        """Whether files of deleted segments are still to be removed."""
        return len(self.parts.deleted) > 0

    def remove_deleted(self, now_ms: int) -> None:
        """Remove the files of deleted segments that are due. Raises StorageError."""
        self.parts.deleted.remove_due(now_ms)

    # Files and the disk

    def mark_dirty(self) -> None:
        """Ask the next checkpoint to include this log."""
        self.parts.status.changed()

    @property
    def closed_segments_wait(self) -> bool:
        """Whether closed segments have to be synced in the background."""
        return self.parts.flush.closed_segments_wait and not self.closed

    def want_closed_segments(self) -> None:
        """Ask for closed segments to be synced."""
        self.parts.flush.want_closed_segments()
        self.parts.status.changed()

    def begin_flush(self, *, closed_only: bool = False, small_files: bool = False) -> FlushTicket | None:
        """A ticket for syncing what is not on the disk yet; None if nothing is. Raises StorageError.

        For the arguments see `FlushState.ticket`.
        """
        if self.closed:
            return None
        return self.parts.flush.ticket(closed_only=closed_only, small_files=small_files)

    def flushed(self, ticket: FlushTicket) -> None:
        """Take over a synced ticket: everything before its target is safe."""
        if self.parts.flush.flushed(ticket):
            self.parts.status.changed()

    def flush(self, *, small_files: bool = False) -> None:
        """Sync everything now. Raises StorageError."""
        ticket = self.begin_flush(small_files=small_files)
        if ticket is not None:
            try:
                ticket.sync()
            except OSError as error:
                raise StorageError(f"{self.name} cannot be synced: {error}.") from error
            self.flushed(ticket)

    def take_point(self) -> Point:
        """The current end of the log, for a checkpoint. Raises OSError, StorageError."""
        self.parts.status.checkpointed()
        return written_point.take_point(self.parts)

    @property
    def has_unsaved(self) -> bool:
        """Whether `save` would write anything."""
        parts = self.parts
        loaded = parts.segments.active.index is not None
        return parts.status.dirty or loaded or parts.snapshots.batches_since > 0

    def save(self) -> None:
        """Write what is only in memory, so that a start need not read any batches. Raises OSError."""
        written_point.save(self.parts)

    def close(self, *, clean: bool = True) -> None:
        """Close the log, even if this raises StorageError; with `clean` save and flush it first."""
        if self.closed:
            return
        try:
            if clean:
                self.save()
                self.flush(small_files=True)
        except OSError as error:
            raise StorageError(f"{self.name} cannot be closed cleanly: {error}.") from error
        finally:
            self.parts.status.close()
            for segment in self.segments:
                segment.forget()
