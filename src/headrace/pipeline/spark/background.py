"""Work on queries that may wait for others, for a storage above all, beside the loop that keeps the queries.

A storage that does not answer makes whoever asks it wait for a minute or more. So queries into the lake are
started and stopped here: the loop gives a job and goes on, and looks at it again in its next turn.

Invariants: jobs with a key in common run one after the other, in the order in which they were given, so a
run of a table begins only when the run before it has ended; others do not wait for them. Jobs that take much
of the machine take turns (`turns.py`), which somebody who hangs loses soon. A job that was given up before it
began is left out; one that ends later is disposed of before the next one with its keys begins.

Never ends a thread: what still hangs when the process ends, ends with it. So whatever is done here must
survive a kill.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any, Final, Generic, Protocol, TypeVar

from headrace.pipeline.spark.turns import Turns

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

# A thread that has nothing to do for so long ends. Each has a thread of the JVM as its counterpart.
_IDLE_SECONDS: Final = 30.0


class Job(Generic[Result]):
    """Work that was given. Its result belongs to whoever gave it, unless it was given up."""

    def __init__(self, work: Callable[[], Result], later: Callable[[Callable[[], object]], None]) -> None:
        """`later` is for disposing of a result that nobody wants any more."""
        self._work = work
        self._later = later
        self._lock = threading.Lock()
        self._is_done = False
        self._results: list[Result] = []
        self._error: BaseException | None = None
        self._dispose: Callable[[Result], object] | None = None

    @property
    def is_done(self) -> bool:
        return self._is_done

    @property
    def is_given_up(self) -> bool:
        return self._dispose is not None

    def result(self) -> Result:
        """Of a job that is done. Raises what its work has raised."""
        if self._error is not None:
            raise self._error
        return self._results[0]

    def give_up(self, dispose: Callable[[Result], object]) -> None:
        """Nobody asks for the result any more: `dispose` of it."""
        with self._lock:
            self._dispose = dispose
            if not self._is_done or self._error is not None:
                return
        self._later(lambda: dispose(self._results[0]))

    def carry_out(self) -> None:
        """For the thread that does the work. Raises nothing."""
        try:
            if not self.is_given_up:
                self._results.append(self._work())
        except BaseException as error:
            self._error = error
        with self._lock:
            self._is_done = True
            unwanted = self._results if self._dispose is not None else []
        for each in unwanted:
            assert self._dispose is not None
            _carry_out(lambda each=each: self._dispose(each))  # type: ignore[misc]


class Lane(Protocol):
    """Where the keeper of a query has it started and stopped."""

    def start(self, work: Callable[[], Result]) -> Job[Result]:
        """It may be done when this returns, or some time later."""
        ...

    def later(self, work: Callable[[], object]) -> None:
        """After everything that was given before."""
        ...


class Inline:
    """At once, by whoever asks for it."""

    def start(self, work: Callable[[], Result]) -> Job[Result]:
        job = Job(work, self.later)
        job.carry_out()
        return job

    def later(self, work: Callable[[], object]) -> None:
        work()


class _Given:
    """A job that is waiting or at work."""

    def __init__(self, keys: frozenset[str], carry_out: Callable[[], None]) -> None:
        self.keys = keys
        self.carry_out = carry_out
        self.is_begun = False


class Background:
    """Shared by the queries of a process. Threads are made as they are needed."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._changed = threading.Condition()
        # In the order in which they were given.
        self._given: list[_Given] = []
        self._idle = 0

    def lane(self, *keys: str) -> KeyedLane:
        """For work that has these keys."""
        return KeyedLane(self, frozenset(keys))

    def run(self, keys: frozenset[str], work: Callable[[], Result], *, takes_turn: bool) -> Job[Result]:
        job = Job(work, lambda more: self._later(keys, more))
        turn: Any = self._turns.one(lambda: job.is_given_up) if takes_turn else nullcontext()

        def carry_out() -> None:
            with turn:
                job.carry_out()

        self._give(_Given(keys, carry_out))
        return job

    def is_busy(self, keys: Iterable[str]) -> bool:
        wanted = frozenset(keys)
        with self._changed:
            return any(each.keys & wanted for each in self._given)

    def wait(self, keys: Iterable[str], seconds: float) -> bool:
        """Until nothing with these keys is left, or for so long; whether nothing is."""
        wanted = frozenset(keys)
        with self._changed:
            return self._changed.wait_for(
                lambda: not any(each.keys & wanted for each in self._given), seconds
            )

    def wait_for_all(self, seconds: float) -> bool:
        """Until nothing is left, or for so long; whether nothing is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._given, seconds)

    def _later(self, keys: frozenset[str], work: Callable[[], object]) -> None:
        self._give(_Given(keys, lambda: _carry_out(work)))

    def _give(self, given: _Given) -> None:
        with self._changed:
            self._given.append(given)
            if self._idle < sum(1 for _ in self._ready()):
                threading.Thread(target=self._work, name="background", daemon=True).start()
            self._changed.notify_all()

    def _ready(self) -> Iterable[_Given]:
        """Those that wait for nobody."""
        taken: set[str] = set()
        for each in self._given:
            if not each.is_begun and not each.keys & taken:
                yield each
            taken |= each.keys

    def _work(self) -> None:
        while (given := self._next()) is not None:
            given.carry_out()
            with self._changed:
                self._given.remove(given)
                self._changed.notify_all()

    def _next(self) -> _Given | None:
        deadline = time.monotonic() + _IDLE_SECONDS
        with self._changed:
            self._idle += 1
            try:
                while (given := next(iter(self._ready()), None)) is None:
                    if not self._changed.wait(deadline - time.monotonic()) and time.monotonic() >= deadline:
                        return None
                given.is_begun = True
                return given
            finally:
                self._idle -= 1


class KeyedLane:
    """The lane of one query."""

    def __init__(self, background: Background, keys: frozenset[str]) -> None:
        self._background = background
        self._keys = keys

    def start(self, work: Callable[[], Result]) -> Job[Result]:
        return self._background.run(self._keys, work, takes_turn=True)

    def later(self, work: Callable[[], object]) -> None:
        self._background._later(self._keys, work)

    @property
    def is_busy(self) -> bool:
        return self._background.is_busy(self._keys)

    def wait(self, seconds: float) -> bool:
        return self._background.wait(self._keys, seconds)


def _carry_out(work: Callable[[], object]) -> None:
    try:
        work()
    except Exception:
        # Nobody waits for it. A JVM that is gone is noticed elsewhere.
        logger.exception("Work in the background failed.")
