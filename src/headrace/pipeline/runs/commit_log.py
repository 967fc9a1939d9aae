"""The commits of all queries, in the compacted topic `_query_commits`.

Key = the id of the query, or `<query>-dead-letters-<n>` for the part of it that only writes dead letters;
value = its history as JSON (`commits.py`). There is one writer, the pipeline process, which reads the topic
once when it opens it. A history counts only for the statement that it belongs to: a QUERY_ID can be used
again. Crash behaviour: a commit that was not written, or that a power failure took, costs time only, because
an older one counts then. Never decides anything.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Final

import msgspec

from headrace.client.cluster import Cluster
from headrace.client.errors import NotAcknowledgedError, log_refused
from headrace.client.reading import TopicReader
from headrace.client.topics import KEPT
from headrace.client.writing import Outgoing, RecordWriter
from headrace.pipeline.runs.commits import Commit, History, decode, encode

logger = logging.getLogger(__name__)

COMMITS_TOPIC: Final = "_query_commits"
_PART: Final = "-dead-letters-"
_WRITE_SECONDS: Final = 30.0
# Room for the fewest commits of some ten thousand partitions; others stay below 1 MB (`commits.py`).
_LARGEST_HISTORY: Final = 16 * 1024 * 1024
# A history is written every few seconds and only the newest counts: small segments are soon compacted.
_CONFIG: Final = {
    **KEPT,
    "max.message.bytes": str(_LARGEST_HISTORY),
    "segment.bytes": str(2 * _LARGEST_HISTORY),
    "min.cleanable.dirty.ratio": "0.2",
}


def part_key(query: str, number: int) -> str:
    """The key of a part of a query that writes dead letters only."""
    return f"{query}{_PART}{number}"


class CommitLog:
    """Safe for several threads, each with queries of its own: the commits of one query belong to one thread
    at a time.
    """

    def __init__(self, cluster: Cluster) -> None:
        """Raises log_unavailable, and invalid_setting if there is such a topic that cannot keep commits."""
        cluster.ensure_compacted_topic(COMMITS_TOPIC, holds="the commits of queries")
        found = cluster.topic_config(COMMITS_TOPIC)
        if any(found.get(name) != value for name, value in _CONFIG.items()):
            cluster.configure_topic(COMMITS_TOPIC, _CONFIG)
        self.cluster = cluster
        self._histories = read_histories(cluster)
        # By query, of those that run.
        self._statements: dict[str, str] = {}
        # Why the newest commit under a key was not written.
        self._unwritten: dict[str, str] = {}
        self._opened_at = time.monotonic()
        # Queries whose former run was cut off, until a run has begun since.
        self._cut_off: set[str] = set()
        self._writer = RecordWriter(
            cluster.bootstrap, timeout_seconds=_WRITE_SECONDS, largest_message=_LARGEST_HISTORY
        )

    def cut_off(self, query: str) -> None:
        """Records of the query's former run may still be on their way to the log."""
        self._cut_off.add(query)

    def begun(self, query: str) -> None:
        """A run has begun, with what was on its way."""
        self._cut_off.discard(query)

    def silent_seconds(self, query: str) -> float:
        """How long the log has answered since a record of the query's former run could be on its way.

        Of a run in another process: since the log answered this process for the first time.
        """
        return 0.0 if query in self._cut_off else time.monotonic() - self._opened_at

    def begin(self, query: str, statement: str) -> None:
        """The query of this statement runs from now on: what the log has of a former one does not count.

        Raises log_unavailable.
        """
        self._statements[query] = statement
        for key in self._keys_of(query):
            if self._histories[key].statement != statement:
                logger.info("The commits of %s are of a former statement, and do not count", key)
                self.replace(key, History(statement=statement))

    def history(self, key: str) -> History:
        known = self._histories.get(key)
        return known or History(statement=self._statements.get(_query_of(key), ""))

    def add(self, key: str, commit: Commit) -> None:
        """Write it in the background; `unwritten` tells if that fails."""
        history = self._histories[key] = self.history(key).with_commit(commit)
        unwritten = self._unwritten

        def written(error: str) -> None:
            if error and key not in unwritten:
                logger.warning("The commits of %s are not written to %s: %s", key, COMMITS_TOPIC, error)
            if error:
                unwritten[key] = error
            else:
                unwritten.pop(key, None)

        self._writer.write_later(_record(key, history), written)

    def unwritten(self, query: str) -> str:
        """Why the newest commits of a query are not in the log; empty if they are, or are on their way."""
        found = [error for key, error in list(self._unwritten.items()) if _query_of(key) == query]
        return f"Topic `{COMMITS_TOPIC}`: {found[0]}" if found else ""

    def replace(self, key: str, history: History) -> None:
        """Write the history, and wait until the log has it. Raises log_unavailable."""
        try:
            self._writer.write(_record(key, history))
        except NotAcknowledgedError as error:
            raise log_refused(
                self.cluster.bootstrap, f"write to topic `{COMMITS_TOPIC}`", error.error
            ) from error
        self._histories[key] = history

    def forget(self, query: str) -> None:
        """Remove the commits of a query that will not run again, and of its parts."""
        for key in self._keys_of(query):
            del self._histories[key]
            self._unwritten.pop(key, None)
            self._writer.write_later(Outgoing(topic=COMMITS_TOPIC, key=key.encode(), value=None))

    def forget_all_but(self, queries: Iterable[str]) -> set[str]:
        """The queries that were forgotten."""
        forgotten = {_query_of(key) for key in list(self._histories)} - set(queries)
        for query in forgotten:
            self.forget(query)
        return forgotten

    def close(self) -> None:
        self._writer.close()

    def _keys_of(self, query: str) -> list[str]:
        # A copy, made in one step: other threads add the histories of their queries.
        return [key for key in list(self._histories) if _query_of(key) == query]


def _record(key: str, history: History) -> Outgoing:
    return Outgoing(topic=COMMITS_TOPIC, key=key.encode(), value=encode(history))


def _query_of(key: str) -> str:
    query, part, number = key.rpartition(_PART)
    return query if part and number.isdecimal() else key


def read_histories(cluster: Cluster) -> dict[str, History]:
    """All histories by key; none if there is no such topic. Only reads. Raises log_unavailable."""
    values: dict[str, bytes | None] = {}
    ends = cluster.end_offsets(COMMITS_TOPIC)
    reader = TopicReader(cluster.bootstrap, COMMITS_TOPIC, len(ends))
    try:
        for record in reader.until(ends):
            try:
                values[(record.key() or b"").decode()] = record.value()
            except UnicodeDecodeError:
                logger.warning("A record of %s is of no query: its key is not UTF-8", COMMITS_TOPIC)
    finally:
        reader.close()
    histories = {}
    for key, value in values.items():
        if value is None:
            continue
        try:
            histories[key] = decode(value)
        except msgspec.DecodeError as error:
            # Of another version, or somebody else's: the query reads its sinks from where it began.
            logger.warning("The commits of %s in %s cannot be read: %s", key, COMMITS_TOPIC, error)
    return histories
