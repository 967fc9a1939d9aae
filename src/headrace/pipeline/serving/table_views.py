"""The gateway's own view of tables: the newest record of each key, from the table's topic.

Each view follows its topic in its own thread. Invariant: an answer includes every record that was in the
topic when the request came. Rows are kept as bytes and decoded on request; those of one key are together,
whatever their windows. A view belongs to a topic id and a number of partitions: a topic that was recreated,
or has gained partitions, gets a new view. Views that are not used for a while are closed.

Except for KAFKA, different bytes may be the same key, such as JSON with other spaces, or Avro with another
schema. Then the newest record counts, as in queries that are kept.

After a topic has gained partitions, Kafka's hash may send a key to another partition than before. Then the
record with the later timestamp counts.

Never writes. After a restart views read their topics again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from headrace.client.cluster import Cluster
from headrace.client.errors import log_late
from headrace.client.followed import FollowedTopic
from headrace.client.reading import Record
from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.catalogue import Format, Source
from headrace.pipeline.expressions.values import ValueProblemError
from headrace.pipeline.formats import Schemas, Serializer
from headrace.pipeline.serving.row_times import row_time

_log = logging.getLogger(__name__)

_IDLE_SECONDS: Final = 600.0

Row = dict[str, Any]

# In a row: the record's headers, and its own timestamp, under names that no column has.
HEADERS: Final = "=> headers"
WRITTEN: Final = "=> written"


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
        self._window_bytes = wanted.window_bytes
        self._keeps_deleted = wanted.keeps_deleted
        # By key without window, then by window: value and position. A deleted row has no value.
        self._rows: dict[bytes, dict[bytes, tuple[bytes | None, Row]]] = {}
        self._followed = FollowedTopic(
            cluster.bootstrap, wanted.topic, self._take, partitions=wanted.partitions
        )
        self.last_asked = time.monotonic()
        self._followed.start()

    def wait(self, ends: dict[int, int], timeout: float) -> bool:
        """Wait until each partition was read up to the given end."""
        return self._followed.wait_until_read(ends, timeout)

    def records(self, key: bytes | None = None) -> list[tuple[bytes, bytes | None, Row]]:
        """Key with window, value and position of all rows, or of those with that key; deleted rows that are
        remembered have no value.
        """
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
        windows = self._rows.get(bare, {})
        position = row_position(record)
        former = windows.get(window)
        if former is not None and not _follows(position, former[1]):
            return
        if value is not None or self._keeps_deleted:
            self._rows.setdefault(bare, windows)[window] = (value, position)
            return
        windows.pop(window, None)
        if not windows:
            self._rows.pop(bare, None)


def _follows(position: Row, former: Row) -> bool:
    """Whether a record that is read later also counts more: always within a partition."""
    if position["ROWPARTITION"] == former["ROWPARTITION"]:
        return True
    return _age(position) > _age(former)


def _age(position: Row) -> tuple[int, int]:
    # Of two records with the same time, the one in the newer partition is more likely the later one.
    return position[WRITTEN], position["ROWPARTITION"]


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
        serializer = Serializer(source, self._schemas)
        for record_key, value, position in _newest(view.records(key), source, serializer):
            if value is None:
                continue
            try:
                row = {**serializer.read_key(record_key), **serializer.read_value(value)}
                time_of_row = row_time(source, row, position[WRITTEN], position[HEADERS])
            except ValueProblemError as error:
                _log.info("a row of %s cannot be read: %s", source.name, error)
                continue
            yield {**row, **position, "ROWTIME": time_of_row}

    def _current(self, source: Source, partitions: int) -> TableView:
        identity = self._cluster.topic(source.topic)
        if identity is None:
            raise HeadraceError("no_such_topic", f"The topic {source.topic} of {source.name} does not exist.")
        window_bytes = 0 if source.window is None else 16 if source.window.size_ms is None else 8
        # An older record of another partition, or of another form of the key, may come after the deletion.
        keeps_deleted = partitions > 1 or _has_forms(source)
        wanted = _Wanted(source.topic, identity.topic_id, partitions, window_bytes, keeps_deleted)
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


def _has_forms(source: Source) -> bool:
    """Whether different bytes may be the same key."""
    return source.key_encoding.format is not Format.KAFKA


def _newest(
    records: list[tuple[bytes, bytes | None, Row]], source: Source, serializer: Serializer
) -> Iterable[tuple[bytes, bytes | None, Row]]:
    """One record for each key; an unreadable key is no key."""
    if not _has_forms(source):
        return records
    found: dict[str, tuple[bytes, bytes | None, Row]] = {}
    for record in records:
        try:
            # A key may be a STRUCT, which is a dict.
            key = repr(serializer.read_key(record[0]))
        except ValueProblemError as error:
            _log.info("a key of %s cannot be read: %s", source.name, error)
            continue
        former = found.get(key)
        if former is None or _is_newer(record[2], former[2]):
            found[key] = record
    return found.values()


def _is_newer(position: Row, other: Row) -> bool:
    if position["ROWPARTITION"] == other["ROWPARTITION"]:
        return bool(position["ROWOFFSET"] > other["ROWOFFSET"])
    return _age(position) > _age(other)


def _is_former(place: _Wanted, wanted: _Wanted) -> bool:
    """Whether it is a view of the same topic before it was recreated or gained partitions."""
    return place.topic == wanted.topic and place[1:3] != wanted[1:3]
