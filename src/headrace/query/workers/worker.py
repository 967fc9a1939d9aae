"""A worker process: `forker.py` forks it, and calls `run` there with the worker's end of a socket.

Answers one question after the other. A second thread reads the socket all the time, so that an interruption
arrives while DuckDB runs, and the end of the parent ends this process at once. Invariants: it never outlives
its parent; it takes no more memory than its limits say; what it sends for a question ends with END or ERROR,
or with the end of the process. Never decides how long a question may take: the parent does.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import queue
import signal
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from headrace.core.errors import HeadraceError
from headrace.query.questions import NamedTables, Question, QuestionLimits, TablePlan
from headrace.query.workers.answering import Answering, AskAgainError
from headrace.query.workers.frames import Kind, receive, send
from headrace.query.workers.limits import (
    end_with_parent,
    give_way,
    limit_memory,
    limited_memory,
)
from headrace.query.workers.parts import Output

# An interruption may come between two uses of the connection: then it is repeated until it hits one.
_REPEAT_SECONDS: Final = 0.02


# What a question can cause in DuckDB and in Arrow. Anything else is a bug of ours and ends the worker.
_REPORTED: Final = (
    duckdb.Error, pa.ArrowException, MemoryError, RuntimeError, OSError,
    # Values that Python cannot hold, and parameters that DuckDB cannot take.
    ValueError, TypeError, ArithmeticError,
)  # fmt: skip


class _InterruptedError(Exception):
    """The parent no longer wants the answer."""


class Worker:
    """One worker, with the parent at the other end of the socket."""

    def __init__(self, connection: socket.socket, answering: Answering) -> None:
        self._connection = connection
        self._answering = answering
        self._frames: queue.SimpleQueue[tuple[Kind, bytes]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._running = 0
        self._interrupted = 0
        self._fresh_memory = limited_memory()
        # DuckDB's threads ask for files in buckets while the answer is sent.
        self._sending = threading.Lock()
        answering.bucket_files.send = lambda payload: self._send(Kind.READ, payload)
        answering.bucket_files.is_interrupted = self._is_interrupted

    def work(self) -> None:
        """For ever."""
        threading.Thread(target=self._listen, name="parent", daemon=True).start()
        send(self._connection, Kind.READY, b"")
        while True:
            kind, payload = self._frames.get()
            if kind is Kind.QUESTION:
                number, question, known = pickle.loads(payload)
                self._answer(number, question, known)
            # A plan that comes after the question has failed is of no use.

    def _answer(self, number: int, question: Question, known: tuple[str, ...]) -> None:
        with self._lock:
            self._running = number
        try:
            final = self._outcome(question, known)
        finally:
            with self._lock:
                self._running = 0
        with self._sending:
            send(self._connection, *final)

    def _outcome(self, question: Question, known: tuple[str, ...]) -> tuple[Kind, bytes]:
        output = Output(columns=self._send_columns, data=self._send_data)
        try:
            summary = self._answering.answer(question, known, self._tables_of, output)
        except HeadraceError as error:
            return self._error(error)
        except AskAgainError as error:
            changed = HeadraceError("query_failed", f"The table has changed. {error}", remedy="Ask again.")
            return self._error(changed, again=error)
        except _InterruptedError:
            return self._error(HeadraceError("query_failed", "The query was stopped."))
        except _REPORTED as error:
            return self._error(self._answering.failed(error))
        finally:
            self._answering.free()
        content = {**dataclasses.asdict(summary), "memory": self._kept_memory()}
        return Kind.END, json.dumps(content).encode()

    def _error(self, error: HeadraceError, *, again: AskAgainError | None = None) -> tuple[Kind, bytes]:
        content = {
            **error.as_json(),
            "again": again is not None,
            "widen": again.widen if again is not None else (),
            "plainly": again is not None and again.plainly,
            "outdated": again is not None and again.is_outdated,
            "in_lake": again is not None and again.in_lake,
        }
        return Kind.ERROR, json.dumps({**content, "memory": self._kept_memory()}).encode()

    def _kept_memory(self) -> int:
        return limited_memory() - self._fresh_memory

    def _tables_of(self, named: NamedTables) -> Sequence[TablePlan]:
        self._send(Kind.TABLES, json.dumps(dataclasses.asdict(named)).encode())
        kind, payload = self._frames.get()
        if kind is not Kind.PLAN:
            raise _InterruptedError
        plans: Sequence[TablePlan] = pickle.loads(payload)
        return plans

    def _send_columns(self, columns: Sequence[str], types: Sequence[str]) -> None:
        self._send(Kind.COLUMNS, json.dumps({"columns": list(columns), "types": list(types)}).encode())

    def _send_data(self, data: bytes | bytearray) -> None:
        if data:
            self._send(Kind.DATA, data)

    def _send(self, kind: Kind, payload: bytes | bytearray) -> None:
        if self._is_interrupted():
            raise _InterruptedError
        with self._sending:
            send(self._connection, kind, payload)

    def _is_interrupted(self) -> bool:
        return self._running == self._interrupted

    def _listen(self) -> None:
        try:
            while (frame := receive(self._connection)) is not None:
                kind, payload = frame
                if kind is Kind.INTERRUPT:
                    self._interrupt(int(payload))
                elif kind is Kind.BYTES:
                    self._answering.bucket_files.answered(payload)
                else:
                    self._frames.put(frame)
        finally:
            # The parent is gone, or there is no memory left to listen to it.
            os.kill(os.getpid(), signal.SIGKILL)

    def _interrupt(self, number: int) -> None:
        with self._lock:
            if self._running != number:
                return
            self._interrupted = number
        # It waits for a plan that will not come, or DuckDB runs.
        self._frames.put((Kind.INTERRUPT, b""))
        threading.Thread(target=self._keep_interrupting, args=(number,), daemon=True).start()

    def _keep_interrupting(self, number: int) -> None:
        pause = threading.Event()
        while True:
            with self._lock:
                if self._running != number:
                    return
                self._answering.connection.interrupt()
            pause.wait(_REPEAT_SECONDS)


def run(
    lake_dir: Path, limits: QuestionLimits, temporary: Path, connection: socket.socket, *, parent: int
) -> None:
    """For ever, or as long as the process with the id `parent` lives."""
    end_with_parent(parent)
    give_way()
    answering = Answering(lake_dir, limits, temporary)
    answering.warm_up()
    limit_memory(limits.memory_megabytes)
    Worker(connection, answering).work()
