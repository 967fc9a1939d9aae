"""One worker as its parent sees it: starting it, talking to it, and making an end of it.

Invariants: `close` leaves neither the process nor its folder; a worker that ended is noticed at once, since
its end of the socket is closed. One question at a time. Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import os
import pickle
import shutil
import signal
import socket
import tempfile
from pathlib import Path
from typing import Final, Self

from headrace.query.buckets.reading import BucketReader
from headrace.query.questions import Question, QuestionLimits, TablePlan
from headrace.query.table_snapshot import TableSnapshot
from headrace.query.workers.bucket_reads import BucketReads
from headrace.query.workers.forker_process import forker
from headrace.query.workers.frames import FrameError, Kind, framed, read

_START_SECONDS: Final = 60.0
# A killed process ends at once, unless the kernel waits for a disk.
_END_SECONDS: Final = 30.0
# More than a part of an answer, so that the worker encodes one while the other is sent.
_BUFFER_BYTES: Final = 512 * 1024

_log = logging.getLogger(__name__)

Frame = tuple[Kind, bytes]


class WorkerEndedError(Exception):
    """The worker is gone: killed, crashed, or out of memory."""


class WorkerProcess:
    """A worker that is ready. `start` makes one."""

    def __init__(
        self,
        pid: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        folder: Path,
        bucket_reader: BucketReader | None = None,
    ) -> None:
        self.pid = pid
        self._is_closed = False
        self._reader = reader
        self._writer = writer
        self._folder = folder
        self._number = 0
        self._known: dict[str, TableSnapshot] = {}
        self.answered = 0
        self._reads = (
            BucketReads(bucket_reader, lambda payload: self._write(Kind.BYTES, payload))
            if bucket_reader is not None
            else None
        )

    @classmethod
    async def start(
        cls,
        lake_dir: Path,
        limits: QuestionLimits,
        folder: Path,
        bucket_reader: BucketReader | None = None,
    ) -> Self:
        """Raises OSError, and WorkerEndedError if it does not become ready."""
        own = Path(tempfile.mkdtemp(dir=folder, prefix="worker-"))
        arguments = {
            "lake_dir": str(lake_dir),
            "limits": json.dumps(dataclasses.asdict(limits)),
            "temporary": str(own),
        }
        ours, theirs = socket.socketpair()
        forking = asyncio.create_task(asyncio.to_thread(forker().fork, arguments, theirs))
        try:
            await asyncio.wait([forking])
            pid = forking.result()
        except BaseException:
            # Also if this task was cancelled: a worker that nobody knows would stay.
            await asyncio.wait([forking])
            ours.close()
            await asyncio.to_thread(_clean_up, None if forking.exception() else forking.result(), own)
            raise
        reader, writer = await asyncio.open_unix_connection(sock=ours, limit=_BUFFER_BYTES)
        worker = cls(pid, reader, writer, own, bucket_reader)
        try:
            kind, _ = await asyncio.wait_for(worker.receive(), _START_SECONDS)
            if kind is not Kind.READY:
                raise WorkerEndedError(f"A worker began with {kind.name}.")
        except BaseException:
            await worker.close()
            raise
        return worker

    @property
    def has_ended(self) -> bool:
        return self._reader.at_eof()

    def ask(self, question: Question, tables: tuple[str, ...]) -> None:
        """`tables` are the names of all there are. Answers come with `receive`."""
        self._number += 1
        self._write(Kind.QUESTION, pickle.dumps((self._number, question, tables)))

    def plan(self, plans: list[TablePlan]) -> None:
        """The answer to TABLES. Snapshots that the worker has are not sent again."""
        if self._reads is not None:
            self._reads.admit(plan.snapshot for plan in plans if plan.snapshot is not None)
        sent = [
            dataclasses.replace(plan, snapshot=None)
            if plan.snapshot is not None and not plan.once and self._known.get(plan.name) is plan.snapshot
            else plan
            for plan in plans
        ]
        self._known |= {
            plan.name: plan.snapshot for plan in plans if plan.snapshot is not None and not plan.once
        }
        self._write(Kind.PLAN, pickle.dumps(sent))

    def interrupt(self) -> None:
        """End the question; ERROR follows, or END if it was faster."""
        # A plan that is on its way may never be read.
        self._known.clear()
        self._write(Kind.INTERRUPT, str(self._number).encode())

    async def receive(self) -> Frame:
        """The next frame. Raises WorkerEndedError."""
        try:
            while True:
                kind, payload = await read(self._reader)
                if kind is not Kind.READ:
                    return kind, payload
                if self._reads is not None:
                    self._reads.asked(payload)
        except (asyncio.IncompleteReadError, OSError, FrameError) as error:
            raise WorkerEndedError(f"The worker {self.pid} has ended.") from error

    def kill(self) -> None:
        # Until `close` has asked for its end, no other process gets its id.
        if not self._is_closed:
            _kill(self.pid)

    async def close(self) -> None:
        self.kill()
        if self._reads is not None:
            self._reads.close()
        self._is_closed = True
        self._writer.close()
        await asyncio.to_thread(_clean_up, self.pid, self._folder)

    def _write(self, kind: Kind, payload: bytes) -> None:
        # Small, and the worker's second thread always reads: no need to wait until it is sent.
        if not self._writer.is_closing():
            self._writer.write(framed(kind, payload))


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _clean_up(pid: int | None, folder: Path) -> None:
    if pid is not None:
        _kill(pid)
        if not forker().wait_ended(pid, seconds=_END_SECONDS):
            _log.error("worker %d for SQL was killed, and has not ended.", pid)
    shutil.rmtree(folder, ignore_errors=True)
