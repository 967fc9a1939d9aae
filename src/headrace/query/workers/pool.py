"""The workers of one platform: ready ones are taken and given back, and lost ones are replaced.

Invariants: after the first question there is always one ready worker more than are busy, up to `most`, so a
killed worker costs nobody the start of another; a worker that has answered many questions, or that keeps much
memory, is replaced when it is given back; `close` leaves no process and no folder. Belongs to one event loop.
Never decides who may ask; there is no limit on how many wait in `take`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from pathlib import Path
from typing import Final

from headrace.core.errors import HeadraceError
from headrace.query.buckets.reading import BucketReader
from headrace.query.questions import QuestionLimits
from headrace.query.workers.limits import MEGABYTE
from headrace.query.workers.process import WorkerEndedError, WorkerProcess

# Memory that a worker leaks or scatters comes back at the latest after so many questions.
_MOST_ANSWERS: Final = 2000
# Of the memory of a question: what an idle worker may keep. The next question has so much less.
_KEPT_SHARE: Final = 0.5
_FAILURES: Final = 3
_PAUSE_SECONDS: Final = 0.5

_log = logging.getLogger(__name__)


class WorkerPool:
    """At most `most` workers, idle and busy."""

    def __init__(
        self,
        lake_dir: Path,
        limits: QuestionLimits,
        folder: Path,
        *,
        most: int,
        bucket_reader: BucketReader | None = None,
    ) -> None:
        self._lake_dir = lake_dir
        self._limits = limits
        self._folder = folder
        self._most = most
        self._bucket_reader = bucket_reader
        self._idle: deque[WorkerProcess] = deque()
        self._busy: set[WorkerProcess] = set()
        self._starting: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._waiting: deque[asyncio.Future[WorkerProcess]] = deque()
        self._failures = 0
        self._closed = False

    @property
    def pids(self) -> list[int]:
        """Of all workers that are ready or busy."""
        return sorted(worker.pid for worker in (*self._idle, *self._busy))

    def warm_up(self) -> None:
        """Start a worker, unless one is there."""
        self._refill()

    async def take(self) -> WorkerProcess:
        """A ready worker; give it back. Raises process_failed if no worker can be started."""
        while self._idle:
            # The one that answered last has the tables, and the footers of their files, at hand.
            worker = self._idle.pop()
            if worker.has_ended:
                self._end(worker)
                continue
            self._busy.add(worker)
            self._refill()
            return worker
        future: asyncio.Future[WorkerProcess] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._refill()
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self.give_back(future.result(), is_usable=True)
            raise

    def give_back(self, worker: WorkerProcess, *, is_usable: bool, memory: int = 0) -> None:
        """`memory` is what it keeps of its questions, in bytes. One that is not usable is killed."""
        if worker not in self._busy:
            # Closing has ended it already.
            return
        self._busy.discard(worker)
        kept = self._limits.memory_megabytes * _KEPT_SHARE * MEGABYTE
        worker.answered += 1
        if self._closed or not is_usable or memory > kept or worker.answered >= _MOST_ANSWERS:
            self._end(worker)
            self._refill()
        else:
            self._offer(worker)

    async def close(self) -> None:
        self._closed = True
        for future in self._waiting:
            future.cancel()
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        for worker in (*self._idle, *self._busy):
            self._end(worker)
        self._idle.clear()
        await asyncio.gather(*self._ending, return_exceptions=True)

    def _refill(self) -> None:
        """Start workers for those who wait, and a spare one."""
        there = len(self._idle) + len(self._busy) + len(self._starting)
        wanted = min(self._most, len(self._busy) + sum(not each.done() for each in self._waiting) + 1)
        if self._closed:
            return
        for _ in range(wanted - there):
            task = asyncio.create_task(self._start(), name="start-worker")
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    async def _start(self) -> None:
        try:
            worker = await WorkerProcess.start(
                self._lake_dir, self._limits, self._folder, self._bucket_reader
            )
        except (OSError, TimeoutError, WorkerEndedError) as error:
            self._failures += 1
            _log.error("a worker for SQL could not be started: %s", error)
            if self._failures >= _FAILURES:
                self._refuse(error)
                return
            await asyncio.sleep(_PAUSE_SECONDS)
            self._starting.discard(_current())
            self._refill()
            return
        self._failures = 0
        self._offer(worker)

    def _offer(self, worker: WorkerProcess) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                self._busy.add(worker)
                future.set_result(worker)
                return
        self._idle.append(worker)

    def _refuse(self, error: Exception) -> None:
        self._failures = 0
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_exception(
                    HeadraceError(
                        "process_failed",
                        f"No worker for SQL could be started: {error}",
                        remedy="See the log file of the query process.",
                    )
                )

    def _end(self, worker: WorkerProcess) -> None:
        self._busy.discard(worker)
        task = asyncio.create_task(worker.close(), name="end-worker")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


def _current() -> asyncio.Task[None]:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("called outside of a task")
    return task
