"""Writes single records and waits until the log has acknowledged them.

For records that matter one by one. Ingest, which writes many, has machinery of its own
(`http/events/delivery.py`). Crash behaviour: a record is written as a whole or not at all; whether a record
without an acknowledgement was written is unknown until the topic has been read to its end.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from headrace.client.connections import open_producer
from headrace.client.errors import NotAcknowledgedError

_log = logging.getLogger(__name__)

ANY_PARTITION: Final = -1
# What librdkafka takes for the current time.
_NOW: Final = 0
_CLOSE_SECONDS: Final = 5.0
# Another thread's poll may report our record, so none may last long.
_POLL_SECONDS: Final = 0.05

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A record to write. With `ANY_PARTITION` the key decides, as it does in Kafka's own clients."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int = ANY_PARTITION
    headers: Headers = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Where a record was written."""

    partition: int
    offset: int


Outcome = Written | KafkaError


class RecordWriter:
    """Safe for several threads."""

    def __init__(
        self,
        bootstrap: str,
        *,
        timeout_seconds: float,
        largest_message: int | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        """A record that is not acknowledged within `timeout_seconds` fails. `more` is for the producer."""
        self._bootstrap = bootstrap
        self._timeout = timeout_seconds
        self._more = dict(more or {})
        if largest_message is not None:
            self._more["message.max.bytes"] = largest_message
        self._lock = threading.Lock()
        self._producer: Producer | None = None

    def open(self) -> Producer:
        """Connect ahead of the first record: a producer needs about half a second until it may write."""
        with self._lock:
            if self._producer is None:
                self._producer = open_producer(
                    self._bootstrap, timeout_seconds=self._timeout, more=self._more
                )
            return self._producer

    def write(self, record: Outgoing, timeout: float | None = None) -> int:
        """Write one record; its offset once the log has it. Raises NotAcknowledgedError."""
        (outcome,) = self.write_all([record], timeout)
        if isinstance(outcome, KafkaError):
            raise NotAcknowledgedError(outcome)
        return outcome.offset

    def write_all(self, records: Sequence[Outgoing], timeout: float | None = None) -> list[Outcome]:
        """Write all, and tell what became of each, in their order."""
        if not records:
            return []
        seconds = self._timeout if timeout is None else timeout
        producer = self.open()
        reports = [_Report() for _ in records]
        for record, report in zip(records, reports, strict=True):
            _send(producer, record, report.delivered)
        deadline = time.monotonic() + seconds
        waiting = [report for report in reports if report.outcome is None]
        while waiting and time.monotonic() < deadline:
            producer.poll(_POLL_SECONDS)
            waiting = [report for report in waiting if report.outcome is None]
        for report in waiting:
            report.outcome = KafkaError(KafkaError._TIMED_OUT, f"no acknowledgement within {seconds:g} s")
        outcomes = [report.outcome for report in reports if report.outcome is not None]
        if waiting or any(isinstance(each, KafkaError) and _is_fatal(each) for each in outcomes):
            self._abandon(producer)
        return outcomes

    def write_later(self, record: Outgoing, on_outcome: Callable[[str], None] | None = None) -> None:
        """Write one record in the background.

        `on_outcome` is called once, by any thread, with the error, or with nothing if the record is written;
        it must not refer to this writer. Without it, an error is only logged.
        """

        # Does not refer to the producer, which refers to this: an abandoned producer could never end.
        def delivered(error: KafkaError | None, _message: Message | None) -> None:
            if on_outcome is not None:
                on_outcome("" if error is None else error.str())
            elif error is not None:
                _log.info("a record of %s was not written: %s", record.topic, error.str())

        producer = self.open()
        if not _send(producer, record, delivered):
            self._abandon(producer)
        producer.poll(0)

    def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """Wait so long for what `write_later` left, then drop the rest."""
        with self._lock:
            producer, self._producer = self._producer, None
        if producer is not None:
            producer.flush(seconds)

    def _abandon(self, producer: Producer) -> None:
        """Write with a new producer from now on.

        The old one may be broken for good, or may still hold records of which the caller has been told that
        they failed. It ends, and its queue with it, when no thread waits for it any more.
        """
        with self._lock:
            if self._producer is producer:
                self._producer = None


class _Report:
    """What the log says of one record."""

    def __init__(self) -> None:
        self.outcome: Outcome | None = None

    def delivered(self, error: KafkaError | None, message: Message | None) -> None:
        offset = message.offset() if message is not None else None
        if error is not None:
            self.outcome = error
        elif message is None or offset is None or offset < 0:
            self.outcome = KafkaError(KafkaError._TIMED_OUT, "the log did not say where it put the record")
        else:
            self.outcome = Written(partition=message.partition() or 0, offset=offset)


def _send(
    producer: Producer, record: Outgoing, delivered: Callable[[KafkaError | None, Message | None], None]
) -> bool:
    """Hand the record to the producer, which calls `delivered` once. False if the producer is broken."""
    try:
        producer.produce(
            record.topic,
            record.value,
            record.key,
            partition=record.partition,
            headers=list(record.headers),
            on_delivery=delivered,
            timestamp=record.timestamp_ms or _NOW,
        )
    except BufferError:
        delivered(KafkaError(KafkaError._QUEUE_FULL), None)
    except KafkaException as error:
        delivered(error.args[0], None)
        return not _is_fatal(error.args[0])
    return True


def _is_fatal(error: KafkaError) -> bool:
    return bool(error.fatal()) or error.code() == KafkaError._FATAL
