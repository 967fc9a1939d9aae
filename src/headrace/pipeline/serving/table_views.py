"""The gateway's own view of tables: the newest record of each key, from the table's topic.

Each view follows its topic in its own thread. Invariant: an answer includes every record that was in the
topic when the request came. `newest_records.py` says which record of a key is the newest. A view belongs to a
topic id and a number of partitions: a topic that was recreated, or has gained partitions, gets a new view.
Views that are not used for a while are closed.

Never writes. After a restart views read their topics again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from headrace.client.cluster import Cluster
from headrace.client.errors import log_late
from headrace.client.followed import FollowedTopic
from headrace.client.reading import Record
from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.catalogue import Source
from headrace.pipeline.formats import Schemas
from headrace.pipeline.serving.newest_records import (
    HEADERS,
    WRITTEN,
    KeptRecord,
    NewestRecords,
    Row,
    must_keep_deleted,
    rows_of,
    window_bytes_of,
)

__all__ = ["HEADERS", "WRITTEN", "TableView", "TableViews", "row_position"]

_IDLE_SECONDS: Final = 600.0


class _Wanted(NamedTuple):
    """Which view answers a request."""

    topic: str
    topic_id: str
    partitions: int
    window_bytes: int
    keeps_deleted: bool


class TableView:
    """The view of one topic. `records` may be called from any thread."""

    def __init__(self, cluster: Cluster, wanted: _Wanted) -> None:
        self._newest = NewestRecords(window_bytes=wanted.window_bytes, keeps_deleted=wanted.keeps_deleted)
        self._followed = FollowedTopic(
            cluster.bootstrap, wanted.topic, self._take, partitions=wanted.partitions
        )
        self.last_asked = time.monotonic()
        self._followed.start()

    def wait(self, ends: dict[int, int], timeout: float) -> bool:
        """Wait until each partition was read up to the given end."""
        return self._followed.wait_until_read(ends, timeout)

    def records(self, key: bytes | None = None) -> list[KeptRecord]:
        """As `NewestRecords.records`."""
        with self._followed.progress:
            return self._newest.records(key)

    def close(self) -> None:
        self._followed.stop()

    def _take(self, record: Record) -> None:
        self._newest.take(record.key(), record.value(), row_position(record))


def row_position(record: Record) -> Row:
    """The position of a record, its timestamp and its headers."""
    return {
        WRITTEN: record.timestamp()[1],
        "ROWPARTITION": record.partition(),
        "ROWOFFSET": record.offset(),
        HEADERS: record.headers() or [],
    }


class TableViews:
    """All views of a gateway."""

    def __init__(self, cluster: Cluster, schemas: Schemas, *, timeout: float = 15.0) -> None:
        self._cluster = cluster
        self._schemas = schemas
        self._timeout = timeout
        self._views: dict[_Wanted, TableView] = {}
        self._lock = threading.Lock()

    def rows(self, source: Source, key: bytes | None = None) -> Iterator[Row]:
        """The current rows of a table, or those of one key (without its window). Raises HeadraceError."""
        ends = self._cluster.end_offsets(source.topic)
        view = self._current(source, len(ends))
        if not view.wait(ends, self._timeout):
            raise log_late(self._cluster.bootstrap, f"give all rows of {source.name}", self._timeout)
        yield from rows_of(view.records(key), source, self._schemas)

    def _current(self, source: Source, partitions: int) -> TableView:
        identity = self._cluster.topic(source.topic)
        if identity is None:
            raise HeadraceError("no_such_topic", f"The topic {source.topic} of {source.name} does not exist.")
        wanted = _Wanted(
            source.topic,
            identity.topic_id,
            partitions,
            window_bytes_of(source),
            must_keep_deleted(source, partitions),
        )
        with self._lock:
            now = time.monotonic()
            outdated = [
                place
                for place, view in self._views.items()
                if _is_former(place, wanted) or now - view.last_asked > _IDLE_SECONDS
            ]
            closing = [self._views.pop(place) for place in outdated]
            view = self._views.get(wanted)
            if view is None:
                view = TableView(self._cluster, wanted)
                self._views[wanted] = view
            view.last_asked = now
        for former in closing:
            former.close()
        return view

    def close(self) -> None:
        with self._lock:
            views, self._views = list(self._views.values()), {}
        for view in views:
            view.close()


def _is_former(place: _Wanted, wanted: _Wanted) -> bool:
    """Whether it is a view of the same topic before it was recreated or gained partitions."""
    return place.topic == wanted.topic and place[1:3] != wanted[1:3]
