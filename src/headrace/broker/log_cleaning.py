"""Compacts topics in rounds of cleaning, one at a time, in a separate process.

If nothing is due it waits for `log.cleaner.backoff.ms`. The result of a round is put in place on the event
loop, which takes a few renames; the process does the reading and writing
(`log/compaction/cleaning_process.py`).

Invariants: one round at a time. The process ends with the task that runs this, and after a while without
work. A round that fails for any reason is logged and does not end the cleaning. Never looks into records.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headrace.log.compaction.cleaner import Cleaner, CleanerSettings, CleaningJob
from headrace.log.compaction.cleaning_process import CleaningProcess, RoundFailed

if TYPE_CHECKING:
    from headrace.broker.configs.store import ConfigStore

_log = logging.getLogger(__name__)

_LONGEST_STEP: Final = 1.0
# Rounds in quick succession share a process; an idle one is ended after this time.
_KEPT_SECONDS: Final = 5.0
# A backoff of 0 must not starve the event loop.
_SHORTEST_REST: Final = 0.01


class LogCleaning:
    """Cleans the logs of one broker. The server owns and cancels `run`."""

    def __init__(
        self,
        cleaner: Cleaner,
        configs: ConfigStore,
        now_ms: Callable[[], int],
        sync_closed: Callable[[], None] = lambda: None,
    ) -> None:
        """`sync_closed` syncs the closed segments of all logs."""
        self._cleaner: Final = cleaner
        self._sync_closed: Final = sync_closed
        self._configs: Final = configs
        self._now_ms: Final = now_ms
        # A process that has finished its round and waits for another.
        self._idle: CleaningProcess | None = None
        self._idle_since = 0.0

    async def run(self) -> None:
        """Clean logs when they are due, until cancelled."""
        try:
            while True:
                try:
                    carried_out = await self.clean_one()
                except Exception:
                    _log.exception("a round of cleaning failed; the next one follows")
                    carried_out = False
                if not carried_out:
                    await self._rest()
        finally:
            if self._idle is not None:
                self._idle.stop()

    async def _rest(self) -> None:
        """Wait for `log.cleaner.backoff.ms`, which may change in the meantime."""
        rested = 0.0
        while (left := self._configs.number("log.cleaner.backoff.ms") / 1000 - rested) > 0:
            rested += (step := min(left, _LONGEST_STEP))
            await asyncio.sleep(step)
            await self._end_if_idle_for_long()
        await asyncio.sleep(_SHORTEST_REST)
        await self._end_if_idle_for_long()

    async def _end_if_idle_for_long(self) -> None:
        loop = asyncio.get_running_loop()
        if self._idle is not None and loop.time() - self._idle_since >= _KEPT_SECONDS:
            process, self._idle = self._idle, None
            # The kernel needs time to free the memory that held the keys of a log; the loop must not wait for
            # it.
            await loop.run_in_executor(None, process.stop)

    async def clean_one(self) -> bool:
        """Run one round if a log is due. Returns whether one was carried out."""
        if not self._configs.flag("log.cleaner.enable"):
            return False
        rate = self._configs.broker("log.cleaner.io.max.bytes.per.second")
        assert isinstance(rate, float)
        self._cleaner.settings = CleanerSettings(
            key_memory_bytes=self._configs.number("log.cleaner.dedupe.buffer.size"), bytes_per_second=rate
        )
        job = self._cleaner.begin(self._now_ms())
        if job is None and self._cleaner.waits_for_disk:
            # The next checkpoint would do it too, but some seconds later.
            self._sync_closed()
        return job is not None and await self._carry_out(job)

    async def _carry_out(self, job: CleaningJob) -> bool:
        process, self._idle = self._idle, None
        try:
            if process is None:
                process = CleaningProcess(job.task)
            else:
                process.carry_out(job.task)
        except OSError as error:
            if process is not None:
                process.stop()
            self._cleaner.give_up(job, error)
            return False
        try:
            carried_out = await self._follow(job, process)
        except BaseException as error:
            cancelled = isinstance(error, asyncio.CancelledError)
            self._cleaner.give_up(job, "the broker stops" if cancelled else error)
            process.stop()
            self._cleaner.tidy(job)
            raise
        loop = asyncio.get_running_loop()
        if process.idle:
            self._idle, self._idle_since = process, loop.time()
        else:
            await loop.run_in_executor(None, process.stop)
        self._cleaner.tidy(job)
        return carried_out

    async def _follow(self, job: CleaningJob, process: CleaningProcess) -> bool:
        """Follow the process until the round is over. Returns whether it was carried out."""
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(process.fileno(), readable.set)
        try:
            while True:
                await readable.wait()
                readable.clear()
                for said in process.read():
                    if isinstance(said, RoundFailed):
                        self._cleaner.give_up(job, said.reason, lasting=said.lasting)
                        return False
                    if not self._cleaner.take(job, said, now_ms=self._now_ms()):
                        return not job.log.closed
        finally:
            loop.remove_reader(process.fileno())
