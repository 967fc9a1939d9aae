"""The log of one partition: appending, reading, rolling, flushing.

Byte format: a folder `<topic>-<partition>` laid out as Kafka's, so that `kafka-dump-log` reads it: segments
(`segment`), `<offset>.snapshot` (`snapshots`), `leader-epoch-checkpoint` (`leader_epochs`),
`partition.metadata`, and our own `log-start-offset` (a decimal number) once records were deleted.

Invariants: offsets rise without gaps from `start_offset` to `end_offset`; the last segment is the one that is
written to; an append that raises leaves the log as it was. `high_water_mark` is what may be read: the end, or
with `durable` (fsync always) what is known to be on the disk. Nothing here waits, starts threads or reads the
clock: times are arguments.

Crash behaviour: an append is one write behind the last batch. What a crash leaves of it is cut off when the
log is opened (`recovery`). An append that fails half-way (disk full) is cut off at once; if even that fails,
no append succeeds until cutting off does, which each of them tries.

Who may call: the broker, from one thread; only `FlushTicket.sync` and reading a `FileRange` may happen
elsewhere.

Example: an empty log with `segment.bytes=1000` takes batches of 400 bytes with 10 records each: two go to
`00000000000000000000.log`, the third begins `00000000000000000020.log`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from crc32c import crc32c

from headrace.log.errors import CorruptRecordError, RecordTooLargeError, StorageError
from headrace.log.filesystem import write_atomically
from headrace.log.partition import (
    appending,
    reading,
    record_set,
    retention,
    rolling,
    snapshots,
    timestamps,
    transactions,
    truncation,
)
from headrace.log.partition.append_rules import MutableBuffer, prepare
from headrace.log.partition.flushing import FlushTicket, ticket_for
from headrace.log.partition.reading import ReadResult
from headrace.log.partition.transactions import CommittedRead
from headrace.log.producers.verification import Coordinator, Guard, Permission, TransactionEnd
from headrace.log.segments import segment_indexes
from headrace.log.segments.segment import Segment
from headrace.log.segments.segment_files import FileRange, SegmentFiles
from headrace.wire.errors import WireError
from headrace.wire.record_batch import ATTRIBUTES_AT, LOG_OVERHEAD, assign, read_header

if TYPE_CHECKING:
    from headrace.log.config import LogConfig
    from headrace.log.partition.leader_epochs import LeaderEpochs
    from headrace.log.producers.producer_state import ProducerState

__all__ = ["Appended", "CommittedRead", "FileRange", "FlushTicket", "PartitionLog", "ReadResult"]

EPOCHS_FILE: Final = "leader-epoch-checkpoint"


class Appended(NamedTuple):
    """Where a batch is in the log now; `duplicate` if it was there already."""

    base_offset: int
    last_offset: int
    log_append_time: int
    log_start_offset: int
    duplicate: bool


class LogOwner(Protocol):
    """Who remembers how far logs are."""

    dirty: set[PartitionLog]
    """Logs that something happened to since the last checkpoint."""

    def before_truncation(self, log: PartitionLog, offset: int) -> None:
        """What lies behind `offset` will go: do not believe in it after a restart. Raises OSError."""
        ...


class PartitionLog:
    """Made by `recovery.create_log` and `recovery.open_log`."""

    def __init__(
        self,
        folder: str,
        *,
        config: LogConfig,
        files: SegmentFiles,
        durable: bool,
        owner: LogOwner,
        producers: ProducerState,
        epochs: LeaderEpochs,
        make_folder: Callable[[], None] | None = None,
    ) -> None:
        """`make_folder` for a partition that nothing was written to yet: folders cost more than all else."""
        self.path: Final = folder
        self.folder: Final = Path(folder)
        self.name: Final = self.folder.name
        self.config = config
        self.files: Final = files
        self.filesystem: Final = files.filesystem
        self.durable: Final = durable
        self.producers: Final = producers
        self.epochs: Final = epochs
        self.leader_epoch = 0
        self.start_offset = 0
        self.end_offset = 0
        self.flushed_offset = 0
        self.size_bytes = 0
        self.segments: list[Segment] = []
        self.bases: list[int] = []
        self.active: Segment
        # Offsets of the producer snapshots in the folder, and batches appended since the newest.
        self.snapshots: list[int] = []
        self.batches_since_snapshot = 0
        # Files to be removed, and from when on; None until someone with a clock has seen them.
        self.deleted: list[tuple[int | None, list[str]]] = []
        # Counts truncations, so that a flush from before one is not believed.
        self.generation = 0
        self.flushed_place: tuple[int, Segment, int] | None = None
        self.sync_failed = False
        # Some segment may have aborted transactions.
        self.any_aborted = False
        # Closed segments wait for being brought to the disk.
        self.rolled = False
        # Names that a power loss could undo: in the folder, and its own.
        self.new_names = False
        # Whether segments became one: then there are snapshots that nobody needs.
        self.joined = False
        self.new_folder = False
        self.make_folder = make_folder
        self.dirty = False
        self.closed = False
        self.owner: Final = owner
        # Bytes of a failed append stand behind the last batch.
        self.torn = False
        self._pwrite: Final = files.filesystem.pwrite

    def __repr__(self) -> str:
        return f"PartitionLog({self.path}, {self.start_offset}..{self.end_offset})"

    @property
    def high_water_mark(self) -> int:
        return self.flushed_offset if self.durable else self.end_offset

    @property
    def last_stable_offset(self) -> int:
        """Before this offset every transaction is decided: where readers of committed records must stop."""
        return transactions.last_stable_offset(self)

    def configure(self, config: LogConfig) -> None:
        """Other settings from now on."""
        self.config = config
        for segment in self.segments:
            segment.interval = config.index_interval_bytes
        rolling.configure(self.active, config)

    def mark_dirty(self) -> None:
        """Ask for the next checkpoint to look at this log."""
        if not self.dirty:
            self.dirty = True
            self.owner.dirty.add(self)

    def append(  # noqa: PLR0912, PLR0915
        self, records: MutableBuffer, *, now_ms: int, permission: Permission | None = None
    ) -> Appended:
        """Append one batch, into which its offsets are written. Raises LogError.

        The first records of a transaction need a guard as `permission` (`begin_verification`); offsets that
        the group coordinator writes in one need a `Coordinator` with the guard.
        Flat and long on purpose: this runs for every batch that anyone produces.
        """
        config = self.config
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
        with memoryview(records) as view:
            if crc32c(view[ATTRIBUTES_AT:]) != header.crc:
                raise CorruptRecordError(
                    f"Record is corrupt (stored crc = {header.crc}) in topic partition {self.name}."
                )
        records, header = prepare(records, header, config, now_ms, self.name, permission)
        base_offset = self.end_offset
        timestamp = header.max_timestamp
        log_append_time = timestamp if config.timestamp_type == "LogAppendTime" else -1
        if header.producer_id >= 0:
            duplicate = self.producers.check(header, base_offset, permission)
            if duplicate is not None:
                # Kafka gives the time of the first append whatever the timestamp type is.
                place, timestamp = duplicate.base_offset, duplicate.timestamp
                return Appended(place, duplicate.last_offset, timestamp, self.start_offset, True)
        size = len(records)
        last_offset = base_offset + header.last_offset_delta
        segment = self.active
        file = (segment.appendable and segment.file) or appending.activate(self)
        position = segment.size
        if (
            position + size > config.segment_bytes
            or segment.full
            or (timestamp > segment.roll_after_timestamp and position)
            or (now_ms > segment.roll_after_clock and position)
            or last_offset > segment.last_offset_allowed
        ):
            file = appending.make_room(self, size, now_ms)
            segment = self.active
            position = segment.size

        assign(records, header, base_offset, self.leader_epoch)
        try:
            written = self._pwrite(file.descriptor, records, position)
            if written != size or self.torn:
                appending.write_rest(self, file, records, position, written)
        except OSError as error:
            appending.take_back(self, file, position, error)

        segment.size = position + size
        segment.used = True
        if timestamp > segment.max_timestamp:
            segment.max_timestamp = timestamp
            segment.max_timestamp_offset = last_offset
        if position - segment.indexed_position > segment.interval:
            segment.add_to_indexes(last_offset, position)
            segment.full = rolling.indexes_full(segment, config)
        elif not position:
            rolling.first_batch(segment, config, timestamp, now_ms)
        segment.tail_offsets.append(base_offset)
        segment.tail_positions.append(position)
        if header.producer_id >= 0:
            self.producers.appended(header, base_offset, timestamp)
        self.end_offset = last_offset + 1
        self.size_bytes += size
        self.batches_since_snapshot += 1
        if not self.dirty:
            self.mark_dirty()
        return Appended(base_offset, last_offset, log_append_time, self.start_offset, False)

    def begin_verification(
        self, producer_id: int, sequence: int, epoch: int, *, epoch_bump: bool, now_ms: int
    ) -> Guard | None:
        """What to append the first records of a transaction with, once its coordinator has said yes.

        None if its records are here already. `epoch_bump` for clients of version 2 of the transaction
        protocol (KIP-890). Raises InvalidProducerEpochError.
        """
        return self.producers.begin_verification(
            producer_id, sequence, epoch, epoch_bump=epoch_bump, now_ms=now_ms
        )

    def append_marker(
        self, end: TransactionEnd, *, producer_id: int, producer_epoch: int, now_ms: int
    ) -> Appended:
        """End the transaction of a producer, if it has one. Raises LogError.

        The same marker may be written again; one that is late for a newer transaction is refused with
        InvalidProducerEpochError, one of an older coordinator with TransactionCoordinatorFencedError.
        """
        return transactions.append_marker(
            self, end, producer_id=producer_id, producer_epoch=producer_epoch, now_ms=now_ms
        )

    def roll(self, *, now_ms: int = 0) -> None:
        """Begin a new segment, unless the last is empty. Raises StorageError; nothing has changed then."""
        closing = self.active
        if not closing.size:
            return
        if self.torn:
            try:
                self.filesystem.truncate(closing.open_file().descriptor, closing.size)
            except OSError as error:
                raise StorageError(f"{self.name} cannot begin a new segment: {error}.") from error
            self.torn = False
        rolling.roll(self, closing, now_ms)

    def read(
        self, offset: int, max_bytes: int, *, at_least_one: bool, limit_offset: int | None = None
    ) -> ReadResult:
        """Where to read from `offset` on: from the beginning of its batch, up to about `max_bytes`.

        The first batch is whole, even if it is larger, with `at_least_one`; without, a larger one is not
        given. The last may be cut. Nothing at or behind the high-water mark or `limit_offset` is given.
        Raises OffsetOutOfRangeError, StorageError.
        """
        return reading.read(self, offset, max_bytes, at_least_one, limit_offset)

    def read_committed(self, offset: int, max_bytes: int, *, at_least_one: bool) -> CommittedRead:
        """As `read`, up to the last stable offset, with the aborted transactions in what is given."""
        return transactions.read_committed(self, offset, max_bytes, at_least_one)

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int, int] | None:
        """Timestamp, offset and leader epoch of the first record at or after a time. Raises StorageError."""
        return timestamps.first_at_or_after(self, timestamp)

    def offset_of_max_timestamp(self) -> tuple[int, int, int] | None:
        """Timestamp, offset and leader epoch of the first record with the newest timestamp (KIP-734)."""
        return timestamps.newest(self)

    def apply_retention(self, now_ms: int) -> int:
        """Delete segments that are too old or too many; how many they were. Raises StorageError."""
        return retention.apply(self, now_ms)

    def delete_records_before(self, offset: int) -> int:
        """Make `offset` the first one; the first one now. Raises OffsetOutOfRangeError, StorageError."""
        return retention.delete_records_before(self, offset)

    def remove_deleted(self, now_ms: int) -> None:
        """Remove the files of deleted segments whose time has come. Raises StorageError."""
        retention.remove_deleted(self, now_ms)

    def truncate_to(self, offset: int) -> None:
        """Take back the batches from the one with `offset` on. Raises StorageError."""
        truncation.truncate_to(self, offset)
        self.torn = False

    def begin_flush(self) -> FlushTicket | None:
        """A ticket for what is not on the disk yet, or None. Raises StorageError."""
        return ticket_for(self)

    def flushed(self, ticket: FlushTicket) -> None:
        """A ticket was synced: what lies before its target is safe."""
        if ticket.generation == self.generation and ticket.target_offset >= self.flushed_offset:
            self.flushed_offset = ticket.target_offset
            self.flushed_place = (ticket.target_offset, ticket.segment, ticket.position)
            self.rolled = self.rolled and ticket.segment is not self.active
            self.mark_dirty()

    def flush(self) -> None:
        """Bring everything to the disk now. Raises StorageError."""
        ticket = self.begin_flush()
        if ticket is not None:
            try:
                ticket.sync()
            except OSError as error:
                raise StorageError(f"{self.name} cannot be brought to the disk: {error}.") from error
            self.flushed(ticket)

    def write_epochs(self) -> None:
        """Raises OSError."""
        path = f"{self.path}/{EPOCHS_FILE}"
        write_atomically(self.filesystem, path, self.epochs.to_bytes(), sync=self.durable)

    def save(self) -> None:
        """Bring to files what is only in memory, so that a start looks at no batches. Raises OSError."""
        if self.active.index is not None:
            segment_indexes.complete(self.active)
        if self.batches_since_snapshot:
            snapshots.write(self, self.end_offset)
            snapshots.prune(self)

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
            self.closed = True
            for segment in self.segments:
                segment.forget()
