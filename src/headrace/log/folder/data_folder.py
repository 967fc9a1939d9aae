"""All logs of a broker, in one folder that only one process at a time may have open.

Layout: `.lock`, `meta.properties` (the cluster id, in Kafka's format), `catalogue.json` (`topic_catalogue`),
`producer-ids` (the next unused producer id, a decimal number), the three files of `checkpoints`,
`reserved-offsets` (`reservations`), and a folder `<topic>-<partition>` for each partition (`partition_log`).
A folder of a deleted topic is called `<topic>-<partition>.<random>-delete` until it is removed.

Invariants: `topics` and the catalogue agree. Idle partitions cost nothing between two runs of housekeeping: a
set holds the logs that changed since the last checkpoint (`upkeep`).

Crash behaviour: writing the catalogue commits a change of topics; folders follow, and a start removes folders
of deleted topics. Producer ids are written before they are handed out, and so are offsets (`reserving`),
unless records are synced before anybody sees them. Who may call: the broker, from one thread. Never looks
into records.
"""

from __future__ import annotations

import functools
import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from headrace.core.errors import HeadraceError
from headrace.log.config import DEFAULT_CONFIG, LogConfig
from headrace.log.errors import StorageError, TopicExistsError, UnknownTopicError
from headrace.log.filesystem import FileSystem, OperatingSystem, read_file, write_atomically
from headrace.log.folder.folder_identity import lock_folder, note_of_boot, read_or_make_cluster_id
from headrace.log.folder.partition_folders import (
    claim_folder,
    is_partition_folder,
    make_folder,
    make_way,
    mark_for_deletion,
    remove_folder,
)
from headrace.log.folder.reserving import OffsetReserving
from headrace.log.folder.steady_time import SteadyTime
from headrace.log.folder.topic_catalogue import (
    Catalogue,
    TopicEntry,
    read_catalogue,
    read_metadata,
    write_catalogue,
)
from headrace.log.folder.upkeep import Upkeep
from headrace.log.partition.opening import open_log
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.partition.recovery import KnownState
from headrace.log.segments.segment_files import SegmentFiles

_log = logging.getLogger(__name__)

PRODUCER_IDS: Final = "producer-ids"


