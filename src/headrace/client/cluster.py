"""The log as statements see it: topics made, deleted and described, and single records written.

Any Kafka will do. Safe for several threads; every method may block. A failure is a HeadraceError that names
the topic.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition

# Documented names, though not listed in `__all__`.
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from headrace.core.errors import HeadraceError

_log = logging.getLogger(__name__)

_REQUEST_SECONDS: Final = 15.0
# The broker's own number.
DEFAULT: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic with the number of replicas of each of its partitions."""

    name: str
    replicas: tuple[int, ...]

    @property
    def partitions(self) -> int:
        return len(self.replicas)


class Cluster:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap}, logger=_log)
        self._producer: Any = None
        self._opening = threading.Lock()

    def id(self) -> str:
        return str(self._list().cluster_id or "")

    def topics(self) -> dict[str, Topic]:
        """All topics, by name."""
        found = (self._described(name, topic) for name, topic in self._list().topics.items())
        return {topic.name: topic for topic in sorted(found, key=lambda topic: topic.name)}

    def topic(self, name: str) -> Topic | None:
        # All of them are listed: asking for one by name could make it.
        return self.topics().get(name)

    def _list(self) -> Any:
        try:
            return self._admin.list_topics(timeout=_REQUEST_SECONDS)
        except KafkaException as error:
            raise self._unavailable("list its topics", error) from error

    @staticmethod
    def _described(name: str, topic: Any) -> Topic:
        partitions = sorted(topic.partitions.items())
        return Topic(name=name, replicas=tuple(len(partition.replicas) for _, partition in partitions))

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = DEFAULT,
        replicas: int = DEFAULT,
        config: Mapping[str, str] | None = None,
    ) -> bool:
        """Make it, unless it is there; False if it is."""
        wanted = NewTopic(
            name, num_partitions=partitions, replication_factor=replicas, config=dict(config or {})
        )
        try:
            self._admin.create_topics([wanted], request_timeout=_REQUEST_SECONDS)[name].result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            raise self._refused(f"create topic `{name}`", error) from error
        self._wait_until(name, present=True)
        return True

    def delete_topic(self, name: str) -> bool:
        """False if there is none."""
        try:
            self._admin.delete_topics([name], request_timeout=_REQUEST_SECONDS)[name].result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return False
            raise self._refused(f"delete topic `{name}`", error) from error
        return True

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Where each partition's committed records end now."""
        found = self.topic(topic)
        places = [TopicPartition(topic, number) for number in range(found.partitions if found else 0)]
        futures = self._admin.list_offsets(
            {place: OffsetSpec.latest() for place in places},  # type: ignore[no-untyped-call]
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=_REQUEST_SECONDS,
        )
        try:
            return {place.partition: int(future.result().offset) for place, future in futures.items()}
        except KafkaException as error:
            raise self._unavailable(f"say where `{topic}` ends", error) from error

    def _wait_until(self, name: str, *, present: bool) -> None:
        """On a cluster of several brokers a topic is known to all of them a moment later."""
        deadline = time.monotonic() + _REQUEST_SECONDS
        while (self.topic(name) is not None) != present and time.monotonic() < deadline:
            time.sleep(0.02)

    def produce(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        timestamp_ms: int | None = None,
        headers: list[tuple[str, bytes]] | None = None,
    ) -> None:
        """Write one record, into the partition that Kafka's own clients would choose, and wait for it."""
        outcome: list[KafkaError | None] = []
        done = threading.Event()

        def delivered(error: KafkaError | None, _message: Any) -> None:
            outcome.append(error)
            done.set()

        producer = self._open_producer()
        given: dict[str, Any] = {"timestamp": timestamp_ms} if timestamp_ms is not None else {}
        try:
            producer.produce(topic, value, key, on_delivery=delivered, headers=headers or [], **given)
        except KafkaException as error:
            raise self._refused(f"write to topic `{topic}`", error) from error
        deadline = time.monotonic() + _REQUEST_SECONDS
        while not done.is_set() and time.monotonic() < deadline:
            producer.poll(0.05)
        refusal = outcome[0] if outcome else KafkaError(KafkaError._TIMED_OUT)
        if refusal is not None:
            raise self._refused(f"write to topic `{topic}`", KafkaException(refusal))

    def _open_producer(self) -> Any:
        with self._opening:
            if self._producer is None:
                self._producer = Producer(
                    {
                        "bootstrap.servers": self.bootstrap,
                        "acks": "all",
                        "enable.idempotence": True,
                        "linger.ms": 0,
                        # As Java's clients do: rows of one key meet, whoever wrote them.
                        "partitioner": "murmur2_random",
                        "allow.auto.create.topics": False,
                        "delivery.timeout.ms": int(_REQUEST_SECONDS * 1000),
                        "log_level": 2,
                    },
                    logger=_log,
                )
            return self._producer

    def close(self) -> None:
        with self._opening:
            if self._producer is not None:
                self._producer.flush(5.0)
            self._producer = None

    def _unavailable(self, action: str, error: KafkaException) -> HeadraceError:
        return HeadraceError(
            "log_unavailable",
            f"The log at {self.bootstrap} could not {action}: {error.args[0].str()}.",
            remedy="Check that the log is running (`headrace status`).",
        )

    def _refused(self, action: str, error: KafkaException) -> HeadraceError:
        if error.args[0].retriable() or error.args[0].code() == KafkaError._TIMED_OUT:
            return self._unavailable(action, error)
        return HeadraceError(
            "query_failed", f"The log at {self.bootstrap} could not {action}: {error.args[0].str()}."
        )
