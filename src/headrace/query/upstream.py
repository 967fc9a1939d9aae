"""The statements before a table: those that write the topic that feeds it, those before these, and how many
records wait at each of them.

An answer has each record that is in the topic of its table. Records that are still on their way there,
because a statement was stopped, restarts or is late, cannot be in it: the answer says how many there may be.

Invariants: a statement that keeps up is not mentioned; a number is never too small, but may be too large
(offsets can have holes, and a statement may have read further than it has recorded). If the log does not
answer, nothing is said, since the tail of the table says that already. Blocks: call it from a thread. Safe
for several threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from headrace.client.cluster import Cluster
from headrace.core.errors import HeadraceError
from headrace.pipeline.runs.commits import Commit
from headrace.query.receipts.ways import QueryWay, Yield
from headrace.query.sources import Waiting
from headrace.query.table_snapshot import TableSnapshot, location_of
from headrace.query.tail.feeds import Feeds

# A log that did not answer is not asked for so long.
_AWAY_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a query stands. `behind` is what it says itself while it runs; `problem`, why it does not run."""

    behind: int = 0
    problem: str = ""


class Writers(Protocol):
    """All methods may be called from any thread; all may block. They raise log_unavailable."""

    def writing(self, topic: str) -> Sequence[QueryWay]:
        """The statements that write the topic of this name."""
        ...

    def commits(self, way: QueryWay) -> Sequence[Commit]:
        """What the query has recorded, the newest last."""
        ...


class Upstream:
    """Of all tables."""

    def __init__(
        self,
        cluster: Cluster,
        feeds: Feeds,
        writers: Writers,
        standing: Callable[[str], Standing],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`standing` is that of the query with an id; it raises log_unavailable."""
        self._cluster = cluster
        self._feeds = feeds
        self._writers = writers
        self._standing = standing
        self._clock = clock
        self._asks_again = 0.0

    def of(self, snapshot: TableSnapshot) -> tuple[Waiting, ...]:
        """What waits before the topic of this table. Empty if all statements there keep up."""
        if self._clock() < self._asks_again:
            return ()
        try:
            feed = self._feeds.of(location_of(snapshot))
            return () if feed is None else tuple(self._before(feed.topic))
        except HeadraceError:
            self._asks_again = self._clock() + _AWAY_SECONDS
            return ()

    def _before(self, topic: str) -> Iterator[Waiting]:
        # Statements can go round in a circle.
        seen, pending = {topic}, [topic]
        while pending:
            for way in self._writers.writing(pending.pop()):
                if way.gives is Yield.BESIDE:
                    continue
                standing = self._standing(way.query)
                reason = "it is paused" if way.is_paused else standing.problem
                if reason:
                    yield Waiting(query=way.query, topic=way.source, records=self._unread(way), reason=reason)
                elif standing.behind:
                    reason = "as of the end of its last batch"
                    yield Waiting(query=way.query, topic=way.source, records=standing.behind, reason=reason)
                if way.source not in seen:
                    seen.add(way.source)
                    pending.append(way.source)

    def _unread(self, way: QueryWay) -> int:
        topic = self._cluster.topic(way.source)
        if topic is None:
            return 0
        commits = self._writers.commits(way)
        positions = commits[-1].positions if commits else way.begins
        read: Mapping[int, int] = positions.get(topic.topic_id, {})
        ends = self._cluster.end_offsets(way.source)
        return sum(max(end - read.get(number, 0), 0) for number, end in ends.items())
