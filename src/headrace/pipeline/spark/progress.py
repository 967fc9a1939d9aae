"""How far running queries are, how far behind, and whether they get their turn.

`look` is called repeatedly by the loop that keeps the queries, and looks about once a second: it asks Spark
for the end of each query's last batch, and the log for the ends of their sources. What it finds goes into the
query's status, at most every few seconds.

A query is *behind* if its sources end beyond its position: by records, at most (offsets have holes), and by
time, since the sources were first seen to end there. It is *starved* if records wait and no batch has ended
for `STARVED_SECONDS`, although it is not at work on one. A batch of a real-time query ends only after
`real_time_batch_seconds`, which are allowed in addition. Never starts or stops a query.
"""

from __future__ import annotations

import bisect
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from pyspark.sql.streaming.query import StreamingQuery

from headrace.client.cluster import Cluster
from headrace.client.reading import PartitionReader
from headrace.client.topics import Partition, TopicIdentity
from headrace.pipeline.catalogue.status import QueryProgress
from headrace.pipeline.rules.modes import REAL_TIME
from headrace.pipeline.runs.commits import offset_in
from headrace.pipeline.spark.running_query import RunningQuery

logger = logging.getLogger(__name__)

STARVED_SECONDS: Final = 30.0
# A batch that is at work may take long, after a pause for instance. One that takes so long is reported.
LONG_BATCH_SECONDS: Final = 600.0
_LOOK_SECONDS: Final = 1.0
_WRITE_SECONDS: Final = 5.0
_PEEK_SECONDS: Final = 2.0
_REMEMBERED_SECONDS: Final = 3600.0

Positions = Mapping[str, Mapping[int, int]]
ProgressListener = Callable[[str, QueryProgress], None]


class Kept(Protocol):
    """The part of a keeper that is watched."""

    @property
    def name(self) -> str: ...

    @property
    def source_topics(self) -> tuple[str, ...]: ...

    @property
    def running(self) -> RunningQuery | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEnd:
    """The newest batch of a query that ended, and where its sources are then."""

    batch: int
    positions: Positions


def last_batch(handle: StreamingQuery, known: BatchEnd | None) -> BatchEnd | None:
    """The newest batch that ended; `known` if it is still that one."""
    # PySpark's own `lastProgress` builds and parses a page of JSON each time.
    progress = handle._jsq.lastProgress()
    if progress is None:
        return None
    batch = int(progress.batchId())
    if known is not None and known.batch == batch:
        return known
    positions: dict[str, dict[int, int]] = {}
    for source in progress.sources():
        text = source.endOffset()
        for topic, offsets in (json.loads(text) if text else {}).items():
            # Another source than Kafka's, of which there is none but in tests, has offsets of its own kind.
            for partition, offset in offsets.items() if isinstance(offsets, dict) else ():
                # A topic that is read twice is read up to the lower of the two.
                of_topic = positions.setdefault(topic, {})
                of_topic[int(partition)] = min(int(offset), of_topic.get(int(partition), int(offset)))
    return BatchEnd(batch=batch, positions=positions)


def is_at_work(handle: StreamingQuery) -> bool:
    """Whether a task of the query runs at this moment."""
    tracker = handle._jsq.sparkSession().sparkContext().statusTracker()
    # Spark's group of a query's jobs is its run; of ended jobs it knows some, too.
    for job in set(tracker.getJobIdsForGroup(handle.runId)) & set(tracker.getActiveJobIds()):
        info = tracker.getJobInfo(job)
        for stage in info.get().stageIds() if info.isDefined() else ():
            found = tracker.getStageInfo(stage)
            if found.isDefined() and found.get().numActiveTasks() > 0:
                return True
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """So many offsets, at most so many records, wait at these places, the first of them since `since`
    (monotonic; None if none waits).
    """

    records: int = 0
    since: float | None = None
    places: Mapping[Partition, int] = field(default_factory=dict)


