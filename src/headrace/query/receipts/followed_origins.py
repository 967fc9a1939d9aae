"""Derived topics whose origins are followed, as long as somebody asks for them.

One thread for each topic reads it by long polling from the first offset that was asked for. What lies before
that (an old event) is searched once, in a thread of a pool. Bounded: the records that an index keeps, the
topics that are followed, and how many offsets a search may read. `on_change` is called when more is known.

Never writes. Safe for several threads.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from headrace.client.batches import BatchReader
from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.query.receipts.origins import Derived, OriginIndex, Source, origins_in
from headrace.wire.errors import CorruptBatchError

_log = logging.getLogger(__name__)

MOST_RECORDS: Final = 2_000_000
MOST_TOPICS: Final = 64
# Offsets that a search for an old event reads at most: some seconds.
MOST_SEARCHED: Final = 2_000_000
_MOST_SEARCHES_KEPT: Final = 10_000
_WAIT_MS: Final = 250
_RETRY_SECONDS: Final = 0.25
_IDLE_SECONDS: Final = 120.0

# Offsets by partition.
Offsets = Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The records found so far. `is_whole`: nothing else lies between the offsets that were asked for.

    `trouble` says why that will not be known; empty if it will, or is.
    """

    found: tuple[Derived, ...]
    is_whole: bool
    trouble: str = ""


class FollowedOrigins:
    """Of all topics of one log."""

    def __init__(self, cluster: Cluster, *, on_change: Callable[[], None], patience_seconds: float) -> None:
        self._cluster = cluster
        self._on_change = on_change
        self._patience = patience_seconds
        self._lock = threading.Lock()
        self._followed: dict[str, _Followed] = {}
        self._searches: OrderedDict[tuple[str, Source], Future[tuple[Derived, ...]]] = OrderedDict()
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="search for origins")
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True
        with self._lock:
            followed, self._followed = list(self._followed.values()), {}
        for each in followed:
            each.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)

    @property
    def topics(self) -> int:
        """How many are followed."""
        return len(self._followed)

    def look(self, topic: TopicIdentity, source: Source, *, starts: Offsets, ends: Offsets) -> Looked:
        """The records of the source in the topic. `starts` and `ends` are between which offsets they must
        lie; a partition without a start begins at 0. Does not wait.
        """
        wanted = {number: starts.get(number, 0) for number in range(topic.partitions)}
        followed = self._follow(topic, wanted)
        if followed is None:
            return Looked(found=(), is_whole=False, trouble="too many topics are followed")
        found, known = followed.look(source)
        older: dict[int, tuple[int, int]] = {}
        for number, start in wanted.items():
            begun = known.begun.get(number, 0)
            end = min(begun, ends.get(number, begun))
            if start < end:
                older[number] = start, end
        is_read = all(known.reached.get(number, 0) >= end for number, end in ends.items())
        if not older or found:
            return Looked(found=found, is_whole=is_read, trouble=followed.trouble)
        if any(start < known.expired.get(number, 0) for number, (start, _) in older.items()):
            return Looked(found=(), is_whole=False, trouble=_expired(topic))
        searched = self._search(topic, source, older)
        return Looked(
            found=(*searched.found, *found),
            is_whole=searched.is_whole and is_read,
            trouble=searched.trouble or followed.trouble,
        )

    def tend(self, now: float) -> None:
        """Stop following what nobody asks for. `now` is monotonic."""
        with self._lock:
            idle = [key for key, each in self._followed.items() if each.asked < now - _IDLE_SECONDS]
            gone = [self._followed.pop(key) for key in idle]
        for each in gone:
            each.stop()

    def _follow(self, topic: TopicIdentity, begins: Offsets) -> _Followed | None:
        with self._lock:
            found = self._followed.get(topic.topic_id)
            if found is not None and found.topic.partitions < topic.partitions:
                found.add_partitions(topic)
            if found is None:
                if len(self._followed) >= MOST_TOPICS or self._is_closed:
                    return None
                found = _Followed(
                    topic,
                    begins,
                    reader=BatchReader(self._cluster, timeout_seconds=self._patience, only_committed=False),
                    on_change=self._on_change,
                )
                self._followed[topic.topic_id] = found
                found.start()
            return found

    def _search(self, topic: TopicIdentity, source: Source, within: Mapping[int, tuple[int, int]]) -> Looked:
        offsets = sum(end - start for start, end in within.values())
        key = topic.topic_id, source
        with self._lock:
            search = self._searches.get(key)
            if search is None and offsets > MOST_SEARCHED:
                return Looked(
                    found=(),
                    is_whole=False,
                    trouble=f"{offsets:,} records of topic {topic.name} would have to be read to find it",
                )
            if search is None:
                search = self._pool.submit(self._searched, topic, source, within)
                search.add_done_callback(lambda _: self._on_change())
                self._searches[key] = search
                if len(self._searches) > _MOST_SEARCHES_KEPT:
                    self._searches.popitem(last=False)
        if not search.done():
            return Looked(found=(), is_whole=False)
        error = search.exception()
        if error is not None:
            with self._lock:
                self._searches.pop(key, None)
            return Looked(found=(), is_whole=False, trouble=str(error))
        return Looked(found=search.result(), is_whole=True)

    def _searched(
        self, topic: TopicIdentity, source: Source, within: Mapping[int, tuple[int, int]]
    ) -> tuple[Derived, ...]:
        reader = BatchReader(self._cluster, timeout_seconds=self._patience, only_committed=False)
        index = OriginIndex(
            {number: start for number, (start, _) in within.items()}, most_records=MOST_SEARCHED
        )
        index.find(source)
        try:
            left = dict(index.begun)
            while left and not self._is_closed:
                read_on(reader, topic, index, left, 0)
                if index.expired:
                    raise HeadraceError("query_failed", _expired(topic))
                left = {
                    number: index.reached[number]
                    for number in left
                    if index.reached[number] < within[number][1]
                }
        finally:
            reader.close()
        return tuple(each for each in index.find(source) if each.offset < within[each.partition][1])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """From where to where an index has a topic, and before where it had expired."""

    begun: Offsets
    reached: Offsets
    expired: Offsets


