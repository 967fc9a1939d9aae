"""Push queries in the gateway: it writes and renews wishes, and reads the rows that come back.

`catalogue/push_wishes.py` describes wishes, topics of rows, and how the pipeline process follows them.
"""

from __future__ import annotations

import dataclasses
import logging
import re
import threading
import time
import uuid
from typing import Any, Final

from headrace.client.cluster import Cluster
from headrace.client.message_sizes import derived_topic_config
from headrace.client.reading import TopicReader
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.pipeline.catalogue.catalogue import Catalogue, Column
from headrace.pipeline.catalogue.push_wishes import (
    END_HEADER,
    ROWS_PREFIX,
    WISHES_TOPIC,
    PushWish,
    encode_wish,
    ensure_wishes_topic,
    rows_sink,
)
from headrace.pipeline.expressions.values import ValueProblemError
from headrace.pipeline.formats import Schemas, Serializer
from headrace.pipeline.rules.planning import plan_query
from headrace.pipeline.serving.session import Session
from headrace.pipeline.statements.tree import Query

_log = logging.getLogger(__name__)

# A wish is renewed three times before it would expire.
ALIVE_SECONDS: Final = 30.0


class PushQuery:
    """One push query. `poll` is for one thread at a time, `close` for any thread."""

    def __init__(
        self, wish: PushWish, columns: tuple[Column, ...], cluster: Cluster, schemas: Schemas
    ) -> None:
        self.id = wish.id
        self.columns = columns
        # Why it ended, if it failed.
        self.failure: str | None = None
        self._serializer = Serializer(rows_sink(wish.topic, columns), schemas)
        self._reader = TopicReader(cluster.bootstrap, wish.topic, 1, from_beginning=True)
        self._limit: int | None = None
        self.last_polled = time.monotonic()
        self._given = 0
        self._ended = False
        self.closed = threading.Event()

    def limit_to(self, limit: int | None) -> None:
        self._limit = limit

    @property
    def limit_reached(self) -> bool:
        return self._limit is not None and self._given >= self._limit

    def poll(self, timeout: float) -> list[list[Any]] | None:
        """The next rows; None when no more will come."""
        self.last_polled = time.monotonic()
        if self.limit_reached or self._ended or self.closed.is_set():
            return None
        rows: list[list[Any]] = []
        for record in self._reader.poll(timeout):
            headers: Any = record.headers() or ()
            if any(name == END_HEADER for name, _ in headers):
                self.failure = (record.value() or b"").decode() or None
                self._ended = True
                break
            row = self._row(record.value())
            if row is not None:
                rows.append(row)
                self._given += 1
            if self.limit_reached:
                break
        return rows

    def _row(self, value: bytes | None) -> list[Any] | None:
        if value is None:
            return None
        try:
            read = self._serializer.read_value(value)
        except ValueProblemError as error:
            _log.warning("a row of %s cannot be read: %s", self.id, error)
            return None
        return [read[column.name] for column in self.columns]

    def end(self) -> None:
        """Called once, by the polling thread, after its last poll."""
        self.closed.set()
        self._reader.close()


class PushQueries:
    """All push queries of a gateway, renewed while they are read."""

    def __init__(self, cluster: Cluster, schemas: Schemas, settings: Settings) -> None:
        self._cluster = cluster
        self._schemas = schemas
        self._settings = settings
        self._wishes: dict[str, PushWish] = {}
        self._queries: dict[str, PushQuery] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        ensure_wishes_topic(self._cluster)
        self._thread = threading.Thread(target=self._keep_alive, name="push queries", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Withdraw all wishes."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        self.close_all()
        for query_id in self.ids():
            self.end(query_id)

    def statements(self) -> dict[str, str]:
        """The current statements, by id."""
        with self._lock:
            return {wish.id: wish.statement for wish in self._wishes.values()}

    def ids(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(self._queries)

    def begin(self, statement: Query, catalogue: Catalogue, text: str, session: Session) -> PushQuery:
        """Ask for the rows. Raises StatementError, log_unavailable."""
        plan = plan_query(statement, catalogue, text=text)
        identity = uuid.uuid4()
        wish = PushWish(
            id=_query_id(statement.select.source.name, identity),
            statement=text,
            properties=tuple(sorted(session.properties.items())),
            topic=f"{ROWS_PREFIX}{identity.hex}",
            alive_until=_alive_until(),
        )
        config = {**derived_topic_config(self._settings), "retention.ms": "3600000"}
        self._cluster.create_topic(wish.topic, partitions=1, config=config)
        query = PushQuery(wish, plan.sink.columns, self._cluster, self._schemas)
        query.limit_to(statement.select.limit)
        with self._lock:
            self._wishes[wish.id] = wish
            self._queries[wish.id] = query
        try:
            self._write(wish)
        except HeadraceError:
            query.end()
            self.end(wish.id)
            raise
        return query

    def close_all(self) -> None:
        with self._lock:
            for query in self._queries.values():
                query.closed.set()

    def close(self, query_id: str) -> bool:
        """End a query: its reader sees the end. False if the id is unknown."""
        with self._lock:
            query = self._queries.get(query_id)
        if query is None:
            return False
        query.closed.set()
        return True

    def end(self, query_id: str) -> None:
        """Withdraw the wish; called by the reader of the rows, after `PushQuery.end`."""
        with self._lock:
            wish = self._wishes.pop(query_id, None)
            self._queries.pop(query_id, None)
        if wish is None:
            return
        try:
            self._cluster.produce(WISHES_TOPIC, wish.id.encode(), None)
            self._cluster.delete_topic(wish.topic)
        except HeadraceError as error:
            _log.warning("the push query %s could not be withdrawn and will expire: %s", wish.id, error)

    def _write(self, wish: PushWish) -> None:
        self._cluster.produce(WISHES_TOPIC, wish.id.encode(), encode_wish(wish))

    def _keep_alive(self) -> None:
        while not self._stopping.wait(ALIVE_SECONDS / 3):
            for abandoned in self._abandoned():
                self.end(abandoned)
            with self._lock:
                for query_id, wish in self._wishes.items():
                    self._wishes[query_id] = dataclasses.replace(wish, alive_until=_alive_until())
                wishes = list(self._wishes.values())
            for wish in wishes:
                # Do not renew a query that ended meanwhile; if it happens, it expires.
                if wish.id in self.ids():
                    try:
                        self._write(wish)
                    except HeadraceError as error:
                        _log.warning("the push query %s could not be renewed: %s", wish.id, error)

    def _abandoned(self) -> list[str]:
        """Queries that were not read for a long time, because the client left before the first row."""
        longest = time.monotonic() - 2 * ALIVE_SECONDS
        with self._lock:
            return [query.id for query in self._queries.values() if query.last_polled < longest]


def _query_id(source: str, identity: uuid.UUID) -> str:
    """As in ksqlDB, but in upper case, so that TERMINATE accepts it without quotes."""
    name = re.sub(r"[^A-Z0-9_]", "_", source.upper())
    return f"TRANSIENT_{name}_{identity.int % 10**18}"


def _alive_until() -> int:
    return time.time_ns() // 1_000_000 + int(ALIVE_SECONDS * 1000)
