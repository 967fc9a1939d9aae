"""The topic that events go to: whether it is there, which one it is, and making it.

Invariants: a topic is told apart by its id, so that one which was deleted and made again is another one; it
is made with the partitions of the settings and room for the largest event, whatever the cluster's defaults
are. All calls block: they belong in a thread. Never deletes or changes a topic that is there.
"""

from __future__ import annotations

import logging
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from headrace.http.events.failures import log_unavailable

_log = logging.getLogger(__name__)

_NOT_ALLOWED: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.POLICY_VIOLATION,
    }
)


class EventsTopic:
    """One topic of one cluster."""

    def __init__(
        self, *, bootstrap: str, name: str, partitions: int, max_message_bytes: int, timeout: float
    ) -> None:
        self._bootstrap = bootstrap
        self._name = name
        self._partitions = partitions
        self._max_message_bytes = max_message_bytes
        self._timeout = timeout
        self._admin = AdminClient({"bootstrap.servers": bootstrap}, logger=_log)

    def identity(self) -> str:
        """The topic's id, or nothing if there is no such topic."""
        described = self._admin.describe_topics(TopicCollection([self._name]), request_timeout=self._timeout)
        try:
            return str(described[self._name].result().topic_id)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return ""
            raise log_unavailable(error.args[0], self._bootstrap) from error

    def ensure(self) -> str:
        """The topic's id, after it was made if it was missing; nothing if it is not to be seen yet."""
        return self.identity() or self._create()

    def _create(self) -> str:
        topic = NewTopic(
            self._name,
            num_partitions=self._partitions,
            # The cluster's own default.
            replication_factor=-1,
            config={"max.message.bytes": str(self._max_message_bytes)},
        )
        created = self._admin.create_topics(
            [topic], request_timeout=self._timeout, operation_timeout=self._timeout
        )
        try:
            created[self._name].result()
        except KafkaException as error:
            code = error.args[0].code()
            if code in _NOT_ALLOWED:
                # Somebody else may be about to make it; if not, the events are refused for want of a topic.
                _log.warning("may not create topic %s: %s", self._name, error.args[0].str())
            elif code != KafkaError.TOPIC_ALREADY_EXISTS:
                raise log_unavailable(error.args[0], self._bootstrap) from error
        else:
            _log.info("created topic %s with %d partitions", self._name, self._partitions)
        return self.identity()
