"""The log as a whole: describes, creates and deletes topics, tells offsets, and writes single records.

Works with any Kafka. Invariants: answers come fresh from the cluster, nothing is cached; a topic or partition
that does not exist is left out of an answer; describing a topic never creates it; a log that does not answer
is `log_unavailable`. Safe for several threads; every method may block.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)

# Documented names, though not listed in `__all__`.
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    OffsetSpec,
)

from headrace.client.connections import open_admin
from headrace.client.errors import (
    NotAcknowledgedError,
    is_absent,
    is_absent_or_away,
    is_without_leader,
    log_refused,
    log_unavailable,
)
from headrace.client.topics import KEPT, Partition, TopicIdentity, printed_topic_id
from headrace.client.writing import Outgoing, RecordWriter
from headrace.core.errors import HeadraceError

_log = logging.getLogger(__name__)

REQUEST_SECONDS: Final = 15.0
# Leaves the number of partitions or replicas to the cluster.
DEFAULT: Final = -1
_MOST_REPLICAS: Final = 3
_PAUSE_SECONDS: Final = 0.05
_VISIBLE_PAUSE_SECONDS: Final = 0.02


class Cluster:
    """One Kafka cluster. Connects when it is first asked something."""

    def __init__(self, bootstrap: str, *, timeout_seconds: float = REQUEST_SECONDS) -> None:
        """`timeout_seconds` limits each request."""
        self.bootstrap: str = bootstrap
        self._timeout = timeout_seconds
        self._admin = open_admin(bootstrap)
        self._writer = RecordWriter(bootstrap, timeout_seconds=timeout_seconds)

    def close(self) -> None:
        self._writer.close()

    def id(self) -> str:
        return str(self._metadata().cluster_id or "")

    def brokers(self) -> list[tuple[str, int]]:
        """Host and port of each broker."""
        return [(str(broker.host), int(broker.port)) for broker in self._metadata().brokers.values()]

    def topic_names(self) -> list[str]:
        return sorted(self._metadata().topics)

    def topics(self) -> dict[str, TopicIdentity]:
        """All topics, sorted by name."""
        return self.lookup(self.topic_names())

    def topic(self, name: str) -> TopicIdentity | None:
        return self.lookup([name]).get(name)

    def lookup(self, names: Iterable[str]) -> dict[str, TopicIdentity]:
        """Those of the topics that exist."""
        wanted = list(names)
        if not wanted:
            return {}
        futures = self._admin.describe_topics(TopicCollection(wanted), request_timeout=self._timeout)
        found: dict[str, TopicIdentity] = {}
        for name in wanted:
            try:
                described = futures[name].result()
            except KafkaException as error:
                if is_absent(error.args[0]):
                    continue
                raise log_unavailable(self.bootstrap, f"describe topic `{name}`", error) from error
            replicas = tuple(len(partition.replicas) for partition in described.partitions)
            found[name] = TopicIdentity(
                name=name,
                topic_id=printed_topic_id(described.topic_id),
                partitions=len(replicas),
                replicas=replicas,
            )
        return found

    def leaders(self, topics: Iterable[TopicIdentity]) -> dict[Partition, tuple[str, int]]:
        """Host and port of the leader of each partition, by topic id and partition, where there is one."""
        by_name = {topic.name: topic for topic in topics}
        futures = self._admin.describe_topics(TopicCollection(list(by_name)), request_timeout=self._timeout)
        found: dict[Partition, tuple[str, int]] = {}
        for name, topic in by_name.items():
            try:
                described = futures[name].result()
            except KafkaException as error:
                if is_absent(error.args[0]):
                    continue
                raise log_unavailable(self.bootstrap, f"describe topic `{name}`", error) from error
            if printed_topic_id(described.topic_id) == topic.topic_id:
                found |= {
                    (topic.topic_id, int(each.id)): (str(each.leader.host), int(each.leader.port))
                    for each in described.partitions
                    if each.leader is not None
                }
        return found

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = DEFAULT,
        replicas: int = DEFAULT,
        config: Mapping[str, str] | None = None,
    ) -> bool:
        """Create the topic; False if it exists already, and then it stays as it is.

        Raises log_unavailable, or query_failed where the log refuses (NotAllowedError: this client may not).
        """
        wanted = NewTopic(
            name, num_partitions=partitions, replication_factor=replicas, config=dict(config or {})
        )
        created = self._admin.create_topics(
            [wanted], request_timeout=self._timeout, operation_timeout=self._timeout
        )
        if not self._done(created[name], f"create topic `{name}`", KafkaError.TOPIC_ALREADY_EXISTS):
            return False
        # In a cluster of several brokers the others learn of the topic a moment later.
        deadline = time.monotonic() + self._timeout
        while self.topic(name) is None and time.monotonic() < deadline:
            time.sleep(_VISIBLE_PAUSE_SECONDS)
        _log.info("created topic %s", name)
        return True

    def configure_topic(self, name: str, config: Mapping[str, str]) -> None:
        """Set these configs of a topic; others stay as they are. Raises log_unavailable, query_failed."""
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in config.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=entries)
        altered = self._admin.incremental_alter_configs([resource], request_timeout=self._timeout)
        try:
            altered[resource].result()
        except KafkaException as error:
            raise log_refused(self.bootstrap, f"configure topic `{name}`", error.args[0]) from error

    def sync_every_record(self, name: str) -> str | None:
        """Set flush.messages=1: each append is on the disk before it is acknowledged, and before it is read.

        Another value that the topic has of its own stays, and is returned. Raises log_unavailable,
        query_failed.
        """
        found = self._topic_config(name)["flush.messages"]
        if found.value == KEPT["flush.messages"]:
            return None
        if ConfigSource(found.source) is ConfigSource.DYNAMIC_TOPIC_CONFIG:
            return str(found.value)
        self.configure_topic(name, {"flush.messages": KEPT["flush.messages"]})
        return None

    def delete_topic(self, name: str) -> bool:
        """False if there is no such topic."""
        deleted = self._admin.delete_topics([name], request_timeout=self._timeout)
        return self._done(deleted[name], f"delete topic `{name}`", KafkaError.UNKNOWN_TOPIC_OR_PART)

    def ensure_compacted_topic(self, name: str, *, holds: str) -> None:
        """Create a compacted topic with one partition, which keeps the newest record of each key for ever.

        Every append is synced. If the topic exists, check that it is such a topic. Raises log_unavailable,
        invalid_setting.
        """
        if self.topic(name) is None:
            replicas = min(_MOST_REPLICAS, len(self.brokers()))
            if self.create_topic(name, partitions=1, replicas=replicas, config=KEPT):
                return
        config = self._topic_config(name)
        policy = config["cleanup.policy"].value
        found = self.topic(name)
        partitions = found.partitions if found is not None else 0
        if policy != "compact" or partitions != 1:
            raise HeadraceError(
                "invalid_setting",
                f"The topic {name} cannot hold {holds}: it has cleanup.policy={policy} "
                f"and {partitions} partitions, but must be compacted and have one.",
                remedy=f"Set cleanup.policy=compact on {name}, or delete the topic if it holds nothing.",
            )
        if config["flush.messages"].value != KEPT["flush.messages"]:
            self.configure_topic(name, KEPT)

    def topic_config(self, name: str) -> dict[str, str]:
        """The values in force for a topic, by the names of Kafka's configs. Raises log_unavailable."""
        found = self._topic_config(name)
        return {key: entry.value for key, entry in found.items() if entry.value is not None}

    def earliest(self, topics: Iterable[TopicIdentity]) -> dict[Partition, int]:
        """The first offset that is still there, by topic and partition."""
        return self._offsets(_places(topics), OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def latest(self, topics: Iterable[TopicIdentity]) -> dict[Partition, int]:
        """The offset that the next record will get, by topic and partition."""
        return self._offsets(_places(topics), OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def stable(self, topics: Iterable[TopicIdentity]) -> dict[Partition, int]:
        """Where the records end that readers of committed records get, by topic and partition: before the
        first record of a transaction that is still open.
        """
        return self._committed_ends(_places(topics))

    def stretches(self, topics: Iterable[TopicIdentity]) -> dict[str, dict[int, tuple[int, int]]]:
        """First and next offset of each partition, by topic. Topics deleted meanwhile are left out."""
        known = list(topics)
        # In this order: an earliest offset asked for later could lie behind the latest one.
        earliest = self.earliest(known)
        latest = self.latest(known)
        return {
            topic.name: {place[1]: (earliest[place], latest[place]) for place in topic.places}
            for topic in known
            if all(place in earliest and place in latest for place in topic.places)
        }

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Where the committed records of each partition end now; empty if there is no such topic."""
        found = self.lookup([topic]).values()
        return {number: offset for (_, number), offset in self._committed_ends(_places(found)).items()}

    def end_offset(self, topic: str, timeout: float) -> int:
        """Where the committed records of a topic with one partition end. Waits for a topic just created."""
        deadline = time.monotonic() + timeout
        while not (found := self._committed_ends([(topic, 0)], timeout)):
            if time.monotonic() > deadline:
                action = f"tell the offsets of topic `{topic}`"
                raise log_unavailable(self.bootstrap, action, "there is no such topic")
            time.sleep(_PAUSE_SECONDS)
        return found[topic, 0]

    def produce(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        timestamp_ms: int | None = None,
        headers: tuple[tuple[str, bytes | None], ...] = (),
    ) -> None:
        """Write one record, into the partition that Kafka's own clients would choose, and wait for it."""
        record = Outgoing(topic=topic, key=key, value=value, timestamp_ms=timestamp_ms, headers=headers)
        try:
            self._writer.write(record)
        except NotAcknowledgedError as error:
            raise log_refused(self.bootstrap, f"write to topic `{topic}`", error.error) from error

    def _metadata(self) -> ClusterMetadata:
        # Asked of all topics: asking for one by name could create it.
        try:
            return self._admin.list_topics(timeout=self._timeout)
        except KafkaException as error:
            raise log_unavailable(self.bootstrap, "list its topics", error) from error

    def _topic_config(self, name: str) -> Any:
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        try:
            return self._admin.describe_configs([resource], request_timeout=self._timeout)[resource].result()
        except KafkaException as error:
            action = f"describe the configuration of topic `{name}`"
            raise log_unavailable(self.bootstrap, action, error) from error

    def _done(self, future: Any, action: str, nothing_to_do: int) -> bool:
        """True once it is done, False if the log says that there is nothing to do."""
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() == nothing_to_do:
                return False
            raise log_refused(self.bootstrap, action, error.args[0]) from error
        return True

    def _committed_ends(self, places: list[Partition], timeout: float | None = None) -> dict[Partition, int]:
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return self._offsets(places, latest, IsolationLevel.READ_COMMITTED, timeout)

    def _offsets(
        self,
        places: list[Partition],
        spec: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        timeout: float | None = None,
    ) -> dict[Partition, int]:
        """By one request for all. Partitions that do not exist are left out."""
        seconds = self._timeout if timeout is None else timeout
        found: dict[Partition, int] = {}
        pending = places
        deadline = time.monotonic() + seconds
        while pending:
            without_leader: list[Partition] = []
            # Not asked of a consumer: that would block while another thread polls it.
            futures = self._admin.list_offsets(
                {TopicPartition(*place): spec for place in pending},
                isolation_level=isolation,
                request_timeout=seconds,
            )
            for asked, future in futures.items():
                place = (asked.topic, asked.partition)
                try:
                    found[place] = int(future.result().offset)
                except KafkaException as error:
                    is_in_doubt = is_absent_or_away(error.args[0]) and self._has(place)
                    if (is_in_doubt or is_without_leader(error.args[0])) and time.monotonic() < deadline:
                        without_leader.append(place)
                    elif is_in_doubt or not (is_absent(error.args[0]) or is_absent_or_away(error.args[0])):
                        action = f"tell the offsets of topic `{place[0]}`"
                        raise log_unavailable(self.bootstrap, action, error) from error
            pending = without_leader
            if pending:
                time.sleep(_PAUSE_SECONDS)
        return found

    def _has(self, place: Partition) -> bool:
        """Asks the log itself. Raises log_unavailable if it is away."""
        topic = self.topic(place[0])
        return topic is not None and place[1] < topic.partitions


def _places(topics: Iterable[TopicIdentity]) -> list[Partition]:
    return [place for topic in topics for place in topic.places]
