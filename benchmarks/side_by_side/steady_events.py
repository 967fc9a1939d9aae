"""Events posted over HTTP at a steady rate, and when each is readable in a derived topic.

The latency of an event counts from the moment at which it was *due*, so that a stalled sender cannot hide a
stall (no coordinated omission).
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from headrace.core.settings import Settings
from side_by_side.background import Background
from side_by_side.waiting import wait_until

_SENDERS: Final = 8
_PATIENCE: Final = 180.0


class Reader(Background):
    """Records when each event, identified by its key, becomes readable in the topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "benchmark",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
                "log_level": 0,
            }
        )
        partitions = self._consumer.list_topics(topic, 30).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        self._seen: dict[str, float] = {}
        self.start()

    def latencies(self, due: dict[str, float]) -> list[float]:
        """Milliseconds from when each event was due until it was readable, sorted; waits for all of them."""
        wait_until(
            lambda: due.keys() <= self._seen.keys(),
            f"{len(due)} events have arrived; missing:",
            seconds=_PATIENCE,
            pause=0.05,
            explain=lambda: len(due.keys() - self._seen.keys()),
        )
        return sorted((self._seen[key] - moment) * 1000 for key, moment in due.items())

    def has_any(self, prefix: str) -> bool:
        """Whether an event whose key starts with this has arrived."""
        return any(key.startswith(prefix) for key in list(self._seen))

    def _run(self) -> None:
        while not self._stopping.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None and (key := message.key()) is not None:
                # The first time counts: a repetition is not when it became readable.
                self._seen.setdefault(key.decode(), time.monotonic())
        self._consumer.close()


class Sender:
    """Posts single events at a steady rate over several connections."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._local = threading.local()
        self._pool = ThreadPoolExecutor(_SENDERS)

    def send(self, prefix: str, count: int, rate: float) -> dict[str, float]:
        """Returns when each event was due, by its key."""
        # The server may have closed connections that were idle since the last time.
        self._local = threading.local()
        began = time.monotonic() + 0.1
        due = {f"{prefix}-{number}": began + number / rate for number in range(count)}
        list(self._pool.map(self._post, due.items()))
        return due

    def _post(self, event: tuple[str, float]) -> None:
        key, due = event
        time.sleep(max(0.0, due - time.monotonic()))
        body = json.dumps(
            {
                "Event_Type": "ListingView",
                "Event_Version": "1",
                "User_ID": key,
                "Listing_ID": "listing-1",
                "Server_Time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "Device_Type": "web",
            }
        )
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = http.client.HTTPConnection(
                self._settings.host, self._settings.ingest_port, timeout=60
            )
            self._local.connection = connection
        connection.request("POST", "/events", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
        if response.status != http.client.OK:
            raise RuntimeError(f"POST /events returned {response.status}: {answer!r}")

    def close(self) -> None:
        self._pool.shutdown()


def percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
