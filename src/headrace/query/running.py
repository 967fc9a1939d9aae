"""One run of a question in a worker: its frames, its time, and its end.

Invariants: a run ends at the latest half a second after its time is up or it was told to end, if need be with
its worker; it gives its slot and its worker back exactly once, also if nobody reads its frames any more.
Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import enum
import json
from typing import Any, Final, TypeVar

from headrace.core.errors import HeadraceError
from headrace.query.questions import QuestionLimits
from headrace.query.slots import Seat, Slots
from headrace.query.workers.frames import Kind
from headrace.query.workers.pool import WorkerPool
from headrace.query.workers.process import Frame, WorkerEndedError, WorkerProcess

# A question that ran for longer is heavy.
LIGHT_SECONDS: Final = 1.0
# DuckDB stops within milliseconds where it looks; some functions do not look for minutes.
GRACE_SECONDS: Final = 0.5

_Value = TypeVar("_Value")


class Stop(enum.Enum):
    """Why a run was told to end."""

    TIME = "time"
    CANCELLED = "cancelled"
    PUT_BACK = "put back"
    ABANDONED = "abandoned"


class Run:
    """A question in a worker, from the moment it has one."""

    def __init__(
        self, worker: WorkerProcess, seat: Seat, slots: Slots, pool: WorkerPool, limits: QuestionLimits
    ) -> None:
        self.worker = worker
        self.stop: Stop | None = None
        # What the worker says of a plan that was out of date.
        self.ask_again = False
        self.widen: frozenset[str] = frozenset()
        self.is_outdated = False
        self.plainly = False
        self.in_lake = False
        self._seat = seat
        self._slots = slots
        self._pool = pool
        self._limits = limits
        self._reading: asyncio.Task[Frame] | None = None
        self._stopped = asyncio.Event()
        self._is_over = False
        self._kill: asyncio.TimerHandle | None = None
        self._draining: asyncio.Task[None] | None = None
        loop = asyncio.get_running_loop()
        seat.put_back = lambda: self.end(Stop.PUT_BACK)
        self._timers = (
            loop.call_later(LIGHT_SECONDS, self._light_time_is_up),
            loop.call_later(limits.seconds, self.end, Stop.TIME),
        )

    async def receive(self) -> Frame:
        """The next frame that is no error; END is the last. Raises HeadraceError."""
        if self._is_over:
            raise self._failure()
        if self._reading is None:
            self._reading = asyncio.create_task(self.worker.receive(), name="read-frame")
        try:
            # A caller that is cancelled must not take half of a frame with it.
            kind, payload = await asyncio.shield(self._reading)
        except WorkerEndedError:
            self._reading = None
            self._finish(is_usable=False)
            raise self._failure() from None
        self._reading = None
        if kind is Kind.END:
            self._finish(is_usable=True, memory=json.loads(payload)["memory"])
        elif kind is Kind.ERROR:
            content = json.loads(payload)
            self._finish(is_usable=True, memory=content["memory"])
            raise self._failure(content)
        return kind, payload

    async def unless_stopped(self, work: asyncio.Future[_Value]) -> _Value:
        """The outcome of the work. Raises HeadraceError if the run ends before it."""
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait(set[asyncio.Future[Any]]({work, stopped}), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
        while not work.done():
            await self.receive()
        return work.result()

    def may_flow(self) -> bool:
        """Whether the answer may be passed on, although it is not complete: the run is heavy from now on.

        If it cannot be, the run ends and is put back.
        """
        if self._is_over or self._seat.is_heavy or self._slots.grow_heavy(self._seat):
            return not self._is_over
        self.end(Stop.PUT_BACK)
        return False

    def end(self, stop: Stop) -> None:
        """Stop the question. What `receive` raises says why."""
        if self._is_over or self.stop is not None:
            return
        self.stop = stop
        self._stopped.set()
        self.worker.interrupt()
        self._kill = asyncio.get_running_loop().call_later(GRACE_SECONDS, self._kill_worker)

    def abandon(self) -> None:
        """Nobody will call `receive` again."""
        if self._is_over or self._draining is not None:
            return
        self.end(Stop.ABANDONED)
        self._draining = asyncio.create_task(self._drain(), name="drain-worker")

    async def until_over(self) -> None:
        """As `abandon`; returns when slot and worker are free again."""
        self.abandon()
        if self._draining is not None:
            await asyncio.shield(self._draining)

    async def _drain(self) -> None:
        try:
            while not self._is_over:
                await self.receive()
        except HeadraceError:
            return

    def _light_time_is_up(self) -> None:
        if not self._is_over and not self._seat.is_heavy:
            self._slots.grow_heavy(self._seat)

    def _kill_worker(self) -> None:
        if not self._is_over:
            self.worker.kill()
            self._finish(is_usable=False)

    def _finish(self, *, is_usable: bool, memory: int = 0) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._stopped.set()
        for timer in (*self._timers, *([self._kill] if self._kill is not None else [])):
            timer.cancel()
        self._seat.put_back = lambda: None
        # The worker first: whoever gets the slot finds it.
        self._pool.give_back(self.worker, is_usable=is_usable, memory=memory)
        self._slots.leave(self._seat)

    def _failure(self, content: dict[str, Any] | None = None) -> HeadraceError:
        if self.stop is Stop.TIME:
            return HeadraceError(
                "query_timed_out",
                f"The query was stopped after {self._limits.seconds:g} s.",
                remedy="Narrow it, preferably by the columns that the table is partitioned by.",
            )
        if self.stop is not None:
            return cancelled()
        if content is None:
            return HeadraceError(
                "query_failed",
                "The query ended the process that ran it. It may have needed more than the "
                f"{self._limits.memory_megabytes} MB of memory allowed.",
                remedy="Narrow it, or aggregate in steps.",
            )
        self.ask_again = bool(content["again"])
        self.widen = frozenset(content["widen"])
        self.plainly = bool(content["plainly"])
        self.is_outdated = bool(content["outdated"])
        self.in_lake = bool(content["in_lake"])
        return HeadraceError(content["error"], content["message"], remedy=content["remedy"])


def cancelled() -> HeadraceError:
    return HeadraceError("query_cancelled", "The query was cancelled.", remedy="Ask again.")
