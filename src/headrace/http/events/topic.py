"""The topic that events go to: whether it exists, which incarnation it is, and creating it.

Invariants: the topic is known by its id, so that one which was deleted and created again is another one; it
is created with the partitions of the settings and room for the largest event, whatever the cluster's
defaults are. All calls block: call them in a thread. Never deletes or changes an existing topic.
"""

from __future__ import annotations

import logging

from headrace.client.cluster import Cluster
from headrace.client.errors import NotAllowedError
from headrace.client.message_sizes import event_topic_config
from headrace.core.errors import HeadraceError

_log = logging.getLogger(__name__)


class EventsTopic:
    """One topic of one cluster."""

    def __init__(self, cluster: Cluster, *, name: str, partitions: int, max_event_bytes: int) -> None:
        self._cluster = cluster
        self._name = name
        self._partitions = partitions
        self._config = event_topic_config(max_event_bytes)

    def identity(self) -> str:
        """The topic's id, or nothing if there is no such topic. Raises log_unavailable."""
        found = self._cluster.topic(self._name)
        return found.topic_id if found is not None else ""

    def ensure(self) -> str:
        """The topic's id, after creating it if it was missing; nothing if it cannot be seen yet."""
        return self.identity() or self._create()

    def _create(self) -> str:
        try:
            self._cluster.create_topic(self._name, partitions=self._partitions, config=self._config)
        except NotAllowedError as error:
            # Somebody else may be about to create it; if not, events are refused because there is no topic.
            _log.warning("%s", error)
        except HeadraceError as error:
            # Whatever the reason is, the request that brought the events is not to blame.
            raise HeadraceError("log_unavailable", error.message, remedy=error.remedy) from error
        return self.identity()
