"""The shards of one internal topic: created with it, loaded from it, found by key.

A shard answers requests once its partition has been replayed. Until then clients have to retry
(COORDINATOR_LOAD_IN_PROGRESS). Loading works in slices, between which other requests are answered.

Invariants: there is one shard for each partition that the topic had at the start, so a key stays with its
shard. The first request for a key creates the topic. Never decides anything.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, Generic

from kio.schema.errors import ErrorCode

from headrace.broker.coordinators.shard import Due, Machines, Shard, SomeMachines
from headrace.broker.coordinators.timers import EventLoopClock
from headrace.broker.errors import ApiError
from headrace.broker.new_topics import create_automatically
from headrace.coordination.fields import CorruptRecordError
from headrace.coordination.transactions.records import shard_of
from headrace.log.errors import LogError, StorageError
from headrace.wire.control_batches import read_end_marker
from headrace.wire.errors import WireError
from headrace.wire.record_batch import HEADER_SIZE, NO_PRODUCER, BatchHeader, read_header
from headrace.wire.records import read_records

if TYPE_CHECKING:
    from headrace.broker.node import Node
    from headrace.log.partition.partition_log import PartitionLog

_log = logging.getLogger(__name__)

SLICE_BYTES: Final = 256 << 10


class Shards(Generic[SomeMachines]):
    """`make` creates the machines of a shard. For `due`, see `Shard`."""

    def __init__(
        self,
        node: Node,
        topic: str,
        make: Callable[[int], SomeMachines],
        due: Due[SomeMachines] | None = None,
    ) -> None:
        self._node: Final = node
        self.topic: Final = topic
        self._make: Final = make
        self._due: Final = due
        self._shards: list[Shard[SomeMachines]] = []
        self._loading: asyncio.Task[None] | None = None
        self.all_loaded = asyncio.Event()
        self._closed = False

    def __iter__(self) -> Iterator[Shard[SomeMachines]]:
        """The loaded shards."""
        return (shard for shard in self._shards if shard.loaded)

    @property
    def loading(self) -> bool:
        return any(not shard.loaded for shard in self._shards)

    def start(self) -> None:
        """Begin to load the topic, if it exists."""
        topic = self._node.logs.topics.get(self.topic)
        if topic is None or self._shards:
            return
        clock = EventLoopClock(self._node.now_ms)
        self._shards = [
            Shard(
                number,
                log,
                self._make(number),
                clock=clock,
                confirmation=functools.partial(self._node.appended, log),
                due=self._due,
            )
            for number, log in enumerate(topic.partitions)
        ]
        if any(log.end_offset > log.start_offset for log in topic.partitions):
            self._loading = asyncio.get_running_loop().create_task(
                self._load_all(topic.partitions), name=f"load {self.topic}"
            )
        else:
            for shard in self._shards:
                shard.become_loaded()
            self.all_loaded.set()

    def close(self) -> None:
        """The broker stops: refuse requests. Replies that wait for the disk still go out."""
        self._closed = True
        if self._loading is not None:
            self._loading.cancel()
            self._loading = None
        for shard in self._shards:
            shard.close()

    def end(self) -> None:
        """Cancel what is still in progress."""
        for shard in self._shards:
            shard.end()

    def forget(self) -> None:
        """The topic was deleted. The next request creates it again."""
        self.close()
        self.end()
        self._closed = False
        self._shards = []
        self.all_loaded.clear()

    def ensure(self) -> None:
        """Create the topic if it does not exist. Raises ApiError (COORDINATOR_NOT_AVAILABLE)."""
        if self._closed:
            raise ApiError(ErrorCode.coordinator_not_available, "The broker is stopping.")
        if self._shards:
            return
        try:
            if self.topic not in self._node.logs.topics:
                create_automatically(self._node, self.topic)
        except (ApiError, LogError) as error:
            _log.warning("%s cannot be created: %s", self.topic, error)
            raise ApiError(ErrorCode.coordinator_not_available, str(error)) from error
        self.start()

    def number_of(self, key: str) -> int:
        """The partition that a key belongs to. Raises ApiError."""
        self.ensure()
        return shard_of(key, len(self._shards))

    def of(self, key: str) -> Shard[SomeMachines]:
        """The shard of a key. Raises ApiError if it does not exist or is not loaded yet."""
        number = self.number_of(key)
        shard = self._shards[number]
        if not shard.loaded:
            raise ApiError(ErrorCode.coordinator_load_in_progress)
        return shard

    def at(self, number: int) -> Shard[SomeMachines] | None:
        """The shard of a partition, if it exists."""
        return self._shards[number] if number < len(self._shards) else None

    async def _load_all(self, logs: Iterable[PartitionLog]) -> None:
        for shard, log in zip(self._shards, logs, strict=True):
            try:
                await load(log, shard.machines)
            except (LogError, OSError, WireError):
                # Its clients have to retry. Deciding on half of the records would be worse.
                _log.exception("%s cannot be loaded, its clients are refused", shard.log.name)
                continue
            shard.become_loaded()
        self.all_loaded.set()


async def load(log: PartitionLog, machines: Machines) -> None:
    """Replay a partition from its beginning. Raises LogError, OSError, WireError."""
    if log.high_water_mark < log.end_offset:
        log.flush()
    offset = log.start_offset
    while offset < log.end_offset:
        found = log.read(offset, SLICE_BYTES, at_least_one=True)
        if found.ranges is None:
            break
        content = found.ranges.file.pread(found.size, found.ranges.position)
        position = 0
        while len(content) - position >= HEADER_SIZE:
            header = read_header(content, position)
            if len(content) - position < header.size:
                break
            _replay(machines, content, header, log.name)
            offset = header.next_offset
            position += header.size
        if not position:
            raise StorageError(f"{log.name} ends unexpectedly at offset {offset}.")
        await asyncio.sleep(0)


def _replay(machines: Machines, content: bytes, header: BatchHeader, name: str) -> None:
    if header.control:
        marker = read_end_marker(content, header)
        if marker is not None:
            machines.replay_marker(header.producer_id, committed=marker.committed)
        return
    producer_id = header.producer_id if header.transactional else NO_PRODUCER
    for record in read_records(content, header):
        try:
            machines.replay(record.key or b"", record.value, producer_id)
        except CorruptRecordError as error:
            offset = header.base_offset + record.offset_delta
            _log.error("%s: the record at offset %d is skipped: %s", name, offset, error)
