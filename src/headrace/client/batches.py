"""Reads record batches by their headers: where each batch begins and ends, and how many records it has. Or
whole, as they are stored (`record_set`).

Counting records this way costs per batch, not per record: nothing is decompressed or decoded. It is exact
where offsets are not: a batch without records, which fills a gap in the offsets, counts nothing, and neither
do the markers of transactions or the records of aborted ones (Fetch, key 1, version 13, read_committed).

Invariants: a topic is asked for by its id, so a batch never comes from another incarnation; batches of a
partition come in order, each once. A reader belongs to one thread. Never joins a group, commits or creates
anything.
"""

from __future__ import annotations

import base64
import datetime
import time
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v13.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.fetch.v13.response import FetchResponse, PartitionData
from kio.serial.errors import SerialError
from kio.static.primitive import i8, i32, i32Timedelta, i64

from headrace.client.broker_connection import BrokerConnection
from headrace.client.cluster import Cluster
from headrace.client.errors import log_unavailable
from headrace.client.topics import Partition, TopicIdentity
from headrace.client.visible_batches import Batch, headers_in, visible_batches, visible_headers
from headrace.wire.record_batch import BatchHeader, Buffer

# A topic, by its id, and the number of one of its partitions.
Place = tuple[str, int]

PATIENCE_SECONDS: Final = 15.0
_READ_UNCOMMITTED: Final = 0
_READ_COMMITTED: Final = 1
_PARTITION_BYTES: Final = 4 * 1024 * 1024
_REPLY_BYTES: Final = 16 * 1024 * 1024
_PAUSE_SECONDS: Final = 0.1
_ABSENT: Final = frozenset(
    {ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id, ErrorCode.inconsistent_topic_id}
)
_GONE: Final = _ABSENT | {ErrorCode.offset_out_of_range}
# The leader has changed, or has not been elected yet: it is looked up again.
_MOVED: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.replica_not_available,
        ErrorCode.offset_not_available,
    }
)


class RecordsGoneError(Exception):
    """The partition no longer has an offset, or the topic of this id does not exist any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What one fetch gave for one partition.

    `position` is where to go on, `first` the first offset that is still there, `end` where the visible
    records end. If the offset asked for is not between those two, `is_out_of_range` is set and there are no
    batches.
    """

    batches: tuple[Batch, ...]
    position: int
    first: int
    end: int
    is_out_of_range: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSet:
    """Whole batches of one partition as they are stored, and the headers of those that are visible.

    `position` is where to go on, `end` where the visible records end. If `is_out_of_range`, the partition
    does not have the offset asked for, and `position` is the first that it still has.
    """

    content: Buffer
    batches: tuple[BatchHeader, ...]
    position: int
    end: int
    is_out_of_range: bool = False


class Leaders(Protocol):
    """What a reader has to know of the cluster: a `Cluster`, or what somebody has asked of one before."""

    @property
    def bootstrap(self) -> str: ...

    def leaders(self, topics: Iterable[TopicIdentity]) -> dict[Partition, tuple[str, int]]: ...

    def stretches(self, topics: Iterable[TopicIdentity]) -> dict[str, dict[int, tuple[int, int]]]: ...


