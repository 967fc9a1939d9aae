"""Workers are forked from a process that has what they need; whatever is killed, none is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest

from headrace.query.desk import Desk
from headrace.query.questions import Question, QuestionLimits
from headrace.query.result_formats import JSON
from headrace.query.workers.process import WorkerEndedError, WorkerProcess


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


@contextlib.asynccontextmanager
async def worker_in(folder: Path) -> AsyncIterator[WorkerProcess]:
    worker = await WorkerProcess.start(folder, QuestionLimits(), folder)
    try:
        yield worker
    finally:
        await worker.close()


def parent_of(worker: WorkerProcess) -> psutil.Process:
    parent = psutil.Process(worker.pid).parent()
    assert parent is not None
    assert parent.pid != os.getpid()
    return parent


def test_a_worker_is_forked_by_a_process_with_one_thread(tmp_path: Path) -> None:
    async def look() -> None:
        async with worker_in(tmp_path) as one, worker_in(tmp_path) as other:
            assert parent_of(one) == parent_of(other)
            assert parent_of(one).num_threads() == 1, "a fork has no other thread than the one that forks"

    asyncio.run(look())


def test_workers_share_most_of_their_memory(tmp_path: Path) -> None:
    async def look() -> None:
        async with worker_in(tmp_path) as worker:
            memory = psutil.Process(worker.pid).memory_full_info()
            assert memory.uss < memory.rss / 2, memory

    asyncio.run(look())


def test_a_closed_worker_leaves_no_process_and_no_folder(tmp_path: Path) -> None:
    async def look() -> None:
        async with worker_in(tmp_path) as worker:
            assert psutil.pid_exists(worker.pid)
        assert not psutil.pid_exists(worker.pid)
        assert list(tmp_path.iterdir()) == []

    asyncio.run(look())


def test_a_start_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    async def look() -> None:
        async with worker_in(tmp_path) as worker:
            forker = parent_of(worker)
            for steps in range(4):
                starting = asyncio.create_task(WorkerProcess.start(tmp_path, QuestionLimits(), tmp_path))
                # At several points of the start: before the fork, and while the worker becomes ready.
                for _ in range(steps):
                    await asyncio.sleep(0)
                starting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await starting
            assert [child.pid for child in forker.children()] == [worker.pid]
        assert list(tmp_path.iterdir()) == []

    asyncio.run(look())


def test_after_the_forking_process_was_killed_another_one_forks(tmp_path: Path) -> None:
    async def look() -> None:
        async with worker_in(tmp_path) as before:
            killed = parent_of(before)
            killed.kill()
            with pytest.raises(WorkerEndedError):
                await before.receive()
            with contextlib.suppress(OSError, WorkerEndedError):
                # It may not be noticed by the first one.
                await (await WorkerProcess.start(tmp_path, QuestionLimits(), tmp_path)).close()
            async with worker_in(tmp_path) as after:
                assert parent_of(after) != killed
        assert list(tmp_path.iterdir()) == []

    asyncio.run(look())


_PARENT = """
import asyncio, sys
from pathlib import Path
from headrace.query.desk import Desk
from headrace.query.questions import Question, QuestionLimits
from headrace.query.result_formats import JSON
from headrace.query.workers.process import WorkerProcess

async def main():
    folder = Path(sys.argv[1])
    worker = await WorkerProcess.start(folder, QuestionLimits(), folder)
    print(worker.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_workers_end_with_a_process_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PARENT, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        worker = psutil.Process(int(process.stdout.readline()))
        forker = worker.parent()
        assert forker is not None
        process.send_signal(signal.SIGKILL)
    wait_until(lambda: not worker.is_running() and not forker.is_running(), "they outlive their parent")


def test_a_worker_gives_back_what_a_question_needed_and_answers_the_next_one(tmp_path: Path) -> None:
    """What an allocator keeps counts against the limit of the next question; a worker that keeps much is
    replaced, and another one has nothing at hand.
    """
    large = "SELECT count(DISTINCT hash(range)) FROM range(4000000)"

    async def look() -> None:
        desk = Desk(tmp_path, limits=QuestionLimits(), slots=2, most_waiting=8, folder=tmp_path / "workers")
        await desk.start()
        try:
            answered = [await asked(desk, "SELECT 1")]
            before = private_bytes(answered[0])
            for _ in range(3):
                await asked(desk, large)
                wait_until(lambda: private_bytes(answered[0]) < before + 64 * 2**20, "memory is given back")
                answered.append(await asked(desk, "SELECT 1"))
            assert len(set(answered)) == 1
        finally:
            await desk.stop()

    asyncio.run(look())


async def asked(desk: Desk, sql: str) -> int:
    """Ask; the worker that answered."""
    answer = await desk.ask(Question(sql=sql, answer_format=JSON))
    assert answer._run is not None
    pid = answer._run.worker.pid
    async for _ in answer.parts():
        pass
    answer.close()
    return pid


def private_bytes(pid: int) -> int:
    """What RLIMIT_DATA counts."""
    (line,) = [
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmData:")
    ]
    return int(line.split()[1]) * 1024
