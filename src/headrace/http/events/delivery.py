"""Writes events to the log and reports the outcome of each.

Owns this process's idempotent producer, the thread that polls it, and the topic, which is created before the
first event and again if somebody deletes it. Invariants: an event gets a place in the log, or a `Failure`
that says whether it may be there; all state belongs to the event loop's thread, and the polling thread only
collects librdkafka's reports and hands them over once per poll; a full queue makes the writer wait and is
not an error. Never sends an event a second time unless the log has said that the topic did not exist the
first time.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headrace.client.cluster import Cluster
from headrace.client.connections import open_producer
from headrace.client.errors import KafkaError, KafkaException, log_unavailable
from headrace.client.message_sizes import event_message_bytes
from headrace.core.errors import HeadraceError
from headrace.http.events.failures import (
    TOPIC_GONE,
    Failure,
    failure_of,
    no_offset,
    no_topic,
    queue_full,
)
from headrace.http.events.topic import EventsTopic

_log = logging.getLogger(__name__)

# Between two lookups of a topic that was just created and that some brokers do not know yet.
_TOPIC_PAUSE_SECONDS: Final = 0.05
_POLL_SECONDS: Final = 0.2
# After so many events the event loop gets a turn, so that a large batch does not block other requests.
_EVENTS_PER_TURN: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWriterOptions:
    """Where and how events are written."""

    bootstrap: str
    topic: str
    partitions: int
    max_event_bytes: int
    timeout_ms: int
    queue_messages: int = 100_000


@dataclass(frozen=True, slots=True)
class OutgoingEvent:
    """One event, ready to be written."""

    value: bytes
    key: bytes | None


@dataclass(frozen=True, slots=True)
class Place:
    """Where an event is in the log."""

    partition: int
    offset: int


Outcome = Place | Failure


class _Delivery:
    """The events of one attempt that the log has not answered yet."""

    __slots__ = ("done", "errors", "outcomes", "remaining")

    def __init__(self, outcomes: list[Outcome | None], remaining: int, done: asyncio.Future[None]) -> None:
        self.outcomes = outcomes
        self.remaining = remaining
        self.done = done
        self.errors: dict[int, KafkaError] = {}

    def succeed(self, position: int, place: Place) -> None:
        self.outcomes[position] = place
        self._count_down()

    def fail(self, position: int, failure: KafkaError | Failure) -> None:
        """A `KafkaError` still has to be judged; a `Failure` is final."""
        if isinstance(failure, Failure):
            self.outcomes[position] = failure
        else:
            self.errors[position] = failure
        self._count_down()

    def _count_down(self) -> None:
        self.remaining -= 1
        if self.remaining == 0 and not self.done.done():
            self.done.set_result(None)


# Delivery, position in it, error, partition, offset.
_Report = tuple[_Delivery, int, KafkaError | None, int, int | None]


class LogWriter:
    """Writes to one topic. Created, used and closed in one event loop."""

    def __init__(
        self,
        options: LogWriterOptions,
        *,
        on_fatal: Callable[[str], None],
        open_producer: Callable[..., Any] = open_producer,
    ) -> None:
        """`on_fatal` is called when the producer can never write again and this process must be replaced."""
        self._options = options
        self._on_fatal = on_fatal
        self._loop = asyncio.get_running_loop()
        self._timeout = options.timeout_ms / 1000
        self._room = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._outstanding = 0
        self._topic_ready = False
        self._topic_id = ""
        self._preparing: asyncio.Task[str] | None = None
        self._arrived: list[_Report] = []
        self._stopping = False
        self._topic = EventsTopic(
            Cluster(options.bootstrap, timeout_seconds=self._timeout),
            name=options.topic,
            partitions=options.partitions,
            max_event_bytes=options.max_event_bytes,
        )
        self._producer: Any = open_producer(
            options.bootstrap,
            timeout_seconds=self._timeout,
            more=_configuration(options),
            on_error=self._on_error,
            logger=_log,
        )
        self._poller = threading.Thread(target=self._poll, name="log-writer", daemon=True)
        self._poller.start()

    async def write(self, events: Sequence[OutgoingEvent], *, timestamp_ms: int) -> list[Outcome]:
        """Write all events and wait for each outcome; outcomes are in the order of the events."""
        outcomes: list[Outcome | None] = [None] * len(events)
        deadline = self._loop.time() + self._timeout
        waiting: Sequence[int] = range(len(events))
        while waiting:
            try:
                await self._prepare_topic()
            except HeadraceError as error:
                _fail_all(outcomes, waiting, error)
                break
            waiting = await self._attempt(events, outcomes, waiting, timestamp_ms, deadline)
            if waiting:
                self._topic_ready = False
                if self._loop.time() >= deadline:
                    _fail_all(outcomes, waiting, no_topic(self._options.topic))
                    break
                await asyncio.sleep(_TOPIC_PAUSE_SECONDS)
        return [outcome for outcome in outcomes if outcome is not None]

    async def check(self, timeout: float) -> None:
        """Raise log_unavailable unless the log answers within the time."""
        await asyncio.to_thread(self._look_for_topic, timeout)

    async def close(self) -> None:
        """Wait for events in flight, as long as a request would, and release the producer."""
        try:
            await asyncio.wait_for(self._idle.wait(), self._timeout)
        except TimeoutError:
            _log.warning("%d events had no answer from the log when ingest ended", self._outstanding)
        if self._preparing is not None:
            await asyncio.gather(self._preparing, return_exceptions=True)
        self._stopping = True
        await asyncio.to_thread(self._poller.join)

    async def _attempt(
        self,
        events: Sequence[OutgoingEvent],
        outcomes: list[Outcome | None],
        positions: Sequence[int],
        timestamp_ms: int,
        deadline: float,
    ) -> list[int]:
        """Write these events once; returns the positions of those that found no topic."""
        topic_id = self._topic_id
        delivery = _Delivery(outcomes, len(positions), self._loop.create_future())
        for count, position in enumerate(positions):
            if count % _EVENTS_PER_TURN == _EVENTS_PER_TURN - 1:
                await asyncio.sleep(0)
            event = events[position]
            report = functools.partial(self._report, delivery, position)
            while True:
                try:
                    self._producer.produce(
                        self._options.topic,
                        event.value,
                        event.key,
                        on_delivery=report,
                        timestamp=timestamp_ms,
                    )
                except BufferError:
                    if await self._wait_for_room(deadline):
                        continue
                    delivery.fail(position, Failure(queue_full(), certain=True))
                except KafkaException as error:
                    delivery.fail(position, self._not_queued(error.args[0]))
                else:
                    self._outstanding += 1
                    self._idle.clear()
                break
        await delivery.done
        return await self._judge(delivery, topic_id) if delivery.errors else []

    async def _judge(self, delivery: _Delivery, topic_id: str) -> list[int]:
        """Turn errors into outcomes; returns the positions that can safely be written again."""
        again: list[int] = []
        dropped: list[int] = []
        for position, error in delivery.errors.items():
            if error.code() in TOPIC_GONE:
                again.append(position)
            elif error.code() == KafkaError._DESTROY:
                dropped.append(position)
            else:
                delivery.outcomes[position] = self._failure(error)
        if dropped and await self._is_gone(topic_id):
            again += dropped
        else:
            for position in dropped:
                delivery.outcomes[position] = self._failure(delivery.errors[position])
        return sorted(again)

    def _failure(self, error: KafkaError) -> Failure:
        return failure_of(error, topic=self._options.topic, bootstrap=self._options.bootstrap)

    async def _is_gone(self, topic_id: str) -> bool:
        """Whether the topic with that id is gone: librdkafka then drops what it had queued for it."""
        try:
            return await asyncio.to_thread(self._topic.identity) != topic_id
        except HeadraceError:
            return False

    def _not_queued(self, error: KafkaError) -> KafkaError | Failure:
        """Whatever the reason, the event is not in the log."""
        if error.code() in TOPIC_GONE:
            return error
        return Failure(self._failure(error).error, certain=True)

    async def _wait_for_room(self, deadline: float) -> bool:
        """Whether some events left the queue before the deadline."""
        self._room.clear()
        try:
            await asyncio.wait_for(self._room.wait(), max(0.0, deadline - self._loop.time()))
        except TimeoutError:
            return False
        return True

    def _report(self, delivery: _Delivery, position: int, error: KafkaError | None, message: Any) -> None:
        """Called by librdkafka in the polling thread."""
        self._arrived.append((delivery, position, error, message.partition(), message.offset()))

    def _poll(self) -> None:
        while not self._stopping:
            self._producer.poll(_POLL_SECONDS)
            if self._arrived:
                arrived, self._arrived = self._arrived, []
                self._loop.call_soon_threadsafe(self._settle, arrived)

    def _settle(self, arrived: list[_Report]) -> None:
        for delivery, position, error, partition, offset in arrived:
            if error is not None:
                delivery.fail(position, error)
            elif offset is None:
                # librdkafka concludes that it was written, but the log did not say where: no receipt.
                delivery.fail(position, Failure(no_offset(), certain=False))
            else:
                delivery.succeed(position, Place(partition, offset))
        self._outstanding -= len(arrived)
        self._room.set()
        if not self._outstanding:
            self._idle.set()

    def _on_error(self, error: KafkaError) -> None:
        """Called by librdkafka in the polling thread; it recovers by itself unless the error is fatal."""
        if error.fatal():
            self._loop.call_soon_threadsafe(self._on_fatal, error.str())

    async def _prepare_topic(self) -> None:
        """Make sure that the topic exists; requests that wait for it share one attempt."""
        if self._topic_ready:
            return
        if self._preparing is None:
            self._preparing = self._loop.create_task(asyncio.to_thread(self._ensure_topic))
            self._preparing.add_done_callback(self._prepared)
        await asyncio.shield(self._preparing)

    def _prepared(self, task: asyncio.Task[str]) -> None:
        self._preparing = None
        # Retrieved here, so that a failure counts as seen even if every waiting request is gone.
        self._topic_ready = not task.cancelled() and task.exception() is None
        if self._topic_ready:
            self._topic_id = task.result()

    def _ensure_topic(self) -> str:
        identity = self._topic.ensure()
        # The producer remembers that a topic was missing until it looks again.
        self._look_for_topic(self._timeout)
        return identity

    def _look_for_topic(self, timeout: float) -> None:
        try:
            self._producer.list_topics(self._options.topic, timeout=timeout)
        except KafkaException as error:
            raise log_unavailable(self._options.bootstrap, "list its topics", error) from error


def _configuration(options: LogWriterOptions) -> dict[str, Any]:
    """What this producer sets beyond the common configuration."""
    largest = event_message_bytes(options.max_event_bytes)
    return {
        "client.id": "headrace-ingest",
        # A partition that does not know this producer yet accepts whatever batch arrives first. With several
        # in flight, if the first fails and the second succeeds, librdkafka takes the first for written
        # ("implicitly acked"), which it is not.
        "max.in.flight.requests.per.connection": 1,
        # The events of a batch are similar.
        "compression.type": "lz4",
        "request.timeout.ms": options.timeout_ms,
        "message.max.bytes": largest,
        "queue.buffering.max.messages": options.queue_messages,
        "queue.buffering.max.kbytes": max(65_536, 4 * largest // 1024),
        "socket.nagle.disable": True,
        # A missing topic is reported at once and created here, with the partitions of the settings.
        "topic.metadata.propagation.max.ms": 1,
        # Informational: log what happens to the connection.
        "log_level": 6,
    }


def _fail_all(outcomes: list[Outcome | None], positions: Sequence[int], error: HeadraceError) -> None:
    for position in positions:
        outcomes[position] = Failure(error, certain=True)
