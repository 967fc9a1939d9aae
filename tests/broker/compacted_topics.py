"""Compacted topics of a broker that runs, for tests: filled so that segments close, and read to the end.

Segments close by `segment.ms`, which goes by the timestamps of records: every `generation` has its own, so
each but the last one stands in a closed segment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

WAIT_SECONDS = 120.0
# How the broker is told to clean without delay.
EAGER = {"log.cleaner.backoff.ms": "10"}
# And a topic: whatever is dirty, and segments of one generation.
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0", "segment.ms": "1000"}
BETWEEN_GENERATIONS_MS = 2000

Found = list[tuple[int, str, str | None]]
"""Offset, key and value of each record, in the order of the log."""


def create(bootstrap: str, name: str, **configs: str) -> None:
    """Make a topic of one partition; settings are written with underscores."""
    settings = COMPACTED | {key.replace("_", "."): value for key, value in configs.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 1, 1, config=settings)])[name].result(WAIT_SECONDS)


class Writer:
    """An idempotent producer that writes generations of records, one batch each."""

    def __init__(self, bootstrap: str, topic: str, *, age_ms: int = 3_600_000, **settings: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 100,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
                **{key.replace("_", "."): value for key, value in settings.items()},
            }
        )
        self._topic = topic
        self._timestamp = int(time.time() * 1000) - age_ms
        self.acknowledged: dict[int, tuple[str, str | None]] = {}
        """Key and value by offset."""

    def generation(self, values: Mapping[str, str | None]) -> None:
        for key, value in values.items():
            self._producer.produce(
                self._topic, value, key, timestamp=self._timestamp, on_delivery=self._delivered
            )
        assert self._producer.flush(WAIT_SECONDS) == 0
        self._timestamp += BETWEEN_GENERATIONS_MS

    def _delivered(self, error: KafkaError | None, message: object) -> None:
        assert error is None, error
        value = message.value()  # type: ignore[attr-defined]
        key = message.key().decode()  # type: ignore[attr-defined]
        self.acknowledged[message.offset()] = key, None if value is None else value.decode()  # type: ignore[attr-defined]

    def last_values(self) -> dict[str, str | None]:
        return {key: value for _offset, (key, value) in sorted(self.acknowledged.items())}


def read_all(bootstrap: str, topic: str, offset: int = OFFSET_BEGINNING) -> Found:
    """All records from an offset on, as a consumer gets them."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "auto.offset.reset": "error",
        }
    )
    consumer.assign([TopicPartition(topic, 0, offset)])
    found: Found = []
    deadline = time.monotonic() + WAIT_SECONDS
    try:
        while time.monotonic() < deadline:
            for message in consumer.consume(10_000, 0.05):
                if (error := message.error()) is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error.str()
                    return found
                value = message.value()
                key = message.key()
                assert key is not None
                text = key.decode() if isinstance(key, bytes) else key
                found.append((message.offset(), text, None if value is None else _text(value)))
    finally:
        consumer.close()
    raise AssertionError("the log cannot be read to its end")


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def wait_for_records(bootstrap: str, topic: str, expected: Callable[[Found], bool]) -> Found:
    """What is in the topic, once that is as expected."""
    found: Found = []

    def there() -> bool:
        found[:] = read_all(bootstrap, topic)
        return expected(found)

    wait_for(there, f"not as expected: {found[:50]}")
    return found


def numbered(keys: Iterable[str], number: int) -> dict[str, str | None]:
    return {key: f"{key} {number}" for key in keys}
