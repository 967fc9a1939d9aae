"""Topics and their newest messages, for people who look at the log.

Reads by assigning partitions near their ends: it never joins a group and never commits an offset, so looking
changes nothing. Invariants: the newest messages are those with the latest timestamps across all partitions,
newest first; reading is bounded in time and bytes and goes backwards from the end, so that a limit cuts off
the oldest part.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.client.cluster import Cluster
from headrace.client.errors import log_unavailable
from headrace.client.reading import TopicReader
from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.query.decoding import RecordDecoder
from headrace.query.partition_sizes import partition_sizes

MOST_MESSAGES: Final = 500
_FIRST_WINDOW: Final = 8
_INTERNAL_PREFIX: Final = "__"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """A partition's earliest available offset, the offset of its next record, and its size.

    The size is None if the log does not report it.
    """

    partition: int
    earliest: int
    latest: int
    size_bytes: int | None = None

    @property
    def offsets(self) -> int:
        """How many offsets it spans. No count of records, of which there may be fewer: offsets have holes,
        and counting would mean reading the partition.
        """
        return self.latest - self.earliest


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic with its id and its partitions in order."""

    name: str
    topic_id: str
    partitions: tuple[PartitionDescription, ...]

    @property
    def offsets(self) -> int:
        return sum(partition.offsets for partition in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A decoded record. `format` names what the value was read from; a truncated value is a preview."""

    partition: int
    offset: int
    timestamp_ms: int
    key: str | None
    value: object
    headers: dict[str, str]
    format: str
    size_bytes: int = 0
    truncated: bool = False


class TopicBrowser:
    """Shows topics and their messages. Thread-safe."""

    def __init__(
        self,
        bootstrap: str,
        schema_by_id: Callable[[int], str],
        *,
        time_limit_seconds: float = 5.0,
        most_bytes: int = 32 * 1024 * 1024,
    ) -> None:
        self._cluster = Cluster(bootstrap, timeout_seconds=time_limit_seconds)
        self._decoder = RecordDecoder(schema_by_id)
        self._time_limit_seconds = time_limit_seconds
        self._most_bytes = most_bytes

    def topics(self) -> list[TopicDescription]:
        """All topics except Kafka's internal ones, by name. Raises HeadraceError log_unavailable."""
        names = [name for name in self._cluster.topic_names() if not name.startswith(_INTERNAL_PREFIX)]
        return self._described(self._cluster.lookup(names).values())

    def newest(self, topic: str, limit: int) -> list[Message]:
        """The newest messages, newest first. Raises HeadraceError no_such_topic or log_unavailable."""
        if not 1 <= limit <= MOST_MESSAGES:
            raise HeadraceError(
                "bad_request", f"The limit is {limit}, but must be between 1 and {MOST_MESSAGES}."
            )
        described = self._described(self._cluster.lookup([topic]).values())
        if not described:
            raise HeadraceError(
                "no_such_topic",
                f"There is no topic `{topic}`.",
                remedy="See /topics for existing topics; a topic is created by its first event.",
            )
        tails = [
            _Tail(partition) for partition in described[0].partitions if partition.latest > partition.earliest
        ]
        reader = _TailReader(
            self._cluster.bootstrap,
            topic,
            deadline=time.monotonic() + self._time_limit_seconds,
            bytes_left=self._most_bytes,
        )
        try:
            records = reader.newest(tails, limit)
        finally:
            reader.close()
        return [self._message(record) for record in records]

    def _described(self, topics: Iterable[TopicIdentity]) -> list[TopicDescription]:
        known = sorted(topics, key=lambda topic: topic.name)
        stretches = self._cluster.stretches(known)
        sizes = partition_sizes(self._cluster.brokers(), self._time_limit_seconds) if known else {}
        return [
            TopicDescription(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    PartitionDescription(
                        partition=number,
                        earliest=earliest,
                        latest=latest,
                        size_bytes=sizes.get((topic.name, number)),
                    )
                    for number, (earliest, latest) in stretches[topic.name].items()
                ),
            )
            for topic in known
            if topic.name in stretches
        ]

    def _message(self, record: Any) -> Message:
        value = record.value()
        decoded = self._decoder.value(value)
        return Message(
            partition=record.partition(),
            offset=record.offset(),
            timestamp_ms=record.timestamp()[1],
            key=self._decoder.key(record.key()),
            value=decoded.value,
            headers={name: self._decoder.header(content) for name, content in record.headers() or ()},
            format=decoded.format,
            size_bytes=len(value or b""),
            truncated=decoded.truncated,
        )


@dataclass(slots=True)
class _Tail:
    """How far back a partition has been read: everything from offset `start` on."""

    partition: PartitionDescription
    start: int = field(init=False)
    oldest_ms: int | None = None

    def __post_init__(self) -> None:
        self.start = self.partition.latest

    def may_hold_newer(self, than_ms: int | None) -> bool:
        """Whether records further back can be among the newest."""
        if self.start <= self.partition.earliest:
            return False
        return than_ms is None or self.oldest_ms is None or self.oldest_ms > than_ms


class _TailReader:
    """Reads partitions backwards from their ends, window by window, until it has the newest records."""

    def __init__(self, bootstrap: str, topic: str, *, deadline: float, bytes_left: int) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._deadline = deadline
        self._bytes_left = bytes_left
        # The end of a window is known in advance: waiting for more only costs time.
        self._reader = TopicReader(bootstrap, topic, fetch_wait_ms=10)

    def close(self) -> None:
        self._reader.close()

    def newest(self, tails: list[_Tail], limit: int) -> list[Any]:
        records: list[Any] = []
        window = min(limit, _FIRST_WINDOW)
        pending = tails
        while pending and window > 0 and time.monotonic() < self._deadline:
            bytes_before = self._bytes_left
            read = self._read_windows(pending, window)
            records += read
            records.sort(key=lambda record: (record.timestamp()[1], record.offset()), reverse=True)
            del records[limit:]
            threshold = records[-1].timestamp()[1] if len(records) == limit else None
            pending = [tail for tail in tails if tail.may_hold_newer(threshold)]
            # A window is read to its end, so it must fit into the remaining bytes, judging by the size of
            # these records.
            average_bytes = max(1, (bytes_before - self._bytes_left) // max(1, len(read)))
            window = min(4 * window, max(0, self._bytes_left) // (average_bytes * max(1, len(pending))))
        return records

    def _read_windows(self, tails: list[_Tail], length: int) -> list[Any]:
        """The records of the next window of each partition; the tails then start at that window."""
        ends = {tail.partition.partition: tail.start for tail in tails}
        for tail in tails:
            tail.start = max(tail.partition.earliest, tail.start - length)
        self._reader.read_from({tail.partition.partition: tail.start for tail in tails})
        by_partition = {tail.partition.partition: tail for tail in tails}
        read: list[Any] = []
        while not self._reader.has_read(ends) and (left := self._deadline - time.monotonic()) > 0:
            for record in self._reader.poll(min(0.2, left)):
                partition, timestamp_ms = record.partition() or 0, record.timestamp()[1]
                if (record.offset() or 0) < ends[partition]:
                    self._bytes_left -= len(record)
                    tail = by_partition[partition]
                    tail.oldest_ms = min(tail.oldest_ms or timestamp_ms, timestamp_ms)
                    read.append(record)
            if self._reader.trouble:
                raise log_unavailable(self._bootstrap, f"read topic `{self._topic}`", self._reader.trouble)
        return read
