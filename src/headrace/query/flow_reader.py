"""Reads the Avro topic live, and the newest status of each query, in its own thread.

Owns the consumer and the latency histograms. Invariants: partitions are assigned, never subscribed to, and
nothing is committed; what was in the Avro topic before the reader started is not read; of the status topic
only the newest record of each query counts until the reader has reached its end; each topic is followed by
its id, so one that is deleted and recreated is read from its beginning; a latency is measured only in a
partition that has been read to its end, and within a millisecond of the record's arrival. Never counts
records (`record_counting.py` does) and never asks the log about topics: `follow` tells it which exist.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from headrace.client.errors import KafkaError, is_absent, is_end
from headrace.client.reading import BEGINNING, END, PartitionReader
from headrace.client.topics import Partition, TopicIdentity
from headrace.core.histogram import Histogram, Percentiles, SlidingHistogram
from headrace.pipeline.catalogue.status import QueryStatus
from headrace.query.latencies import posted_at_ms, weighted_quantiles
from headrace.query.topic_follower import TopicFollower

WINDOW_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.5
# Up to this many waiting records are a burst; more are our own lag.
_BURST: Final = 1000
# The broker answers at the first byte; until then a request every half second costs almost nothing.
_FETCH_WAIT_MS: Final = 500
_PAUSE_SECONDS: Final = 1.0

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What has been read so far."""

    avro_latency: Percentiles
    overall_avro_latency: Percentiles
    latency: Percentiles
    overall_latency: Percentiles
    queries: tuple[QueryStatus, ...]
    problem: str


@dataclass(slots=True)
class _Followed:
    """A topic with a given id: where its partitions are read from first, the next offset of each, and which
    partitions are read live.
    """

    identity: TopicIdentity
    first: int
    next_offsets: dict[int, int] = field(default_factory=dict)
    live: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Latencies:
    """All latencies, and those of the last window that had any."""

    overall: Histogram = field(default_factory=Histogram)
    recent: SlidingHistogram = field(default_factory=lambda: SlidingHistogram(window_seconds=WINDOW_SECONDS))
    newest: float = 0.0

    def add(self, value_ms: float, *, at: float, count: int = 1) -> None:
        self.overall.add(value_ms, count)
        self.recent.add(value_ms, now=at, count=count)
        self.newest = max(self.newest, at)

    def recent_percentiles(self) -> Percentiles:
        return self.recent.percentiles(now=self.newest)


