"""The demo's traffic: a thread that posts marketplace events to the events API at a steady rate.

Every other request is a single event, the rest are small batches. A request that fails is counted and
reported, but not retried: the demo's figures count what was accepted.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Final

import msgspec

from headrace.connect.generator.marketplace import Marketplace

_BATCH: Final = 10
_PAUSE_AFTER_FAILURE: Final = 0.5


class Traffic:
    """Posts events until stopped. `posted` counts events with a receipt, `failures` requests without one."""

    def __init__(
        self, *, host: str, port: int, events_per_second: int, events: Iterator[dict[str, str]]
    ) -> None:
        self._host = host
        self._port = port
        self._pace = events_per_second
        self._events = events
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)
        self.posted = 0
        self.failures = 0
        self.last_failure = ""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop after the response to the current request."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=30)
        began = time.monotonic()
        asked = 0
        single = True
        while not self._stopping.is_set():
            wait = began + asked / self._pace - time.monotonic()
            if wait > 0 and self._stopping.wait(wait):
                break
            batch = list(islice(self._events, 1 if single else _BATCH))
            body = msgspec.json.encode(batch[0] if single else batch)
            asked += len(batch)
            single = not single
            try:
                self._post(connection, body)
            except (OSError, http.client.HTTPException) as error:
                self._failed(repr(error))
                connection.close()
        connection.close()

    def _post(self, connection: http.client.HTTPConnection, body: bytes) -> None:
        connection.request("POST", "/events", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
        if response.status == http.client.OK:
            self.posted += len(msgspec.json.decode(answer)["accepted"])
        else:
            self._failed(f"{response.status} {answer[:200]!r}")

    def _failed(self, reason: str) -> None:
        self.failures += 1
        self.last_failure = reason
        self._stopping.wait(_PAUSE_AFTER_FAILURE)


def marketplace_traffic(*, host: str, port: int, events_per_second: int) -> Traffic:
    """Traffic of the example marketplace, dated around today."""
    events = Marketplace().events(datetime.now(UTC).date())
    return Traffic(host=host, port=port, events_per_second=events_per_second, events=events)
