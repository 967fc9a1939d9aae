"""The writer's own duties: back-pressure, and ending a process whose producer failed for good."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from confluent_kafka import KafkaError

from headrace.client.connections import open_producer
from headrace.http.events import delivery
from headrace.http.events.delivery import LogWriter, LogWriterOptions, OutgoingEvent, Place
from headrace.http.events.failures import Failure, failure_of
from headrace.testing import EmbeddedBroker
from tests.http.events.driving import end_offsets
from tests.ports import free_port


def options(bootstrap: str, topic: str, **changes: Any) -> LogWriterOptions:
    values: dict[str, Any] = {"partitions": 1, "max_event_bytes": 1_000, "timeout_ms": 15_000, **changes}
    return LogWriterOptions(bootstrap=bootstrap, topic=topic, **values)


def never(reason: str) -> None:
    raise AssertionError(reason)


def test_a_full_queue_makes_requests_wait_and_loses_nothing(broker: EmbeddedBroker, topic_name: str) -> None:
    events = [OutgoingEvent(b'{"n":%d}' % number, None) for number in range(300)]

    async def scenario() -> list[list[Place | Failure]]:
        writer = LogWriter(options(broker.bootstrap, topic_name, queue_messages=7), on_fatal=never)
        try:
            return await asyncio.gather(*(writer.write(events, timestamp_ms=1_000) for _ in range(3)))
        finally:
            await writer.close()

    outcomes = [outcome for request in asyncio.run(scenario()) for outcome in request]
    offsets = [outcome.offset for outcome in outcomes if isinstance(outcome, Place)]
    assert sorted(offsets) == list(range(900))
    assert end_offsets(broker.bootstrap, topic_name, 1) == [900]


def test_a_queue_that_stays_full_fails_what_was_not_sent_and_says_that_it_was_not(
    broker: EmbeddedBroker, topic_name: str
) -> None:
    async def scenario() -> list[Place | Failure]:
        writer = LogWriter(
            options(broker.bootstrap, topic_name, timeout_ms=300),
            on_fatal=never,
            open_producer=lambda *given, **more: _FullProducer(open_producer(*given, **more)),
        )
        try:
            return await writer.write([OutgoingEvent(b"{}", None)] * 2, timestamp_ms=1_000)
        finally:
            await writer.close()

    outcomes = asyncio.run(scenario())
    assert len(outcomes) == 2
    for outcome in outcomes:
        assert isinstance(outcome, Failure)
        assert outcome.certain
        assert outcome.error.code == "log_unavailable"


class _FullProducer:
    """A producer whose queue never empties."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def produce(self, *_arguments: Any, **_options: Any) -> None:
        raise BufferError

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def test_a_producer_that_failed_for_good_is_reported() -> None:
    async def scenario() -> str:
        told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        writer = LogWriter(
            options(f"127.0.0.1:{free_port()}", "events", timeout_ms=300), on_fatal=told.set_result
        )
        try:
            # As librdkafka does, from the polling thread.
            report = writer._on_error
            await asyncio.to_thread(report, KafkaError(KafkaError._TRANSPORT, "a passing one"))
            await asyncio.to_thread(report, KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "gap", True))
            return await asyncio.wait_for(told, 120)
        finally:
            await writer.close()

    assert asyncio.run(scenario()) == "gap"


def test_the_first_events_of_a_new_topic_are_there_when_they_have_a_receipt(
    broker: EmbeddedBroker, topic_name: str
) -> None:
    """A new partition may refuse the first batch and take the next: neither may get lost in that."""
    events = [OutgoingEvent(b"{}", b"%d" % (number % 10)) for number in range(200)]

    async def scenario(topic: str) -> list[Place | Failure]:
        writer = LogWriter(options(broker.bootstrap, topic, partitions=3), on_fatal=never)
        try:
            return await writer.write(events, timestamp_ms=1_000)
        finally:
            await writer.close()

    for number in range(8):
        topic = f"{topic_name}_{number}"
        places = asyncio.run(scenario(topic))
        assert all(isinstance(place, Place) for place in places)
        assert len(set(places)) == 200
        assert sum(end_offsets(broker.bootstrap, topic, 3)) == 200


def test_an_event_without_a_place_gets_no_receipt() -> None:
    async def scenario() -> Place | Failure | None:
        loop = asyncio.get_running_loop()
        writer = LogWriter(options(f"127.0.0.1:{free_port()}", "events", timeout_ms=300), on_fatal=never)
        try:
            outcomes: list[Place | Failure | None] = [None]
            pending = delivery._Delivery(outcomes, 1, loop.create_future())
            writer._outstanding = 1
            writer._settle([(pending, 0, None, 3, None)])
            await pending.done
            return outcomes[0]
        finally:
            await writer.close()

    outcome = asyncio.run(scenario())
    assert isinstance(outcome, Failure)
    assert not outcome.certain


@pytest.mark.parametrize(
    ("code", "error", "certain"),
    [
        (KafkaError._MSG_TIMED_OUT, "log_unavailable", False),
        (KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, "log_unavailable", False),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "log_unavailable", True),
        (KafkaError.MSG_SIZE_TOO_LARGE, "event_too_large", True),
    ],
)
def test_an_error_says_whether_the_event_can_be_in_the_log(code: int, error: str, certain: bool) -> None:
    failure = failure_of(KafkaError(code), topic="events", bootstrap="unused")
    assert (failure.error.code, failure.certain) == (error, certain)
