"""A source topic with dead letters of its records, as queries write them, and the command on them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from click.testing import Result
from confluent_kafka import Consumer, TopicPartition
from typer.testing import CliRunner

from headrace.cli.app import app
from headrace.testing import EmbeddedBroker
from tests.query.records import create_topic, produce

REASON = "The value is not a JSON object."


@dataclass(frozen=True, kw_only=True)
class Letters:
    """`source` and `topic`, its dead-letter topic, exist and are empty at first."""

    broker: EmbeddedBroker
    source: str

    @property
    def topic(self) -> str:
        return f"{self.source}_dlq"

    def add(self, value: bytes | None, *, offset: int, key: bytes | None = b"u1", **more: Any) -> None:
        """A dead letter of the record at that offset of the source."""
        produce(
            self.broker.bootstrap,
            self.topic,
            [{"value": value, "key": key, "partition": 0, "headers": self.headers(offset, **more)}],
        )

    def headers(
        self,
        offset: int,
        *,
        query: str = "CSAS_EVENTS_AVRO_1",
        attempts: int = 1,
        partition: int = 0,
        original: tuple[tuple[str, bytes | None], ...] = (),
        source: str | None = None,
    ) -> list[tuple[str, bytes | None]]:
        return [
            ("headrace-source", f"{query}/someid/{partition}/{offset}/0".encode()),
            ("headrace-rowtime", b"1700000000000"),
            ("headrace-posted-at", b"1700000000000"),
            ("headrace-error", REASON.encode()),
            ("headrace-query", query.encode()),
            ("headrace-read-from", f"{source or self.source}/someid/{partition}/{offset}".encode()),
            ("headrace-attempts", str(attempts).encode()),
            ("headrace-position", b"line 3, column 8"),
            *((f"headrace-original-{name}", value) for name, value in original),
        ]

    def run(self, *arguments: str, env: dict[str, str] | None = None) -> Result:
        """`headrace dlq …` on this log. What it raises is raised here."""
        address = ["--engine", "external", "--bootstrap-servers", self.broker.bootstrap]
        result = CliRunner().invoke(app, ["dlq", *arguments, *address], env=env)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def answer(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json").stdout)

    def sent(self) -> list[Any]:
        """All records of the source topic, partition by partition."""
        return all_records(self.broker.bootstrap, self.source)

    def sent_values(self) -> list[bytes | None]:
        return [record.value() for record in self.sent()]


def with_letters(broker: EmbeddedBroker, source: str, *, partitions: int = 2) -> Letters:
    letters = Letters(broker=broker, source=source)
    create_topic(broker.bootstrap, letters.source, partitions=partitions)
    create_topic(broker.bootstrap, letters.topic, partitions=2)
    return letters


def all_records(bootstrap: str, topic: str) -> list[Any]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "enable.auto.commit": False})
    found: list[Any] = []
    try:
        for number in sorted(consumer.list_topics(topic).topics[topic].partitions):
            first, end = consumer.get_watermark_offsets(TopicPartition(topic, number))
            consumer.assign([TopicPartition(topic, number, first)])
            while first < end:
                (record,) = consumer.consume(1, timeout=120)
                assert record.error() is None
                found.append(record)
                first = record.offset() + 1
    finally:
        consumer.close()
    return found