class Ends:
    """Where topics ended, and when that was first seen. `now` is monotonic."""

    def __init__(self) -> None:
        self._by_topic: dict[TopicIdentity, list[tuple[float, dict[int, int]]]] = {}

    def note(self, ends: Mapping[TopicIdentity, dict[int, int]], now: float) -> None:
        self._by_topic = {topic: self._by_topic.get(topic, []) for topic in ends}
        for topic, found in ends.items():
            history = self._by_topic[topic]
            if not history or history[-1][1] != found:
                history.append((now, found))
            while len(history) > 1 and history[1][0] < now - _REMEMBERED_SECONDS:
                history.pop(0)

    def newest(self, topic: TopicIdentity) -> dict[int, int]:
        history = self._by_topic.get(topic, [])
        return history[-1][1] if history else {}

    def behind(self, topic: TopicIdentity, positions: Mapping[int, int]) -> Behind:
        """What lies between the positions and the end. A partition without a position is left out."""
        history = self._by_topic.get(topic, [])
        places = {
            (topic.name, partition): positions[partition]
            for partition, end in self.newest(topic).items()
            if end > positions.get(partition, end)
        }
        return Behind(
            records=sum(history[-1][1][partition] - position for (_, partition), position in places.items()),
            since=min((_passed(history, *place) for place in _by_partition(places)), default=None),
            places=places,
        )


def _by_partition(places: Mapping[Partition, int]) -> list[tuple[int, int]]:
    return [(partition, position) for (_, partition), position in places.items()]


def _passed(history: list[tuple[float, dict[int, int]]], partition: int, position: int) -> float:
    """When the partition was first seen to end behind the position."""
    return history[bisect.bisect_right(history, position, key=lambda each: each[1].get(partition, 0))][0]


@dataclass(slots=True)
class _Watched:
    """What is known of one run of a query."""

    run: RunningQuery
    advanced: float
    advanced_at: int
    end: BatchEnd | None = None
    # Before its first batch: where it began to read.
    began: dict[str, dict[int, int]] = field(default_factory=dict)
    # As of the end of its last batch, or of its start.
    behind_then: Behind = field(default_factory=Behind)
    starved: str = ""
    peeked: float = float("-inf")
    # What it was behind by when there were no records there, only a hole.
    hole: tuple[int, Mapping[Partition, int]] | None = None
    written: QueryProgress | None = None
    written_at: float = 0.0

    @property
    def positions(self) -> Positions:
        return self.end.positions if self.end is not None else self.began


