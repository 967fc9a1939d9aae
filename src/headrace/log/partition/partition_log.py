"""The log of one partition: the operations that the broker uses, on the parts that do the work.

Byte format: a folder `<topic>-<partition>` laid out as Kafka's, so that `kafka-dump-log` reads it: segments
(`segment`), `<offset>.snapshot` (`snapshots`), `leader-epoch-checkpoint` (`leader_epochs`),
`partition.metadata`, and our own `log-start-offset` (a decimal number) once records were deleted.

Owns no state: its `parts` do. Invariants: offsets rise without gaps from `start_offset` to `end_offset`; an
append that raises leaves the log as it was. `high_water_mark` is what may be read: the end, or with `durable`
(fsync always) what is known to be on the disk. Nothing here waits, starts threads or reads the clock: times
are arguments.

Crash behaviour: an append is one write behind the last batch. What a crash leaves of it is cut off when the
log is opened (`recovery`). An append that fails half-way (disk full) is cut off at once; if even that fails,
no append succeeds until cutting off does, which each of them tries.

Who may call: the broker, from one thread; only `FlushTicket.sync` and reading a `FileRange` may happen
elsewhere.

Example: an empty log with `segment.bytes=1000` takes batches of 400 bytes with 10 records each: two go to
`00000000000000000000.log`, the third begins `00000000000000000020.log`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from crc32c import crc32c

from headrace.log.errors import CorruptRecordError, RecordTooLargeError, StorageError
from headrace.log.partition import (
    appending,
    reading,
    record_set,
    retention,
    rolling,
    segment_swap,
    timestamps,
    truncation,
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


class LogOwner(Protocol):
    """Who remembers how far logs are."""

    def changed(self, log: PartitionLog) -> None:
        """Something happened to a log, for the first time since its last checkpoint."""
        ...

    def before_truncation(self, log: PartitionLog, offset: int) -> None:
        """What lies behind `offset` will go: do not believe in it after a restart. Raises OSError."""
        ...


class PartitionLog:
    """Made by `opening.open_log`, which gives its parts what they begin with."""

    __slots__ = ("__weakref__", "_owner", "_pwrite", "durable", "name", "parts", "path", "segments")

    def __init__(
        self,
        folder: str,
        *,
        config: LogConfig,
        files: SegmentFiles,
        durable: bool,
        owner: LogOwner,
        make_folder: Callable[[], None] | None = None,
    ) -> None:
        self.parts: Final = LogParts(
            folder,
            files,
            config,
            durable=durable,
            make_folder=make_folder,
            tell_change=lambda: owner.changed(self),
        )
        self.segments: Final = self.parts.segments
        self.path: Final = folder
        self.name: Final = self.segments.name
        self.durable: Final = durable
        self._owner: Final = owner
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
    def last_stable_offset(self) -> int:
        """Before this offset every transaction is decided: where readers of committed records must stop."""
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
        """The leader epoch that wrote an offset; None if that is not known."""
        return self.parts.epochs.epochs.epoch_for(offset)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """See `LeaderEpochs.end_offset_for`."""
        return self.parts.epochs.epochs.end_offset_for(epoch, self.end_offset)

    def configure(self, config: LogConfig) -> None:
        """Other settings from now on."""
        self.segments.configure(config)

    # Appending

    def append(
        self, records: MutableBuffer, *, now_ms: int, permission: Permission | None = None
    ) -> Appended:
        """Append one batch, into which its offsets are written. Raises LogError.

        The first records of a transaction need a guard as `permission` (`begin_verification`); offsets that
        the group coordinator writes in one need a `Coordinator` with the guard.
        Flat and long on purpose: this runs for every batch that anyone produces.
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
        if producer_id >= 0:
            parts.producers.appended(header, base_offset, timestamp)
        parts.snapshots.count_batch()
        if not parts.status.dirty:
            parts.status.changed()
        return Appended(base_offset, last_offset, log_append_time, segments.start_offset, False)

    def begin_verification(
        self, producer_id: int, sequence: int, epoch: int, *, epoch_bump: bool, now_ms: int
    ) -> Guard | None:
        """What to append the first records of a transaction with, once its coordinator has said yes.

        None if its records are here already. `epoch_bump` for clients of version 2 of the transaction
        protocol (KIP-890). Raises InvalidProducerEpochError.
        """
        return self.parts.producers.begin_verification(
            producer_id, sequence, epoch, epoch_bump=epoch_bump, now_ms=now_ms
        )

    def append_marker(
        self, end: TransactionEnd, *, producer_id: int, producer_epoch: int, now_ms: int
    ) -> Appended:
        """End the transaction of a producer, if it has one. Raises LogError.

        The same marker may be written again; one that is late for a newer transaction is refused with
        InvalidProducerEpochError, one of an older coordinator with TransactionCoordinatorFencedError.
        """
        appending.prepare_marker(self.parts)
        batch = build_end_marker(
            end.marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp=now_ms
        )
        appended = self.append(batch, now_ms=now_ms, permission=Coordinator(end=end))
        appending.marker_appended(self.parts, batch, end.marker, appended.base_offset)
        return appended

    def roll(self, *, now_ms: int = 0) -> None:
        """Begin a new segment, unless the last is empty. Raises StorageError; nothing has changed then."""
        rolling.roll(self.parts, now_ms)

    # Producers

    def active_producers(self) -> Iterator[Producer]:
        """All producers that are known, to be read."""
        return self.parts.producers.active()

    @property
    def has_open_transactions(self) -> bool:
        return bool(self.parts.producers.ongoing)

    def expire_producers_after(self, milliseconds: int) -> None:
        """Set how long a producer is known that writes nothing."""
        self.parts.producers.expire_after(milliseconds)

    def remove_expired_producers(self, now_ms: int) -> None:
        """Forget producers that have written nothing for too long."""
        if len(self.parts.producers):
            self.parts.producers.remove_expired(now_ms)

    def aborted_between(self, start: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions with records from `start` to before `end`. Raises StorageError."""
        return self.parts.aborted.between(start, end)

    # Reading

    def read(
        self, offset: int, max_bytes: int, *, at_least_one: bool, limit_offset: int | None = None
    ) -> ReadResult:
        """Where to read from `offset` on: from the beginning of its batch, up to about `max_bytes`.

        The first batch is whole, even if it is larger, with `at_least_one`; without, a larger one is not
        given. The last may be cut. Nothing at or behind the high-water mark or `limit_offset` is given.
        Raises OffsetOutOfRangeError, StorageError.
        """
        return reading.read(self.parts, offset, max_bytes, at_least_one, limit_offset)

    def read_committed(self, offset: int, max_bytes: int, *, at_least_one: bool) -> CommittedRead:
        """As `read`, up to the last stable offset, with the aborted transactions in what is given."""
        return reading.read_committed(self.parts, offset, max_bytes, at_least_one)

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int, int] | None:
        """Timestamp, offset and leader epoch of the first record at or after a time. Raises StorageError."""
        return timestamps.first_at_or_after(self.parts, timestamp)

    def offset_of_max_timestamp(self) -> tuple[int, int, int] | None:
        """Timestamp, offset and leader epoch of the first record with the newest timestamp (KIP-734)."""
        return timestamps.newest(self.parts)

    # Taking segments and records out

    def apply_retention(self, now_ms: int) -> int:
        """Delete segments that are too old or too many; how many they were. Raises StorageError."""
        return retention.apply(self.parts, now_ms)

    def delete_records_before(self, offset: int) -> int:
        """Make `offset` the first one; the first one now. Raises OffsetOutOfRangeError, StorageError."""
        retention.delete_records_before(self.parts, offset)
        return self.segments.start_offset

    def replace_segments(self, cleaned: CleanedSegment, *, truncations: int, now_ms: int) -> None:
        """See `segment_swap.put_in_place`. Raises ReplacedMeanwhileError, StorageError."""
        segment_swap.put_in_place(self.parts, cleaned, truncations=truncations, now_ms=now_ms)

    @property
    def has_deleted_files(self) -> bool:
        """Whether files of deleted segments wait for their removal."""
        return len(self.parts.deleted) > 0

    def remove_deleted(self, now_ms: int) -> None:
        """Remove the files of deleted segments whose time has come. Raises StorageError."""
        self.parts.deleted.remove_due(now_ms)

    @property
    def truncations(self) -> int:
        """How often batches were taken back."""
        return self.parts.flush.truncations

    def truncate_to(self, offset: int) -> None:
        """Take back the batches from the one with `offset` on. Raises OffsetOutOfRangeError, StorageError."""
        truncation.truncate_to(self.parts, offset, lambda: self._owner.before_truncation(self, offset))

    # Files and the disk

    def mark_dirty(self) -> None:
        """Ask for the next checkpoint to look at this log."""
        self.parts.status.changed()

    @property
    def closed_segments_wait(self) -> bool:
        """Whether closed segments are to be brought to the disk in the background."""
        return self.parts.flush.closed_segments_wait and not self.closed

    def want_closed_segments(self) -> None:
        """Ask for closed segments to be brought to the disk."""
        self.parts.flush.want_closed_segments()
        self.parts.status.changed()

    def begin_flush(self, *, closed_only: bool = False) -> FlushTicket | None:
        """A ticket for what is not on the disk yet, or for closed segments, or None. Raises StorageError."""
        return None if self.closed else self.parts.flush.ticket(closed_only=closed_only)

    def flushed(self, ticket: FlushTicket) -> None:
        """A ticket was synced: what lies before its target is safe."""
        if self.parts.flush.flushed(ticket):
            self.parts.status.changed()

    def flush(self) -> None:
        """Bring everything to the disk now. Raises StorageError."""
        ticket = self.begin_flush()
        if ticket is not None:
            try:
                ticket.sync()
            except OSError as error:
                raise StorageError(f"{self.name} cannot be brought to the disk: {error}.") from error
            self.flushed(ticket)

    def take_point(self) -> Point:
        """Up to where the log is written now, for a checkpoint; what a start needs is in files then.

        Raises OSError, StorageError.
        """
        self.parts.status.checkpointed()
        return written_point.take_point(self.parts)

    @property
    def has_unsaved(self) -> bool:
        """Whether there is anything for `save` to do."""
        return self.parts.status.dirty or written_point.has_unsaved(self.parts)

    def save(self) -> None:
        """Bring to files what is only in memory, so that a start looks at no batches. Raises OSError."""
        written_point.save(self.parts)

    def close(self, *, clean: bool = True) -> None:
        """No more appends. `clean` saves and flushes first. Raises StorageError, and is closed then too."""
        if self.closed:
            return
        try:
            if clean:
                self.save()
                self.flush()
        except OSError as error:
            raise StorageError(f"{self.name} cannot be closed cleanly: {error}.") from error
        finally:
            self.parts.status.close()
            for segment in self.segments:
                segment.forget()
