"""What the log reports about its topics: ids, partitions and offsets, each with one request for all topics.

Invariants: topic ids are written as Kafka's own tools write them (URL-safe base64, without slashes); a topic
or partition that does not exist is left out of the answer; if the log does not answer, the error is
`log_unavailable`. Never creates or changes a topic. Thread-safe.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # documented, not listed

from headrace.core.errors import HeadraceError
from headrace.query.partition_sizes import Place, partition_sizes

_ABSENT: Final = frozenset(
    {
        KafkaError.TOPIC_EXCEPTION,  # a name that no topic can have
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._NOENT,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
    }
)
# A topic that was just created has no leader for a moment, or the client asks the wrong broker.
_NOT_YET: Final = frozenset({KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION})
_PAUSE_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicIdentity:
    """A topic as it is now: one that was deleted and recreated has another id."""

    name: str
    topic_id: str
    partitions: tuple[int, ...]


def plain_topic_id(topic_id: str) -> str:
    """A topic's id as Kafka's own tools write it. librdkafka uses base64's other alphabet (`+`, `/`)."""
    return topic_id.replace("+", "-").replace("/", "_")


class LogDirectory:
    """Asks the log about topics."""

    def __init__(self, bootstrap: str, *, timeout_seconds: float = 5.0) -> None:
        self._bootstrap = bootstrap
        self._timeout_seconds = timeout_seconds
        # Every failure is raised to the caller; librdkafka would also print it to the terminal.
        self._admin = AdminClient(
            {"bootstrap.servers": bootstrap, "log_level": 2, "reconnect.backoff.max.ms": 1000}
        )

    def topic_names(self) -> list[str]:
        try:
            return sorted(self._admin.list_topics(timeout=self._timeout_seconds).topics)
        except KafkaException as error:
            raise self.unavailable(error) from error

    def describe(self, names: Iterable[str]) -> dict[str, TopicIdentity]:
        """The topics among these that exist."""
        wanted = list(names)
        if not wanted:
            return {}
        futures = self._admin.describe_topics(TopicCollection(wanted), request_timeout=self._timeout_seconds)
        found: dict[str, TopicIdentity] = {}
        for name, future in futures.items():
            try:
                description = future.result()
            except KafkaException as error:
                if error.args[0].code() in _ABSENT:
                    continue
                raise self.unavailable(error) from error
            found[name] = TopicIdentity(
                name=name,
                topic_id=plain_topic_id(str(description.topic_id)),
                partitions=tuple(sorted(partition.id for partition in description.partitions)),
            )
        return found

    def sizes(self) -> dict[Place, int]:
        """Bytes on disk by topic and partition, where a broker reports them."""
        try:
            brokers = self._admin.list_topics(timeout=self._timeout_seconds).brokers.values()
        except KafkaException as error:
            raise self.unavailable(error) from error
        return partition_sizes([(str(each.host), each.port) for each in brokers], self._timeout_seconds)

    def earliest(self, topics: Iterable[TopicIdentity]) -> dict[tuple[str, int], int]:
        """The earliest available offset, by topic and partition."""
        return self._offsets(topics, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def latest(self, topics: Iterable[TopicIdentity]) -> dict[tuple[str, int], int]:
        """The offset of the next record, by topic and partition."""
        return self._offsets(topics, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def unavailable(self, error: KafkaException) -> HeadraceError:
        return HeadraceError(
            "log_unavailable",
            f"The log at {self._bootstrap} does not answer: {error.args[0].str()}.",
            remedy="See `headrace status` for the state of the log.",
        )

    def _offsets(self, topics: Iterable[TopicIdentity], spec: OffsetSpec) -> dict[tuple[str, int], int]:
        found: dict[tuple[str, int], int] = {}
        pending = [(topic.name, partition) for topic in topics for partition in topic.partitions]
        deadline = time.monotonic() + self._timeout_seconds
        while pending:
            not_yet: list[tuple[str, int]] = []
            asked = {TopicPartition(*place): spec for place in pending}
            futures = self._admin.list_offsets(
                asked, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=self._timeout_seconds
            )
            for partition, future in futures.items():
                place = (partition.topic, partition.partition)
                try:
                    found[place] = future.result().offset
                except KafkaException as error:
                    code = error.args[0].code()
                    if code in _NOT_YET and time.monotonic() < deadline:
                        not_yet.append(place)
                    elif code not in _ABSENT:
                        raise self.unavailable(error) from error
            pending = not_yet
            if pending:
                time.sleep(_PAUSE_SECONDS)
        return found
