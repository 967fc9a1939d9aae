"""Which tables of the statement language a question means. Thread-safe; every method may block.

The catalogue is followed from the first question on that may need it. Invariants: an answer knows every
statement that was answered before; nothing is created: without a statement log there are no tables.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping

from headrace.client.cluster import Cluster
from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.catalogue import Catalogue, Source
from headrace.pipeline.catalogue.statement_log import TOPIC, StatementLog
from headrace.pipeline.statements.tree import SourceKind


class StatementTables:
    """Of one platform."""

    def __init__(self, cluster: Cluster, *, timeout_seconds: float, topic: str = TOPIC) -> None:
        """`topic` is that of the statement log."""
        self._cluster = cluster
        self._topic = topic
        self._timeout = timeout_seconds
        self._lock = threading.Lock()
        self._log: StatementLog | None = None

    def close(self) -> None:
        with self._lock:
            if self._log is not None:
                self._log.stop()

    def named(self, names: Collection[str]) -> dict[str, Source]:
        """The tables that these names mean: exactly, or the only one that differs in case. Others are left
        out. Raises log_unavailable, and query_failed for a name of several tables.
        """
        sources = {
            name: source for name, source in self._sources().items() if source.kind is SourceKind.TABLE
        }
        found: dict[str, Source] = {}
        for name in names:
            alike = [each for each in sources if each.casefold() == name.casefold()]
            if name in sources:
                found[name] = sources[name]
            elif len(alike) == 1:
                found[name] = sources[alike[0]]
            elif alike:
                raise HeadraceError(
                    "query_failed",
                    f"`{name}` could be any of the tables {', '.join(sorted(alike))}.",
                    remedy="Write its name exactly, in quotes.",
                )
        return found

    def _sources(self) -> Mapping[str, Source]:
        return self._catalogue().sources

    def _catalogue(self) -> Catalogue:
        with self._lock:
            if self._log is None:
                # Following the log would create it.
                if self._cluster.topic(self._topic) is None:
                    return Catalogue()
                log = StatementLog(self._cluster.bootstrap, topic=self._topic, timeout=self._timeout)
                log.start()
                self._log = log
            try:
                return self._log.read_to_end()
            except HeadraceError:
                # Its thread may have ended: the next question begins anew.
                self._log.stop()
                self._log = None
                raise
