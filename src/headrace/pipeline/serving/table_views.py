"""The gateway's own view of tables: the newest record of each key, from the table's topic.

Each view follows its topic in its own thread. Invariant: an answer includes every record that was in the
topic when the request came. Rows are kept as bytes and decoded on request; those of one key are together,
whatever their windows. A view belongs to a topic id: a recreated topic gets a new view. Views that are not
used for a while are closed.

Never writes. After a restart views read their topics again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

from headrace.client.cluster import Cluster
from headrace.client.errors import log_late
from headrace.client.followed import FollowedTopic
from headrace.client.reading import Record
from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.catalogue import Source
from headrace.pipeline.expressions.values import ValueProblemError
from headrace.pipeline.formats import Schemas, Serializer

_log = logging.getLogger(__name__)

_IDLE_SECONDS: Final = 600.0

Row = dict[str, Any]

# In a row: the record's headers, under a name that no column has.
HEADERS: Final = "=> headers"


class TableView:
    """The view of one topic. `rows` may be called from any thread."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int, window_bytes: int) -> None:
        self._window_bytes = window_bytes
        # By key without window, then by window: value and position.
        self._rows: dict[bytes, dict[bytes, tuple[bytes, Row]]] = {}
        self._followed = FollowedTopic(cluster.bootstrap, topic, self._take, partitions=partitions)
        self.last_asked = time.monotonic()
        self._followed.start()

    def wait(self, ends: dict[int, int], timeout: float) -> bool:
        """Wait until each partition was read up to the given end."""
        return self._followed.wait_until_read(ends, timeout)

    def records(self, key: bytes | None = None) -> list[tuple[bytes, bytes, Row]]:
        """Key with window, value and position of all rows, or of those with that key."""
        with self._followed.progress:
            groups = self._rows.items() if key is None else [(key, self._rows.get(key, {}))]
            return [
                (bare + window, value, position)
                for bare, windows in groups
                for window, (value, position) in windows.items()
            ]

    def close(self) -> None:
        self._followed.stop()

    def _take(self, record: Record) -> None:
        key, value = record.key(), record.value()
        if key is None:
            return
        cut = len(key) - self._window_bytes
        bare, window = key[:cut], key[cut:]
        if value is None:
            windows = self._rows.get(bare, {})
            windows.pop(window, None)
            if not windows:
                self._rows.pop(bare, None)
        else:
            self._rows.setdefault(bare, {})[window] = (value, row_position(record))


def row_position(record: Record) -> Row:
    """The pseudo-columns of a record, and its headers."""
    return {
        "ROWTIME": record.timestamp()[1],
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
        self._views: dict[tuple[str, str, int], TableView] = {}
        self._lock = threading.Lock()

    def rows(self, source: Source, key: bytes | None = None) -> Iterator[Row]:
        """The current rows of a table, or those of one key (without its window). Raises HeadraceError."""
        view = self._current(source)
        if not view.wait(self._cluster.end_offsets(source.topic), self._timeout):
            raise log_late(self._cluster.bootstrap, f"give all rows of {source.name}", self._timeout)
        serializer = Serializer(source, self._schemas)
        for record_key, value, position in view.records(key):
            try:
                yield {**serializer.read_key(record_key), **serializer.read_value(value), **position}
            except ValueProblemError as error:
                _log.info("a row of %s cannot be read: %s", source.name, error)

    def _current(self, source: Source) -> TableView:
        identity = self._cluster.topic(source.topic)
        if identity is None:
            raise HeadraceError("no_such_topic", f"The topic {source.topic} of {source.name} does not exist.")
        window_bytes = 0 if source.window is None else 16 if source.window.size_ms is None else 8
        wanted = (source.topic, identity.topic_id, window_bytes)
        with self._lock:
            now = time.monotonic()
            idle = [
                place
                for place, view in self._views.items()
                if (place[0] == wanted[0] and place[1] != wanted[1]) or now - view.last_asked > _IDLE_SECONDS
            ]
            closing = [self._views.pop(place) for place in idle]
            view = self._views.get(wanted)
            if view is None:
                view = TableView(self._cluster, source.topic, identity.partitions, window_bytes)
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
