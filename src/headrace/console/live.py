"""Samples the flow once a second, keeps some minutes of samples, and shares them with all open pages.

Owns the sampling task and the short history that charts start from. Invariants: however many pages are open,
the flow is sampled once per beat; a page that reads slowly skips beats and delays nobody; after `close` every
stream ends by itself, so that a server can stop without cutting connections. Never computes counts or
latencies: `query/flow.py` does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from headrace.core.errors import HeadraceError
from headrace.query.flow import FlowSnapshot

BEAT_SECONDS: Final = 1.0
HISTORY_BEATS: Final = 300
RATE_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Events per second at each stage, over the last seconds."""

    accepted: float = 0.0
    avro: float = 0.0
    dead_letters: float = 0.0
    lake: float = 0.0


# The first sample has nothing to be compared with: its rates are unknown, not zero.
UNKNOWN_RATES: Final = Rates()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSample:
    """The flow at one beat. `at` is in seconds since the epoch."""

    at: float
    snapshot: FlowSnapshot
    rates: Rates


class FlowHistory:
    """The last samples, oldest first. Time is an argument: it reads no clock."""

    def __init__(self, length: int = HISTORY_BEATS) -> None:
        self.samples: deque[FlowSample] = deque(maxlen=length)

    def add(self, at: float, snapshot: FlowSnapshot) -> FlowSample:
        sample = FlowSample(at=at, snapshot=snapshot, rates=self._rates(at, snapshot))
        self.samples.append(sample)
        return sample

    def _rates(self, at: float, snapshot: FlowSnapshot) -> Rates:
        earlier = next((sample for sample in self.samples if at - sample.at <= RATE_SECONDS), None)
        if earlier is None or at <= earlier.at:
            return UNKNOWN_RATES
        before = earlier.snapshot

        def rate(now: int, then: int) -> float:
            # A count that drops (the topic was deleted and recreated) is not a negative rate.
            return max(0, now - then) / (at - earlier.at)

        return Rates(
            accepted=rate(snapshot.accepted, before.accepted),
            avro=rate(snapshot.avro, before.avro),
            dead_letters=rate(snapshot.dead_letters, before.dead_letters),
            lake=rate(snapshot.lake, before.lake),
        )


class LiveFlow:
    """Samples the flow while `running` is entered, and wakes the open pages at every beat."""

    def __init__(
        self, take_snapshot: Callable[[], FlowSnapshot], *, beat_seconds: float = BEAT_SECONDS
    ) -> None:
        self.history = FlowHistory()
        self.trouble: HeadraceError | None = None
        self._take_snapshot = take_snapshot
        self._beat_seconds = beat_seconds
        self._beat = asyncio.Event()
        self._closed = False

    def latest(self) -> FlowSample:
        """The newest sample; takes the first one if there is none yet. Raises HeadraceError."""
        if not self.history.samples:
            if self.trouble is not None:
                raise self.trouble
            return self.history.add(time.time(), self._take_snapshot())
        return self.history.samples[-1]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._sample(), name="console-live-flow")
        try:
            yield
        finally:
            self.close()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def beats(self) -> AsyncIterator[None]:
        """Yields immediately, then at every beat, until `close`."""
        while not self._closed:
            beat = self._beat
            yield
            await beat.wait()

    def close(self) -> None:
        """End all streams. Safe to call twice."""
        self._closed = True
        self._beat.set()

    async def _sample(self) -> None:
        while not self._closed:
            started = time.monotonic()
            try:
                snapshot = await asyncio.to_thread(self._take_snapshot)
            except HeadraceError as error:
                self.trouble = error
            except Exception as error:
                # Pages must keep showing what is wrong; the log file has the details.
                _log.exception("Sampling the flow failed.")
                self.trouble = HeadraceError(
                    "log_unavailable",
                    f"Cannot read the flow: {error}.",
                    remedy="See the gateway's log file.",
                )
            else:
                self.trouble = None
                self.history.add(time.time(), snapshot)
            self._wake()
            await asyncio.sleep(max(0.0, self._beat_seconds - (time.monotonic() - started)))

    def _wake(self) -> None:
        # A new event per beat: waiters on the old one wake up, and latecomers still get the next.
        beat, self._beat = self._beat, asyncio.Event()
        beat.set()
        if self._closed:
            self._beat.set()
