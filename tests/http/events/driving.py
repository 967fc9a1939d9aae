"""Drives the events application as an ASGI server does, without one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Message, TopicPartition

from headrace.core.settings import Settings
from headrace.http.events.app import EventsApplication, create_events_app

JSON = "application/json"
LINES = "application/x-ndjson"


def settings_for(bootstrap: str, topic: str, **changes: Any) -> Settings:
    return Settings(
        data_dir=Path("unused"),
        engine="external",
        bootstrap_servers=bootstrap,
        events_topic=topic,
        **changes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: Any

    def offsets(self) -> list[tuple[int, int, int]]:
        return [(each["index"], each["partition"], each["offset"]) for each in self.body["accepted"]]

    def rejected(self) -> list[tuple[int, str]]:
        return [(each["index"], each["error"]) for each in self.body["rejected"]]


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[EventsApplication]:
    """The application between the two lifespan events."""
    application = create_events_app(settings)
    incoming: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    outgoing: asyncio.Queue[Any] = asyncio.Queue()
    life = asyncio.create_task(application({"type": "lifespan"}, incoming.get, outgoing.put))
    await incoming.put({"type": "lifespan.startup"})
    assert (await outgoing.get())["type"] == "lifespan.startup.complete"
    try:
        yield application
    finally:
        await incoming.put({"type": "lifespan.shutdown"})
        assert (await outgoing.get())["type"] == "lifespan.shutdown.complete"
        await life


async def ask(
    application: EventsApplication,
    method: str,
    path: str,
    messages: Iterable[dict[str, Any]] = (),
    headers: Iterable[tuple[bytes, bytes]] = (),
) -> Answer:
    scope = {"type": "http", "method": method, "path": path, "headers": list(headers)}
    waiting = iter(messages)
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return next(waiting)

    async def send(message: Any) -> None:
        sent.append(message)

    await application(scope, receive, send)
    start, *bodies = sent
    return Answer(
        status=start["status"],
        headers={name.decode(): value.decode() for name, value in start["headers"]},
        body=json.loads(b"".join(each["body"] for each in bodies)),
    )


async def post(
    application: EventsApplication, body: bytes, content_type: str = JSON, *, chunk: int = 0
) -> Answer:
    size = chunk or len(body) or 1
    chunks = [body[start : start + size] for start in range(0, len(body), size)] or [b""]
    messages = [
        {"type": "http.request", "body": each, "more_body": number < len(chunks) - 1}
        for number, each in enumerate(chunks)
    ]
    return await ask(application, "POST", "/events", messages, [(b"content-type", content_type.encode())])


def read_topic(bootstrap: str, topic: str, partition: int, count: int) -> list[Message]:
    """The first records of a partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        found: list[Message] = []
        while len(found) < count:
            messages = consumer.consume(count - len(found), timeout=120)
            assert messages, f"only {len(found)} of {count} records in {topic}/{partition}"
            for message in messages:
                assert message.error() is None
            found += messages
        return found
    finally:
        consumer.close()


def end_offsets(bootstrap: str, topic: str, partitions: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    try:
        return [
            consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=120)[1]
            for number in range(partitions)
        ]
    finally:
        consumer.close()
