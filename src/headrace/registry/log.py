"""The topic `_schemas`: making it, reading it, and appending to it.

Any Kafka will do: nothing here needs transactions, and any number of registries may append at once; how they
agree is `proposals.py`. Crash behaviour: a record is there as a whole or not at all; of a record whose
acknowledgement did not come nobody knows, and it may appear later. Records of transactions that an earlier
version left aborted are not read. Never interprets a record.
"""

from __future__ import annotations

import logging
import time
import uuid
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

# Documented names, though not listed in `__all__`.
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
)

from headrace.core.errors import HeadraceError

_log = logging.getLogger(__name__)

PARTITION: Final = 0
MAX_REPLICAS: Final = 3
_SEND_TIMEOUT_MS: Final = 8_000
_CLOSE_SECONDS: Final = 1.0
# Right after a topic was made, and while its partition moves to another broker.
_NO_LEADER_YET: Final = frozenset(
    {
        KafkaError._NOENT,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)
_LEADER_PAUSE_SECONDS: Final = 0.05
# A committed record becomes visible when the broker looks at a waiting fetch again, at the latest.
_FETCH_WAIT_MS: Final = 100


class NotAcknowledgedError(Exception):
    """Nobody knows whether the record was written: read to the end to see."""


def ensure_topic(bootstrap: str, topic: str, timeout: float) -> None:
    """Make the topic, or check that the one that is there keeps schemas for ever."""
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=_log)
    try:
        known = admin.list_topics(timeout=timeout)
        if topic not in known.topics and _create(admin, topic, len(known.brokers), timeout):
            return
        _check(admin, topic, timeout)
    except KafkaException as error:
        raise unavailable(bootstrap, error) from error


def _create(admin: AdminClient, topic: str, brokers: int, timeout: float) -> bool:
    """False if somebody else was faster."""
    wanted = NewTopic(
        topic,
        num_partitions=1,
        replication_factor=min(MAX_REPLICAS, brokers),
        config={"cleanup.policy": "compact"},
    )
    created = admin.create_topics([wanted], request_timeout=timeout, operation_timeout=timeout)
    try:
        created[topic].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
        return False
    _log.info("created topic %s", topic)
    return True


def _check(admin: AdminClient, topic: str, timeout: float) -> None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    policy = admin.describe_configs([resource], request_timeout=timeout)[resource].result()["cleanup.policy"]
    partitions = len(admin.list_topics(topic, timeout=timeout).topics[topic].partitions)
    if policy.value == "compact" and partitions == 1:
        return
    raise HeadraceError(
        "invalid_setting",
        f"The topic {topic} cannot hold schemas: it has cleanup.policy={policy.value} "
        f"and {partitions} partitions, but must be compacted and have one.",
        remedy=f"Set cleanup.policy=compact on {topic}, or delete the topic if it holds nothing.",
    )


def unavailable(bootstrap: str, error: KafkaException) -> HeadraceError:
    return HeadraceError(
        "log_unavailable",
        f"The log at {bootstrap} did not answer as it should: {error.args[0].str()}.",
        remedy="Check that the log runs (`headrace status`), then try again.",
    )


class SchemaReader:
    """Reads the topic from its beginning. `poll` and `close` belong to one thread, `end_offset` to any."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._partition = TopicPartition(topic, PARTITION, 0)
        self._admin = AdminClient({"bootstrap.servers": bootstrap}, logger=_log)
        self._consumer: Any = Consumer(
            {
                "bootstrap.servers": bootstrap,
                # Asked for by the client although no group is joined and nothing is committed.
                "group.id": f"headrace-registry-{uuid.uuid4()}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": _FETCH_WAIT_MS,
                "reconnect.backoff.max.ms": 1_000,
                # While the log is away the client says so at every attempt; `poll` says it once.
                "log_level": 2,
            },
            logger=_log,
        )
        self._consumer.assign([self._partition])
        self._in_trouble = False

    def poll(self, timeout: float) -> tuple[Message | None, int | None]:
        """The next record, if one came, and the offset up to which all has been read, if that is news."""
        message: Message | None = self._consumer.poll(timeout)
        if message is None:
            return None, None
        error = message.error()
        if error is None:
            self._in_trouble = False
            return message, (message.offset() or 0) + 1
        if error.code() == KafkaError._PARTITION_EOF:
            self._in_trouble = False
            return None, message.offset() or 0
        # librdkafka goes on by itself; the reader only falls behind meanwhile.
        if not self._in_trouble:
            _log.warning("reading schemas: %s", error.str())
        self._in_trouble = True
        return None, None

    def end_offset(self, timeout: float) -> int:
        """Where the records end now. Raises KafkaException."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                return self._ask_for_end(max(0.1, deadline - time.monotonic()))
            except KafkaException as error:
                if error.args[0].code() not in _NO_LEADER_YET or time.monotonic() > deadline:
                    raise
            time.sleep(_LEADER_PAUSE_SECONDS)

    def _ask_for_end(self, timeout: float) -> int:
        # Not asked of the consumer: that would wait for ever while another thread polls it.
        found = self._admin.list_offsets(
            {self._partition: OffsetSpec.latest()},  # type: ignore[no-untyped-call]
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=timeout,
        )
        return int(found[self._partition].result().offset)

    def close(self) -> None:
        self._consumer.close()


class SchemaWriter:
    """Appends records. Not for several threads at once."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._producer: Any = None

    @property
    def is_open(self) -> bool:
        return self._producer is not None

    def open(self) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "acks": "all",
                # The client sends again what was not acknowledged, and the log then takes it once. A proposal
                # that stood there twice could change places with another once the first is compacted away.
                "enable.idempotence": True,
                "delivery.timeout.ms": _SEND_TIMEOUT_MS,
                "allow.auto.create.topics": False,
                "reconnect.backoff.max.ms": 1_000,
                "linger.ms": 0,
                # What goes wrong is told by the failed delivery.
                "log_level": 2,
            },
            logger=_log,
        )

    def close(self) -> None:
        """Wait a moment for what `write_later` left, then forget the rest."""
        if self._producer is not None:
            self._producer.flush(_CLOSE_SECONDS)
        self._give_up()

    def write(self, key: bytes, value: bytes | None, timeout: float) -> int:
        """Append one record; its offset, once the log has it. Raises NotAcknowledgedError."""
        outcome: list[tuple[KafkaError | None, int]] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            outcome.append((error, message.offset() or 0))

        deadline = time.monotonic() + timeout
        try:
            self._producer.produce(self._topic, value, key, partition=PARTITION, on_delivery=delivered)
            while not outcome and time.monotonic() < deadline:
                self._producer.poll(max(0.0, deadline - time.monotonic()))
        except KafkaException as error:
            self._give_up()
            raise NotAcknowledgedError(error.args[0].str()) from error
        refusal, offset = outcome[0] if outcome else (None, -1)
        if refusal is None and offset >= 0:
            return offset
        self._give_up()
        raise NotAcknowledgedError(refusal.str() if refusal else "the log did not acknowledge the record")

    def write_later(self, key: bytes, value: bytes | None) -> None:
        """Append one record in the background; if that fails, it is not written."""

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                _log.info("a record of %s was not written: %s", self._topic, error.str())

        try:
            self._producer.produce(self._topic, value, key, partition=PARTITION, on_delivery=delivered)
            self._producer.poll(0)
        except KafkaException as error:
            _log.info("a record of %s was not written: %s", self._topic, error.args[0].str())
            self._give_up()

    def _give_up(self) -> None:
        if self._producer is not None:
            self._producer.purge()
        self._producer = None