@dataclass(slots=True, kw_only=True, eq=False)
class Topic:
    """An existing topic, with its logs by partition number."""

    name: str
    id: uuid.UUID
    partitions: list[PartitionLog]
    overrides: dict[str, str]


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class DataFolder:
    """Created by `open`; `close` it, or use it in a `with` statement."""

    def __init__(
        self,
        path: str,
        filesystem: FileSystem,
        clock: Callable[[], int],
        lock: int,
        *,
        durable: bool,
        reserving: bool,
    ) -> None:
        self.path: Final = path
        self.filesystem: Final = filesystem
        self.durable: Final = durable
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[uuid.UUID, Topic] = {}
        self.cluster_id = ""
        self._clock: Final = clock
        self._steady: Final = SteadyTime()
        self._lock: Final = lock
        self._files: Final = SegmentFiles(filesystem)
        self._catalogue = Catalogue()
        self._upkeep: Final = Upkeep(filesystem, path)
        self.reserving: Final = OffsetReserving(filesystem, path, enforced=reserving and not durable)
        # Folders of deleted topics: when to remove them, their paths and topic ids.
        self._doomed: list[tuple[int, str, uuid.UUID]] = []
        self._closed = False

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        config_of: Callable[[Mapping[str, str]], LogConfig] = lambda _overrides: DEFAULT_CONFIG,
        durable: bool = False,
        reserving: bool = False,
        filesystem: FileSystem | None = None,
        clock: Callable[[], int] = _wall_clock_ms,
    ) -> DataFolder:
        """Open or create it. `config_of` returns the settings of a topic with these overrides.

        With `durable` others see only records that are synced; with `reserving` only those whose offsets are
        reserved, and the caller reserves them (`reserving.ask`). With neither, offsets may be used again
        after a power loss.
        Raises HeadraceError if another process has it open or its catalogue is damaged, StorageError.
        """
        filesystem = filesystem or OperatingSystem()
        folder = str(path)
        lock = lock_folder(filesystem, folder)
        data = cls(folder, filesystem, clock, lock, durable=durable, reserving=reserving)
        try:
            data._load(config_of)
        except OSError as error:
            data.abandon()
            raise StorageError(f"The data folder {folder} cannot be opened: {error}.") from error
        except BaseException:
            data.abandon()
            raise
        return data

    def _load(self, config_of: Callable[[Mapping[str, str]], LogConfig]) -> None:
        filesystem = self.filesystem
        self.cluster_id = read_or_make_cluster_id(filesystem, self.path)
        folders = set(filesystem.folders(self.path))
        catalogue = read_catalogue(filesystem, self.path)
        if catalogue is None:
            if any(is_partition_folder(name) for name in folders):
                raise HeadraceError(
                    "data_dir_damaged",
                    f"The data folder {self.path} contains logs, but no list of topics.",
                    remedy="Restore catalogue.json from a backup, or choose another folder with --data-dir.",
                )
            self._save_catalogue(self._catalogue)
        else:
            self._catalogue = catalogue
        self._upkeep.load(note_of_boot(filesystem, self._lock))
        self.reserving.load(clean=self._upkeep.was_clean)
        self._upkeep.begin()
        for name, entry in self._catalogue.topics.items():
            config = config_of(entry.overrides)
            logs = []
            for partition in range(entry.partitions):
                folder = f"{name}-{partition}"
                there = folder in folders and claim_folder(filesystem, self.path, folder, entry.id)
                folders.discard(folder)
                logs.append(self._open_log(folder, entry.id, config, there))
            self._add(Topic(name=name, id=entry.id, partitions=logs, overrides=entry.overrides))
        self.reserving.resume(
            ((topic.id, topic.partitions) for topic in self.topics.values()), synced=self.durable
        )
        self._upkeep.opened()
        self._remove_leftovers(folders)

    def _remove_leftovers(self, folders: set[str]) -> None:
        for name in folders:
            path = f"{self.path}/{name}"
            if name.endswith("-delete"):
                remove_folder(self.filesystem, path)
            elif is_partition_folder(name):
                if read_metadata(self.filesystem, path) in self._catalogue.deleting:
                    remove_folder(self.filesystem, path)
                else:
                    _log.warning("ignoring %s, which belongs to no topic in the catalogue", path)
        self._catalogue.deleting.clear()

    def _add(self, topic: Topic) -> None:
        self.topics[topic.name] = topic
        self.topics_by_id[topic.id] = topic

    def _logs(self) -> Iterator[PartitionLog]:
        for topic in self.topics.values():
            yield from topic.partitions

    def _save_catalogue(self, catalogue: Catalogue) -> None:
        """Replace the catalogue. If this raises StorageError, the old one still holds."""
        try:
            write_catalogue(self.filesystem, self.path, catalogue)
        except OSError as error:
            raise StorageError(f"The list of topics cannot be written: {error}.") from error
        self._catalogue = catalogue

    def _save_entry(self, name: str, entry: TopicEntry) -> None:
        self._save_catalogue(replace(self._catalogue, topics={**self._catalogue.topics, name: entry}))

    # Topics

    def create_topic(
        self,
        name: str,
        partitions: int,
        overrides: dict[str, str],
        config: LogConfig,
        topic_id: uuid.UUID | None = None,
    ) -> Topic:
        """Create a topic; it is durable when this returns. Raises TopicExistsError, StorageError."""
        if name in self.topics:
            raise TopicExistsError(f"Topic '{name}' already exists.")
        entry = TopicEntry(id=topic_id or uuid.uuid4(), partitions=partitions, overrides=dict(overrides))
        logs = self._new_logs(name, entry.id, range(partitions), config)
        self._save_entry(name, entry)
        self.reserving.begin(entry.id, 0, logs)
        topic = Topic(name=name, id=entry.id, partitions=logs, overrides=entry.overrides)
        self._add(topic)
        return topic

    def _open_log(self, folder: str, topic_id: uuid.UUID, config: LogConfig, there: bool) -> PartitionLog:
        make = functools.partial(make_folder, self.filesystem, self.path, folder, topic_id)
        reserved = self.reserving.known(topic_id, int(folder.rpartition("-")[2]))
        known = self._upkeep.known_of(folder, reserved) if there else KnownState(reserved=reserved)
        return open_log(
            f"{self.path}/{folder}",
            config=config,
            files=self._files,
            durable=self.durable,
            tell_change=self._upkeep.changed,
            now_ms=self._clock(),
            known=known,
            make_folder=None if there else make,
        )

    def _new_logs(
        self, name: str, topic_id: uuid.UUID, partitions: range, config: LogConfig
    ) -> list[PartitionLog]:
        """Create the logs of new partitions, which have no folders yet."""
        folders = [f"{name}-{partition}" for partition in partitions]
        try:
            make_way(self.filesystem, self.path, set(folders))
        except OSError as error:
            raise StorageError(f"Partitions of '{name}' cannot be created: {error}.") from error
        return [self._open_log(folder, topic_id, config, False) for folder in folders]

    def add_partitions(self, name: str, total: int) -> None:
        """Add partitions to a topic, up to `total`. Raises UnknownTopicError, StorageError."""
        topic = self._topic(name)
        entry = self._catalogue.topics[name]
        config = topic.partitions[0].config
        logs = self._new_logs(name, topic.id, range(entry.partitions, total), config)
        self._save_entry(name, replace(entry, partitions=total))
        self.reserving.begin(topic.id, entry.partitions, logs)
        topic.partitions += logs

    def delete_topic(self, name: str) -> None:
        """Delete a topic; it is gone when this returns, its files are removed later.

        Raises UnknownTopicError, StorageError.
        """
        topic = self._topic(name)
        topics = {other: entry for other, entry in self._catalogue.topics.items() if other != name}
        deleting = self._catalogue.deleting | {topic.id}
        self._save_catalogue(replace(self._catalogue, topics=topics, deleting=deleting))
        del self.topics[name], self.topics_by_id[topic.id]
        now_ms = self._steady.at(self._clock())
        for log in topic.partitions:
            log.close(clean=False)
            path = mark_for_deletion(self.filesystem, self.path, log.name)
            if path is not None:
                self._doomed.append((now_ms + log.config.file_delete_delay_ms, path, topic.id))
        self._upkeep.forget(topic.partitions)
        self.reserving.forget(topic.partitions)

    def set_overrides(self, name: str, overrides: dict[str, str], config: LogConfig) -> None:
        """Replace a topic's settings. Raises UnknownTopicError, StorageError."""
        topic = self._topic(name)
        self._save_entry(name, replace(self._catalogue.topics[name], overrides=dict(overrides)))
        topic.overrides = dict(overrides)
        for log in topic.partitions:
            log.configure(config)

    def _topic(self, name: str) -> Topic:
        topic = self.topics.get(name)
        if topic is None:
            raise UnknownTopicError(f"Topic '{name}' does not exist.")
        return topic

    # Broker-wide data

    @property
    def broker_overrides(self) -> dict[str, str]:
        """Broker settings that were changed at run time."""
        return dict(self._catalogue.broker_overrides)

    def set_broker_overrides(self, overrides: dict[str, str]) -> None:
        """Raises StorageError."""
        self._save_catalogue(replace(self._catalogue, broker_overrides=dict(overrides)))

    def reserve_producer_ids(self, count: int) -> range:
        """Reserve producer ids that were never used before. Raises StorageError."""
        path = f"{self.path}/{PRODUCER_IDS}"
        try:
            try:
                first = int(read_file(self.filesystem, path))
            except FileNotFoundError:
                first = 0
            write_atomically(self.filesystem, path, b"%d\n" % (first + count), sync=True)
            self.filesystem.sync_directory(self.path)
        except (OSError, ValueError) as error:
            raise StorageError(f"Producer ids cannot be reserved: {error}.") from error
        return range(first, first + count)

    # Upkeep

    def cleaned_offset(self, log: PartitionLog) -> int | None:
        """The offset before which a compacted log is clean; None if it was never cleaned."""
        return self._upkeep.cleaned_offset(log)

    def set_cleaned_offset(self, log: PartitionLog, offset: int) -> None:
        """Record the result of a round of cleaning."""
        self._upkeep.set_cleaned_offset(log, offset)

    def housekeep(self, now_ms: int) -> None:
        """Apply retention and remove deleted files. Raises StorageError at the end if something failed."""
        failures: list[Exception] = []
        steady_ms = self._steady.at(now_ms)
        for log in self._logs():
            try:
                log.apply_retention(now_ms)
                log.remove_deleted(steady_ms)
            except StorageError as error:
                failures.append(error)
        self.remove_expired_producers(now_ms)
        self._remove_doomed(steady_ms, failures)
        _raise_first(failures)

    def remove_expired_producers(self, now_ms: int) -> None:
        """Forget producers that were idle for too long."""
        for log in self._logs():
            log.remove_expired_producers(now_ms)

    def checkpoint(self, now_ms: int) -> None:
        """Write checkpoints, sync closed segments, remove deleted files. Raises StorageError."""
        failures: list[Exception] = []
        steady_ms = self._steady.at(now_ms)
        self._upkeep.checkpoint(self._logs(), steady_ms, failures)
        if self._doomed:
            self._remove_doomed(steady_ms, failures)
        _raise_first(failures)

    def sync_closed(self) -> None:
        """Sync closed segments in the background. Raises StorageError for earlier failures."""
        failures: list[Exception] = []
        self._upkeep.sync_closed(failures)
        _raise_first(failures)

    def _remove_doomed(self, now_ms: int, failures: list[Exception]) -> None:
        kept = []
        for due, path, topic_id in self._doomed:
            if now_ms < due:
                kept.append((due, path, topic_id))
                continue
            try:
                remove_folder(self.filesystem, path)
            except OSError as error:
                failures.append(error)
                kept.append((due, path, topic_id))
        self._doomed = kept
        # Written with the next change: superfluous ids do no harm.
        self._catalogue.deleting &= {topic_id for _, _, topic_id in kept}

    def close(self) -> None:
        """Close all logs with the mark of a clean stop. If it raises StorageError, it is closed too."""
        if self._closed:
            return
        failures: list[Exception] = []
        try:
            self._upkeep.close(list(self._logs()), failures)
            if not failures:
                self.reserving.withdraw()
        finally:
            self.abandon()
        _raise_first(failures)

    def abandon(self) -> None:
        """Close everything without writing anything, like a crash, and release the folder."""
        self._closed = True
        for log in self._logs():
            log.close(clean=False)
        self._upkeep.stop()
        self.filesystem.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _raise_first(failures: list[Exception]) -> None:
    if failures:
        first = failures[0]
        more = f" (and {len(failures) - 1} more failures)" if len(failures) > 1 else ""
        raise StorageError(f"{first}{more}") from first