class _Followed:
    """One topic and its thread."""

    def __init__(
        self, topic: TopicIdentity, begins: Offsets, *, reader: BatchReader, on_change: Callable[[], None]
    ) -> None:
        self.topic = topic
        self.asked = time.monotonic()
        self.trouble = ""
        self._reader = reader
        self._on_change = on_change
        self._lock = threading.Lock()
        self._index = OriginIndex(begins, most_records=MOST_RECORDS)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._read, name=f"origins in {topic.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def add_partitions(self, topic: TopicIdentity) -> None:
        with self._lock:
            self.topic = topic
            self._index.add_partitions(topic.partitions)

    def look(self, source: Source) -> tuple[tuple[Derived, ...], _Known]:
        with self._lock:
            self.asked = time.monotonic()
            index = self._index
            known = _Known(begun=dict(index.begun), reached=dict(index.reached), expired=dict(index.expired))
            return tuple(index.find(source)), known

    def _read(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    has_any = read_on(
                        self._reader, self.topic, self._index, self._index.reached, _WAIT_MS, lock=self._lock
                    )
                    self.trouble = ""
                except (HeadraceError, CorruptBatchError) as error:
                    self.trouble = error.message if isinstance(error, HeadraceError) else str(error)
                    has_any = False
                    self._stopping.wait(_RETRY_SECONDS)
                except Exception as error:
                    # Whoever waits would wait for ever, and nobody would know why.
                    if not self.trouble:
                        _log.error("The origins of topic %s cannot be read.", self.topic.name, exc_info=error)
                    self.trouble = f"topic {self.topic.name} cannot be read: {type(error).__name__}"
                    has_any = False
                    self._stopping.wait(_RETRY_SECONDS)
                if has_any:
                    self._on_change()
        finally:
            self._reader.close()


def _expired(topic: TopicIdentity) -> str:
    return f"records of topic {topic.name} have expired that may have told"


def read_on(
    reader: BatchReader,
    topic: TopicIdentity,
    index: OriginIndex,
    starts: Offsets,
    wait_ms: int,
    *,
    lock: threading.Lock | None = None,
) -> bool:
    """Add what follows in these partitions; whether there was anything. Raises log_unavailable and
    CorruptBatchError.
    """
    lock = lock or threading.Lock()
    with lock:
        wanted = dict(starts)
    found = reader.record_sets(topic, wanted, wait_ms=wait_ms)
    has_any = False
    for number, records in found.items():
        first = wanted[number]
        if records.position <= first and not records.is_out_of_range:
            continue
        if records.is_out_of_range and records.position < first:
            # The topic came back shorter: nothing else comes before that is filled.
            continue
        has_any = True
        if records.is_out_of_range:
            with lock:
                index.skip(number, records.position)
            continue
        origins = origins_in(records, topic_id=topic.topic_id, partition=number, first=first)
        with lock:
            index.add(number, origins, reached=records.position)
    if not found or (not has_any and any(each.is_out_of_range for each in found.values())):
        # Nobody leads the partitions at the moment, or the topic is gone.
        time.sleep(_RETRY_SECONDS)
    return has_any