class ProgressWatch:
    """Watches all queries of a pipeline process."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        on_progress: ProgressListener,
        wall_clock_ms: Callable[[], int],
        real_time_batch_seconds: float,
        has_records: Callable[[Mapping[Partition, int]], bool] | None = None,
        at_work: Callable[[StreamingQuery], bool] = is_at_work,
    ) -> None:
        self._cluster = cluster
        self._on_progress = on_progress
        self._wall_clock_ms = wall_clock_ms
        self._real_time_seconds = real_time_batch_seconds
        self._has_records = has_records or self._peek
        self._at_work = at_work
        self._ends = Ends()
        self._watched: dict[str, _Watched] = {}
        self._looked = float("-inf")

    def look(self, keepers: Iterable[Kept], topics: Mapping[str, TopicIdentity], now: float) -> None:
        """`topics` are those of the queries that exist. Raises log_unavailable."""
        if now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        running = {keeper.name: (keeper, run) for keeper in keepers if (run := keeper.running) is not None}
        self._watched = {name: each for name, each in self._watched.items() if name in running}
        sources = [
            topics[name]
            for name in sorted({name for keeper, _ in running.values() for name in keeper.source_topics})
            if name in topics
        ]
        self._note_ends(sources, now)
        for name, (keeper, run) in running.items():
            read = [topics[topic] for topic in keeper.source_topics if topic in topics]
            self._look_at(name, run, read, others=len(running) - 1, now=now)

    def _note_ends(self, sources: list[TopicIdentity], now: float) -> None:
        latest = self._cluster.latest(sources)
        by_name: dict[str, dict[int, int]] = {}
        for (topic, partition), end in latest.items():
            by_name.setdefault(topic, {})[partition] = end
        self._ends.note({topic: by_name.get(topic.name, {}) for topic in sources}, now)

    def _look_at(
        self, name: str, run: RunningQuery, sources: list[TopicIdentity], *, others: int, now: float
    ) -> None:
        watched = self._watched.get(name)
        is_new = watched is None or watched.run is not run
        if watched is None or is_new:
            watched = _Watched(run=run, advanced=now, advanced_at=self._wall_clock_ms())
            watched.began = self._began(run, sources)
            self._watched[name] = watched
        end = last_batch(run.handle, watched.end)
        advanced = end is not None and end is not watched.end
        if advanced:
            watched.end = end
            watched.advanced, watched.advanced_at = now, self._wall_clock_ms()
        behind = self._behind(watched, sources)
        if advanced or is_new:
            watched.behind_then = behind
        watched.starved = self._starved(watched, behind, others, now)
        # Within a real-time batch nobody knows how far it is: the end of the last one is what is known.
        in_flight = run.mode == REAL_TIME and not watched.starved
        shown, seen_at = (watched.behind_then, watched.advanced) if in_flight else (behind, now)
        if watched.hole == (behind.records, behind.places):
            shown = Behind()
        self._tell(
            name,
            watched,
            QueryProgress(
                positions={topic: dict(offsets) for topic, offsets in watched.positions.items()},
                behind_records=shown.records,
                behind_ms=int((seen_at - shown.since) * 1000) if shown.since is not None else 0,
                advanced_at=watched.advanced_at,
                starved=watched.starved,
            ),
            now,
        )

    def _began(self, run: RunningQuery, sources: list[TopicIdentity]) -> dict[str, dict[int, int]]:
        """Where it began to read those of its sources that it reads as streams."""
        read = [topic for topic in sources if topic.topic_id in run.began]
        began: dict[str, dict[int, int]] = {topic.name: {} for topic in read}
        ids = {topic.name: topic.topic_id for topic in read}
        for (topic, partition), first in self._cluster.earliest(read).items() if read else ():
            # What has expired does not wait.
            began[topic][partition] = max(first, offset_in(run.began, ids[topic], partition) or 0)
        return began

    def _behind(self, watched: _Watched, sources: list[TopicIdentity]) -> Behind:
        parts = [
            self._ends.behind(topic, watched.positions[topic.name])
            for topic in sources
            if topic.name in watched.positions
        ]
        return Behind(
            records=sum(part.records for part in parts),
            since=min((part.since for part in parts if part.since is not None), default=None),
            places={place: offset for part in parts for place, offset in part.places.items()},
        )

    def _starved(self, watched: _Watched, behind: Behind, others: int, now: float) -> str:
        patience = STARVED_SECONDS + (self._real_time_seconds if watched.run.mode == REAL_TIME else 0.0)
        waited = now - max(behind.since, watched.advanced) if behind.since is not None else 0.0
        if waited <= patience:
            return ""
        # Asking costs something, so not at every look.
        if now - watched.peeked < patience / 3:
            return watched.starved
        watched.peeked = now
        if not self._has_records(behind.places):
            watched.hole = (behind.records, behind.places)
            return ""
        if not self._at_work(watched.run.handle):
            return f"no batch has ended for {waited:.0f} s although records wait; {others} other queries run"
        return f"its batch has been running for {waited:.0f} s" if waited > LONG_BATCH_SECONDS else ""

    def _tell(self, name: str, watched: _Watched, progress: QueryProgress, now: float) -> None:
        before = watched.written
        if progress == before:
            return
        flipped = before is not None and bool(before.starved) != bool(progress.starved)
        if before is None or flipped or now - watched.written_at >= _WRITE_SECONDS:
            if flipped:
                logger.warning("Query %s %s", name, progress.starved or "gets its turn again")
            watched.written, watched.written_at = progress, now
            self._on_progress(name, progress)

    def _peek(self, places: Mapping[Partition, int]) -> bool:
        """Whether there is a record at or behind one of these places."""
        reader = PartitionReader(self._cluster.bootstrap)
        try:
            reader.assign(dict(places))
            deadline = time.monotonic() + _PEEK_SECONDS
            while (left := deadline - time.monotonic()) > 0:
                if any(record.error() is None for record in reader.poll(left)):
                    return True
            return False
        finally:
            reader.close()
