"""One worker as its parent sees it: starting it, talking to it, and making an end of it.

Invariants: `close` leaves neither the process nor its folder; a worker that ended is noticed at once, since
its end of the socket is closed. One question at a time. Belongs to one event loop, whose thread starts the
process: the worker ends with that thread.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, Self

from headrace.query.questions import Question, QuestionLimits, TablePlan
from headrace.query.table_snapshot import TableSnapshot
from headrace.query.workers.frames import FrameError, Kind, framed, read

_START_SECONDS: Final = 60.0
# More than a part of an answer, so that the worker encodes one while the other is sent.
_BUFFER_BYTES: Final = 512 * 1024

Frame = tuple[Kind, bytes]


class WorkerEndedError(Exception):
    """The worker is gone: killed, crashed, or out of memory."""


class WorkerProcess:
    """A worker that is ready. `start` makes one."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        folder: Path,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._folder = folder
        self._number = 0
        self._known: dict[str, TableSnapshot] = {}
        self.answered = 0

    @classmethod
    async def start(cls, lake_dir: Path, limits: QuestionLimits, folder: Path) -> Self:
        """Raises WorkerEndedError if it does not become ready."""
        own = Path(tempfile.mkdtemp(dir=folder, prefix="worker-"))
        ours, theirs = socket.socketpair()
        try:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "headrace.query.workers.worker",
                    str(lake_dir),
                    json.dumps(dataclasses.asdict(limits)),
                    str(own),
                    str(theirs.fileno()),
                    str(os.getpid()),
                ],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        except BaseException:
            ours.close()
            shutil.rmtree(own, ignore_errors=True)
            raise
        finally:
            theirs.close()
        reader, writer = await asyncio.open_unix_connection(sock=ours, limit=_BUFFER_BYTES)
        worker = cls(process, reader, writer, own)
        try:
            kind, _ = await asyncio.wait_for(worker.receive(), _START_SECONDS)
            if kind is not Kind.READY:
                raise WorkerEndedError(f"A worker began with {kind.name}.")
        except BaseException:
            await worker.close()
            raise
        return worker

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def ask(self, question: Question, tables: tuple[str, ...]) -> None:
        """`tables` are the names of all there are. Answers come with `receive`."""
        self._number += 1
        self._write(Kind.QUESTION, pickle.dumps((self._number, question, tables)))

    def plan(self, plans: list[TablePlan]) -> None:
        """The answer to TABLES. Snapshots that the worker has are not sent again."""
        sent = [
            dataclasses.replace(plan, snapshot=None)
            if plan.snapshot is not None and self._known.get(plan.name) is plan.snapshot
            else plan
            for plan in plans
        ]
        self._known |= {plan.name: plan.snapshot for plan in plans if plan.snapshot is not None}
        self._write(Kind.PLAN, pickle.dumps(sent))

    def interrupt(self) -> None:
        """End the question; ERROR follows, or END if it was faster."""
        # A plan that is on its way may never be read.
        self._known.clear()
        self._write(Kind.INTERRUPT, str(self._number).encode())

    async def receive(self) -> Frame:
        """The next frame. Raises WorkerEndedError."""
        try:
            return await read(self._reader)
        except (asyncio.IncompleteReadError, OSError, FrameError) as error:
            raise WorkerEndedError(f"The worker {self.pid} has ended.") from error

    def kill(self) -> None:
        self._process.kill()

    async def close(self) -> None:
        self._process.kill()
        self._writer.close()
        await asyncio.to_thread(self._clean_up)

    def _clean_up(self) -> None:
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _write(self, kind: Kind, payload: bytes) -> None:
        # Small, and the worker's second thread always reads: no need to wait until it is sent.
        if not self._writer.is_closing():
            self._writer.write(framed(kind, payload))