class FlowReader(TopicFollower):
    """Reads the topics given to `follow`."""

    def __init__(self, bootstrap: str, *, avro: str, status: str) -> None:
        super().__init__("flow-reader")
        self._bootstrap = bootstrap
        self._avro = avro
        self._status = status
        # Guarded by the lock, as snapshots are made from them; only the thread uses the rest.
        self._avro_latencies = _Latencies()
        self._latencies = _Latencies()
        self._queries: dict[bytes, QueryStatus] = {}
        # The newest record of each key, until the status topic has been read to its end.
        self._unread_statuses: dict[bytes, bytes] = {}
        self._followed: dict[str, _Followed] = {}
        self._assigned: dict[str, TopicIdentity] | None = None
        self._has_started = False
        self._connection_lost = False

    def reading(self) -> Reading:
        with self._lock:
            return Reading(
                avro_latency=self._avro_latencies.recent_percentiles(),
                overall_avro_latency=self._avro_latencies.overall.percentiles(),
                latency=self._latencies.recent_percentiles(),
                overall_latency=self._latencies.overall.percentiles(),
                queries=tuple(sorted(self._queries.values(), key=lambda status: status.query)),
                problem=self._problem,
            )

    def _work(self) -> None:
        while not self._stopping.is_set():
            reader = PartitionReader(self._bootstrap, fetch_wait_ms=_FETCH_WAIT_MS, on_error=self._on_error)
            self._assigned = None
            try:
                while not self._stopping.is_set() and self._assign(reader):
                    self._read(reader)
            except Exception as error:
                # The thread must survive whatever a library raises; it continues with a new consumer from
                # the same offsets.
                _logger.exception("Reading the derived topics failed; retrying.")
                with self._lock:
                    self._problem = f"The derived topics could not be read: {error}."
                self._stopping.wait(_PAUSE_SECONDS)
            finally:
                reader.close()

    def _assign(self, reader: PartitionReader) -> bool:
        """Update the assignment to what is wanted. False if that takes a new reader."""
        with self._lock:
            wanted = self._wanted
        if wanted is None or wanted == self._assigned:
            return True
        if any(
            name in self._followed and self._followed[name].identity.topic_id != topic.topic_id
            for name, topic in wanted.items()
        ):
            # A consumer caches what it knows about a topic by name: a new one starts clean.
            self._start_over(wanted)
            return False
        starts: dict[Partition, int] = {}
        for name, topic in wanted.items():
            # A topic that comes later is new: all of its records are.
            first = END if name == self._avro and not self._has_started else BEGINNING
            followed = self._followed.setdefault(name, _Followed(identity=topic, first=first))
            followed.identity = topic
            followed.live.clear()
            starts |= {place: followed.next_offsets.get(place[1], followed.first) for place in topic.places}
        self._has_started = True
        reader.assign(starts)
        self._assigned = dict(wanted)
        with self._lock:
            self._problem = ""
        return True

    def _start_over(self, wanted: Mapping[str, TopicIdentity]) -> None:
        for name, topic in wanted.items():
            followed = self._followed.get(name)
            if followed is None or followed.identity.topic_id == topic.topic_id:
                continue
            _logger.info("The topic %s was recreated and is read from its beginning.", name)
            self._followed[name] = _Followed(identity=topic, first=BEGINNING)
            if name == self._status:
                with self._lock:
                    self._queries = {}
                    self._unread_statuses = {}
                    self._latencies = _Latencies()

    def _read(self, reader: PartitionReader) -> None:
        records: list[Any] = reader.poll(_POLL_SECONDS)
        arrived = time.time()
        touched: set[Partition] = set()
        with self._lock:
            for record in records:
                error = record.error()
                topic, partition = record.topic(), record.partition()
                if error is not None:
                    self._take_error(error, topic, partition)
                    continue
                self._connection_lost = False
                followed = self._followed[topic]
                # Advance first: a record that cannot be processed is skipped, not read over and over.
                followed.next_offsets[partition] = record.offset() + 1
                touched.add((topic, partition))
                if topic == self._status:
                    self._take_status(record.key() or b"", record.value(), live=bool(followed.live))
                elif partition in followed.live:
                    self._take_derived(record, arrived)
        for place in touched:
            self._note_end(reader, place)
        if (status := self._followed.get(self._status)) is not None and status.live:
            with self._lock:
                self._take_unread_statuses()

    def _take_derived(self, record: Any, arrived: float) -> None:
        posted = posted_at_ms(record.headers() or ())
        if posted is not None:
            self._avro_latencies.add(arrived * 1000 - posted, at=arrived)

    def _take_status(self, key: bytes, value: bytes | None, *, live: bool) -> None:
        if value is None:
            self._queries.pop(key, None)
            self._unread_statuses.pop(key, None)
        elif live:
            self._take_unread_statuses()
            self._read_status(key, value)
        else:
            self._unread_statuses[key] = value

    def _take_unread_statuses(self) -> None:
        unread, self._unread_statuses = self._unread_statuses, {}
        for key, value in unread.items():
            self._read_status(key, value)

    def _read_status(self, key: bytes, value: bytes) -> None:
        try:
            status = msgspec.json.decode(value, type=QueryStatus)
        except msgspec.DecodeError as error:
            _logger.warning("A record of %s is not a status: %s", self._status, error)
            return
        self._queries[key] = status
        for latency_ms, count in weighted_quantiles(status.latency_quantiles_ms, status.rows):
            self._latencies.add(latency_ms, at=status.at / 1000, count=count)

    def _take_error(self, error: KafkaError, topic: str, partition: int) -> None:
        if is_end(error):
            self._followed[topic].live.add(partition)
        elif not is_absent(error):  # else it was deleted, and the next survey says so
            _logger.warning("The topic %s cannot be read: %s", topic, error.str())
            self._problem = f"The topic {topic} cannot be read: {error.str()}."

    def _note_end(self, reader: PartitionReader, place: Partition) -> None:
        """A steady stream never reports an end of partition, so the last fetch's high-water mark is used too.

        A few waiting records are a burst, which counts as latency; more than a batch is our own lag.
        """
        topic, partition = place
        followed = self._followed[topic]
        behind = reader.known_end(place) - followed.next_offsets[partition]
        if behind <= 0:
            followed.live.add(partition)
        elif behind > _BURST:
            followed.live.discard(partition)

    def _on_error(self, error: KafkaError) -> None:
        """Called from our thread's poll when a connection is lost; librdkafka reconnects by itself."""
        if not self._connection_lost:
            # Once per loss: the client retries many times a second.
            _logger.info("The connection to the log was lost: %s", error.str())
        self._connection_lost = True
        # Records read after an interruption may have been waiting: their age says nothing about latency.
        for followed in self._followed.values():
            followed.live.clear()