class BatchReader:
    """Fetches batches from the leaders of their partitions, wherever those are."""

    def __init__(
        self, cluster: Leaders, *, timeout_seconds: float = PATIENCE_SECONDS, only_committed: bool = True
    ) -> None:
        """Unless `only_committed`, records of open and aborted transactions are visible, too."""
        self._cluster = cluster
        self._only_committed = only_committed
        self._timeout = timeout_seconds
        self._connections: dict[tuple[str, int], BrokerConnection] = {}
        self._leaders: dict[Place, tuple[str, int]] = {}

    def close(self) -> None:
        self._leaders.clear()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def fetch(
        self,
        starts: Mapping[TopicIdentity, Mapping[int, int]],
        *,
        wait_ms: int,
        ends: Mapping[Place, int] | None = None,
    ) -> dict[Place, Fetched]:
        """The next batches from these offsets on; waits up to `wait_ms` for the first. Records at or behind
        the end of their partition, if one is given, do not count.

        Partitions that do not exist, or have no leader at the moment, are left out. Raises log_unavailable.
        """
        ends = ends or {}
        wanted = {
            (topic.topic_id, number): offset
            for topic, offsets in starts.items()
            for number, offset in offsets.items()
        }
        found: dict[Place, Fetched] = {}
        out_of_range: set[Place] = set()
        for place, partition in self._partitions(starts, wanted, wait_ms):
            if partition.error_code == ErrorCode.offset_out_of_range:
                out_of_range.add(place)
            elif (fetched := self._fetched(place, wanted[place], ends.get(place), partition)) is not None:
                found[place] = fetched
        return found | self._out_of_range(out_of_range, wanted, starts)

    def record_set(self, topic: TopicIdentity, number: int, offset: int) -> RecordSet | None:
        """The batches of a partition from the one that has this offset on, or the next one, with their
        records.

        None if the partition has no leader at the moment. Raises log_unavailable, after which it connects
        anew, and RecordsGoneError.
        """
        place = (topic.topic_id, number)
        for _, partition in self._partitions({topic: {number: offset}}, {place: offset}, wait_ms=0):
            if partition.error_code in _MOVED:
                break
            if partition.error_code in _GONE:
                raise RecordsGoneError(
                    f"partition {number} of topic `{topic.name}` has no offset {offset} any more "
                    f"({partition.error_code.name})"
                )
            if partition.error_code != ErrorCode.none:
                action = f"give records of partition {number} of topic `{topic.name}` from offset {offset} on"
                raise log_unavailable(self._cluster.bootstrap, action, partition.error_code.name)
            return self._record_set(partition, offset)
        self._leaders.pop(place, None)
        return None

    def record_sets(
        self, topic: TopicIdentity, starts: Mapping[int, int], *, wait_ms: int
    ) -> dict[int, RecordSet]:
        """The next batches of several partitions, by partition; waits up to `wait_ms` for the first.

        Partitions that do not exist, or have no leader at the moment, are left out. With several leaders, the
        records of one may wait for another. Raises log_unavailable.
        """
        wanted = {(topic.topic_id, number): offset for number, offset in starts.items()}
        found: dict[int, RecordSet] = {}
        out_of_range: set[Place] = set()
        for place, partition in self._partitions({topic: starts}, wanted, wait_ms):
            if partition.error_code == ErrorCode.offset_out_of_range:
                out_of_range.add(place)
                continue
            self._check(place, partition.error_code)
            if partition.error_code != ErrorCode.none:
                self._leaders.pop(place, None)
                continue
            found[place[1]] = self._record_set(partition, wanted[place])
        for place, each in self._out_of_range(out_of_range, wanted, [topic]).items():
            found[place[1]] = RecordSet(
                content=b"", batches=(), position=each.first, end=each.end, is_out_of_range=True
            )
        return found

    def headers(self, topic: TopicIdentity, number: int, offset: int) -> list[BatchHeader] | None:
        """The headers of whatever batches follow in a partition, from the one that has this offset on, or
        the next one; those of empty batches and of markers, too.

        None if the partition does not reach to this offset. Raises log_unavailable, also if it does not
        exist, or has no leader for a while.
        """
        starts, wanted = {topic: {number: offset}}, {(topic.topic_id, number): offset}
        deadline = time.monotonic() + self._timeout
        while time.monotonic() < deadline:
            for place, partition in self._partitions(starts, wanted, wait_ms=0):
                if partition.error_code == ErrorCode.offset_out_of_range:
                    return None
                self._check(place, partition.error_code)
                if partition.error_code == ErrorCode.none:
                    found = headers_in(partition.records or b"")
                    return [header for header in found if header.next_offset > offset]
                self._leaders.pop(place, None)
            time.sleep(_PAUSE_SECONDS)
        raise log_unavailable(
            self._cluster.bootstrap,
            f"give records of partition {number} of topic `{topic.name}`",
            f"it has no leader for {self._timeout:g} s",
        )

    def _partitions(
        self,
        topics: Mapping[TopicIdentity, Mapping[int, int]],
        wanted: Mapping[Place, int],
        wait_ms: int,
    ) -> list[tuple[Place, PartitionData]]:
        """What the leaders answer. Partitions without a leader are left out."""
        self._find_leaders(topics)
        by_leader: dict[tuple[str, int], dict[Place, int]] = defaultdict(dict)
        for place, offset in wanted.items():
            if place in self._leaders:
                by_leader[self._leaders[place]][place] = offset
        try:
            for leader, offsets in by_leader.items():
                self._connection(leader).send(_request(offsets, wait_ms, only_committed=self._only_committed))
            replies = {leader: self._connections[leader].receive(FetchResponse) for leader in by_leader}
        except (OSError, SerialError, ValueError) as error:
            self.close()
            raise log_unavailable(self._cluster.bootstrap, "give records", str(error)) from error
        return [
            ((_printed(topic.topic_id), int(partition.partition_index)), partition)
            for reply in replies.values()
            for topic in reply.responses
            for partition in topic.partitions
        ]

    def _out_of_range(
        self, places: Collection[Place], wanted: Mapping[Place, int], topics: Iterable[TopicIdentity]
    ) -> dict[Place, Fetched]:
        """The reply does not say which offsets there are, so the log is asked."""
        asked = [topic for topic in topics if any(topic.topic_id == each for each, _ in places)]
        stretches = self._cluster.stretches(asked) if asked else {}
        return {
            (topic.topic_id, number): Fetched(
                batches=(),
                position=wanted[topic.topic_id, number],
                first=first,
                end=end,
                is_out_of_range=True,
            )
            for topic in asked
            for number, (first, end) in stretches.get(topic.name, {}).items()
            if (topic.topic_id, number) in places
        }

    def _fetched(self, place: Place, offset: int, end_at: int | None, reply: PartitionData) -> Fetched | None:
        code = reply.error_code
        self._check(place, code)
        if code != ErrorCode.none:
            self._leaders.pop(place, None)
            return None
        first = int(reply.log_start_offset)
        end = self._visible_end(reply)
        batches, position = visible_batches(reply.records or b"", offset, _aborted(reply), end=end_at)
        return Fetched(batches=tuple(batches), position=position, first=first, end=end)

    def _record_set(self, reply: PartitionData, offset: int) -> RecordSet:
        content = reply.records or b""
        batches, position = visible_headers(content, offset, _aborted(reply))
        return RecordSet(
            content=content, batches=tuple(batches), position=position, end=self._visible_end(reply)
        )

    def _visible_end(self, reply: PartitionData) -> int:
        return int(reply.last_stable_offset if self._only_committed else reply.high_watermark)

    def _check(self, place: Place, code: ErrorCode) -> None:
        """Raises log_unavailable, unless the partition is only absent, or has moved."""
        if code != ErrorCode.none and code not in _ABSENT and code not in _MOVED:
            action = f"give records of partition {place[1]} of the topic with id {place[0]}"
            raise log_unavailable(self._cluster.bootstrap, action, code.name)

    def _find_leaders(self, topics: Mapping[TopicIdentity, Mapping[int, int]]) -> None:
        lacking = [
            topic
            for topic, offsets in topics.items()
            if any((topic.topic_id, number) not in self._leaders for number in offsets)
        ]
        if lacking:
            self._leaders |= self._cluster.leaders(lacking)

    def _connection(self, broker: tuple[str, int]) -> BrokerConnection:
        if broker not in self._connections:
            self._connections[broker] = BrokerConnection(*broker, timeout_seconds=self._timeout)
        return self._connections[broker]


