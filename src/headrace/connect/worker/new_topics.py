"""Creates the topics that a source writes to, as `topic.creation.default.*` says, or as the log's defaults
do.

Invariant: a topic is asked for once, and again after `forget`. Never changes a topic that exists.
"""

from __future__ import annotations

from typing import Final

from headrace.client.cluster import DEFAULT, Cluster
from headrace.connect.plugins import Config

_PREFIX: Final = "topic.creation.default."
_OWN: Final = frozenset({"partitions", "replication.factor", "include", "exclude"})


class NewTopics:
    """Belongs to one task."""

    def __init__(self, bootstrap: str, config: Config) -> None:
        given = {
            name.removeprefix(_PREFIX): value for name, value in config.items() if name.startswith(_PREFIX)
        }
        self._bootstrap = bootstrap
        self._cluster: Cluster | None = None
        self._partitions = int(given.get("partitions", DEFAULT))
        self._replicas = int(given.get("replication.factor", DEFAULT))
        self._config = {name: value for name, value in given.items() if name not in _OWN}
        self._known: set[str] = set()

    def ensure(self, topic: str) -> bool:
        """Whether this is the first time. Raises log_unavailable, query_failed."""
        if topic in self._known:
            return False
        if self._cluster is None:
            self._cluster = Cluster(self._bootstrap)
        if self._cluster.topic(topic) is None:
            self._cluster.create_topic(
                topic, partitions=self._partitions, replicas=self._replicas, config=self._config
            )
        self._known.add(topic)
        return True

    def forget(self) -> None:
        """Topics may have been deleted meanwhile."""
        self._known.clear()

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
