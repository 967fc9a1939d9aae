"""The tail of one table at whatever versions are asked for.

Which line serves a version depends on what its rows would be: the incarnation of the topic, the connector,
the columns of the table, and which rows must be looked up. A line serves all versions that agree in these and
begin at or behind its beginning. Otherwise another one begins where the version does: after a restore, a new
column, a topic that was recreated or came back shorter. After the log was disturbed, a line counts only if
the topic still has what the line has read. Safe for several threads.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from headrace.client.batches import BatchReader
from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.lake.location import Location
from headrace.lake.positions import Position, Source
from headrace.lake.read_columns import ReadColumns
from headrace.lake.resuming import history, shorter_partitions
from headrace.query.sources import TailView
from headrace.query.tail.beginnings import Beginning, Beginnings
from headrace.query.tail.chunk_files import ChunkFiles
from headrace.query.tail.decoding import BatchDecoder
from headrace.query.tail.doubt import KnownRows
from headrace.query.tail.feeds import Feeds, TableFeed
from headrace.query.tail.folder_policy import FolderPolicy
from headrace.query.tail.line import TailLine
from headrace.query.tail.row_shape import RowShape, row_shape
from headrace.query.tail.versions import CommitsUpTo, TableChangedError, TableVersions

# A line can become useless between being chosen and being read.
_MOST_ATTEMPTS: Final = 3
# A log that did not answer is not asked for so long.
_AWAY_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """What the rows of a line depend on. `repairs` of the table count if rows are looked up in it."""

    topic_id: str
    feed: TableFeed
    shape: RowShape
    bounds: frozenset[tuple[Source, Position]]
    repairs: int


@dataclass(slots=True, kw_only=True)
class _Line:
    """`version` is the one that it was begun for, whose files have the rows that are looked up. After
    `checked` disturbances of the log, the topic still had what the line has read.
    """

    kind: _Kind
    version: int
    line: TailLine
    checked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _LogNow:
    """The topic, and where its visible records end. `away` says why that may be out of date."""

    topic: TopicIdentity
    ends: Mapping[int, int]
    away: str = ""


class TableTail:
    """Of the table with this id at a location."""

    def __init__(
        self,
        location: Location,
        table_id: str,
        *,
        feeds: Feeds,
        cluster: Cluster,
        files: ChunkFiles,
        open_reader: Callable[[], BatchReader],
        keep_seconds: float,
    ) -> None:
        self._feeds = feeds
        self._cluster = cluster
        self._files = files
        self._open_reader = open_reader
        self._keep_seconds = keep_seconds
        self._versions = TableVersions(location, table_id)
        self._beginnings = Beginnings(self._versions, feeds, cluster)
        self._lock = threading.Lock()
        self._lines: list[_Line] = []
        self._policies: dict[int, FolderPolicy] = {}
        self._log: _LogNow | None = None
        self._asks_again = 0.0
        self._newest = -1
        self._repairs = 0
        self._is_closed = False
        self._viewing = 0
        self._asked = time.monotonic()

    def idle_seconds(self, now: float) -> float:
        """Since somebody asked."""
        with self._lock:
            return 0.0 if self._viewing else now - self._asked

    def view(self, version: int, feed: TableFeed, *, deadline: float) -> TailView | None:
        """None if it was closed before."""
        with self._lock:
            if self._is_closed:
                return None
            self._viewing += 1
        try:
            return self._at(version, feed, deadline)
        finally:
            with self._lock:
                self._viewing -= 1
                self._asked = time.monotonic()

    def _at(self, version: int, feed: TableFeed, deadline: float) -> TailView:
        now = self._log_now(feed.topic)
        if isinstance(now, str):
            return _nothing(now)
        try:
            beginning = self._beginnings.at(version, feed, now.topic, is_away=bool(now.away))
            if beginning is None:
                return _nothing(f"connector {feed.sink.name} has not said yet where the table begins")
            for _ in range(_MOST_ATTEMPTS):
                found = self._view(version, feed, beginning, now, deadline)
                if found is not None:
                    return found
        except (TableChangedError, OSError) as error:
            return _nothing(f"the table cannot be read: {error}")
        except HeadraceError as error:
            return _nothing(error.message)
        return _without_rows(beginning, now, "the topic changed while it was read")

    def tend(self, now: float, *, idle_seconds: float) -> None:
        """Evict what nobody needs, and stop the lines that nobody asks for."""
        with self._lock:
            idle = [
                each
                for each in self._lines
                if each.line.is_broken or each.line.idle_seconds(now) > idle_seconds
            ]
            self._lines = [each for each in self._lines if each not in idle]
            left = list(self._lines)
        for each in idle:
            each.line.stop()
        for each in left:
            each.line.evict(now)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            lines, self._lines = self._lines, []
        for each in lines:
            each.line.stop()

    def _view(
        self, version: int, feed: TableFeed, beginning: Beginning, now: _LogNow, deadline: float
    ) -> TailView | None:
        repairs = self._versions.repairs()
        at = self._versions.at(version)
        shape = row_shape(
            feed.sink,
            at.columns,
            at.partition_columns,
            topic=feed.topic,
            reads=self._reads(version) if feed.sink.changes_records else None,
        )
        why = feed.problem or (shape if isinstance(shape, str) else "")
        if why or isinstance(shape, str):
            return _without_rows(beginning, now, why)
        policy = self._policies.setdefault(
            feed.new_partitions_per_hour, FolderPolicy(feed.new_partitions_per_hour)
        )
        policy.learn(at.partitions)
        kind = _Kind(
            topic_id=beginning.topic_id,
            feed=feed,
            shape=shape,
            bounds=frozenset(beginning.bounds.items()),
            repairs=repairs if beginning.bounds else 0,
        )
        with self._lock:
            if repairs != self._repairs:
                # Versions are counted from an older one on again.
                self._repairs, self._newest = repairs, -1
            if not now.away:
                self._check_lines(now.topic)
            line = self._line_for(kind, version, beginning.starts)
            if line is None:
                line = self._begin(kind, version, beginning, now.topic, policy)
                disturbances = self._beginnings.disturbances
                self._lines.append(_Line(kind=kind, version=version, line=line, checked=disturbances))
                line.start()
            is_newest = version >= self._newest
            self._newest = max(self._newest, version)
        found = line.view(beginning.starts, now.ends, deadline=deadline, newest=is_newest)
        if found is None:
            return None
        reason = "; ".join(filter(None, [now.away, found.reason]))
        return dataclasses.replace(found, reason=reason, unknown=shape.derived.unknown)

    def _reads(self, version: int) -> ReadColumns | None:
        """As what records are read, by the newest commit of ours at that version."""
        said = next(history(CommitsUpTo(self._versions, version)), None)
        return None if said is None else said.progress.reads

    def _check_lines(self, topic: TopicIdentity) -> None:
        """After the log was disturbed, break the lines that have read what it has lost."""
        disturbances = self._beginnings.disturbances
        for each in self._lines:
            if each.checked == disturbances or each.kind.topic_id != topic.topic_id:
                continue
            try:
                lost = shorter_partitions(self._feeds.topic_now(topic), each.line.read_to())
            except HeadraceError:
                # It is still away, and nothing new comes from it.
                return
            if lost:
                each.line.break_off()
            each.checked = disturbances

    def _line_for(self, kind: _Kind, version: int, starts: Mapping[int, int]) -> TailLine | None:
        """The one that has most of it."""
        best: tuple[int, TailLine] | None = None
        for each in self._lines:
            if each.line.is_broken or each.kind != kind:
                continue
            if kind.bounds and not self._versions.keeps_rows(each.version, version):
                continue
            reached = each.line.reaches(starts)
            if reached is not None and (best is None or reached > best[0]):
                best = reached, each.line
        return None if best is None else best[1]

    def _begin(
        self, kind: _Kind, version: int, beginning: Beginning, topic: TopicIdentity, policy: FolderPolicy
    ) -> TailLine:
        files = self._versions.files(version) if beginning.bounds else ()
        known = KnownRows(self._versions.location, files, beginning.bounds)
        decoder = BatchDecoder(
            kind.shape,
            topic_id=topic.topic_id,
            schema_by_id=kind.feed.schema_by_id,
            without_known=known.without_known,
            refused_folders=lambda partitions: policy.refused(partitions, time.time()),
        )
        return TailLine(
            topic,
            beginning.starts,
            decoder=decoder,
            files=self._files,
            open_reader=self._open_reader,
            on_disturbed=self._beginnings.disturb,
            keep_seconds=self._keep_seconds,
        )

    def _log_now(self, name: str) -> _LogNow | str:
        """What the log says now, or else what it said last; a text if nothing is known."""
        before = self._log
        if before is not None and before.topic.name == name and time.monotonic() < self._asks_again:
            return before
        try:
            topic = self._cluster.topic(name)
            if topic is None:
                return f"topic {name} does not exist"
            ends = {number: end for (_, number), end in self._cluster.stable([topic]).items()}
        except HeadraceError as error:
            self._beginnings.disturb()
            if before is None or before.topic.name != name:
                return error.message
            # Whoever asks next need not wait for it, too.
            self._asks_again = time.monotonic() + _AWAY_SECONDS
            self._log = _LogNow(topic=before.topic, ends=before.ends, away=error.message)
            return self._log
        known = before.ends if before is not None and before.topic.topic_id == topic.topic_id else {}
        if any(ends.get(number, 0) < end for number, end in known.items()):
            # A partition that ends before where it has ended lost something.
            self._beginnings.disturb()
        self._log = _LogNow(topic=topic, ends=ends)
        return self._log


def _nothing(reason: str) -> TailView:
    return TailView(chunks=(), starts={}, reached={}, reason=reason)


def _without_rows(beginning: Beginning, now: _LogNow, reason: str) -> TailView:
    starts = beginning.starts
    behind = sum(max(now.ends.get(number, 0) - start, 0) for number, start in starts.items())
    return TailView(
        chunks=(),
        starts=dict(starts),
        reached=dict(starts),
        behind=behind,
        reason="; ".join(filter(None, [now.away, reason])) if behind or now.away else "",
    )
