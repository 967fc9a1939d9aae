"""The commits of all queries, in the compacted topic `_query_commits`.

Key = the id of the query, or `<query>-dead-letters-<n>` for the part of it that only writes dead letters;
value = its history as JSON (`commits.py`). There is one writer, the pipeline process, which reads the topic
once when it opens it. Crash behaviour: a commit that was not written, or that a power failure took, costs
time only, because an older one counts then. Never decides anything.
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
# A history is written every few seconds and only the newest counts: small segments are soon compacted.
_CONFIG: Final = {**KEPT, "segment.bytes": str(16 * 1024 * 1024), "min.cleanable.dirty.ratio": "0.2"}


def part_key(query: str, number: int) -> str:
    """The key of a part of a query that writes dead letters only."""
    return f"{query}{_PART}{number}"


class CommitLog:
    """Belongs to one thread, except that `history` may be called from any."""

    def __init__(self, cluster: Cluster) -> None:
        """Raises log_unavailable."""
        cluster.create_topic(COMMITS_TOPIC, partitions=1, config=_CONFIG)
        self.cluster = cluster
        self._histories = read_histories(cluster)
        self._opened_at = time.monotonic()
        self._writer = RecordWriter(cluster.bootstrap, timeout_seconds=_WRITE_SECONDS)

    def age_seconds(self) -> float:
        """How long ago the log answered this process for the first time."""
        return time.monotonic() - self._opened_at

    def history(self, key: str) -> History:
        return self._histories.get(key, History())

    def add(self, key: str, commit: Commit) -> None:
        """Write it in the background."""
        history = self._histories[key] = self.history(key).with_commit(commit)
        self._writer.write_later(_record(key, history))

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
        for key in [known for known in self._histories if _query_of(known) == query]:
            del self._histories[key]
            self._writer.write_later(Outgoing(topic=COMMITS_TOPIC, key=key.encode(), value=None))

    def forget_all_but(self, queries: Iterable[str]) -> None:
        kept = set(queries)
        for query in {_query_of(key) for key in self._histories} - kept:
            self.forget(query)

    def close(self) -> None:
        self._writer.close()


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
            values[(record.key() or b"").decode()] = record.value()
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