def batches_between(
    cluster: Cluster,
    topic: TopicIdentity,
    stretches: Mapping[int, tuple[int, int]],
    patience: float = PATIENCE_SECONDS,
    *,
    only_committed: bool = True,
) -> Iterator[tuple[int, Batch]]:
    """The batches of each partition from its first offset up to its second, cut off at both; partition first.

    Ends early at the end of what is visible. `patience` is how long to wait for more, in seconds. Raises
    log_unavailable.
    """
    reader = BatchReader(cluster, timeout_seconds=patience, only_committed=only_committed)
    positions = {number: first for number, (first, end) in stretches.items() if first < end}
    ends = {(topic.topic_id, number): end for number, (_, end) in stretches.items()}
    deadline = time.monotonic() + patience
    try:
        while positions:
            found = reader.fetch({topic: positions}, wait_ms=0, ends=ends)
            for number, position in list(positions.items()):
                fetched = found.get((topic.topic_id, number))
                if fetched is None:
                    continue
                end = stretches[number][1]
                yield from ((number, batch) for batch in fetched.batches)
                if fetched.is_out_of_range and position < fetched.first:
                    positions[number] = fetched.first
                elif fetched.position >= min(end, fetched.end) or fetched.is_out_of_range:
                    del positions[number]
                else:
                    positions[number] = fetched.position
                if fetched.batches:
                    deadline = time.monotonic() + patience
            if positions and time.monotonic() > deadline:
                raise log_unavailable(
                    cluster.bootstrap, f"read topic `{topic.name}`", f"nothing came for {patience:g} s"
                )
            if not any(fetched.batches for fetched in found.values()) and positions:
                time.sleep(_PAUSE_SECONDS)
    finally:
        reader.close()


def count_records(
    cluster: Cluster,
    topic: TopicIdentity,
    stretches: Mapping[int, tuple[int, int]],
    *,
    only_committed: bool = True,
) -> int:
    """The visible records between these offsets. Raises log_unavailable."""
    batches = batches_between(cluster, topic, stretches, only_committed=only_committed)
    return sum(batch.records for _, batch in batches)


def _aborted(reply: PartitionData) -> list[tuple[int, int]]:
    """First offset and producer id of the aborted transactions that reach into the reply."""
    return [(int(each.first_offset), int(each.producer_id)) for each in reply.aborted_transactions or ()]


def _request(offsets: Mapping[Place, int], wait_ms: int, *, only_committed: bool) -> FetchRequest:
    by_topic: dict[str, list[FetchPartition]] = defaultdict(list)
    for (topic_id, number), offset in offsets.items():
        by_topic[topic_id].append(
            FetchPartition(
                partition=i32(number), fetch_offset=i64(offset), partition_max_bytes=i32(_PARTITION_BYTES)
            )
        )
    return FetchRequest(
        max_wait=i32Timedelta.parse(datetime.timedelta(milliseconds=wait_ms)),
        min_bytes=i32(1),
        max_bytes=i32(_REPLY_BYTES),
        isolation_level=i8(_READ_COMMITTED if only_committed else _READ_UNCOMMITTED),
        topics=tuple(
            FetchTopic(topic_id=_uuid(topic_id), partitions=tuple(partitions))
            for topic_id, partitions in by_topic.items()
        ),
        forgotten_topics_data=(),
    )


def _uuid(topic_id: str) -> uuid.UUID:
    return uuid.UUID(bytes=base64.urlsafe_b64decode(topic_id + "=="))


def _printed(topic_id: uuid.UUID | None) -> str:
    return base64.urlsafe_b64encode((topic_id or uuid.UUID(int=0)).bytes).rstrip(b"=").decode("ascii")
