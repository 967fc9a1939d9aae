"""Rounds of cleaning in a separate process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from multiprocessing.connection import wait
from pathlib import Path

import psutil

from headrace.log.compaction.cleaner import Cleaner, CleanerSettings
from headrace.log.compaction.cleaning_process import CleaningProcess, RoundFailed, Said
from headrace.log.compaction.cleaning_task import CleaningTask, RoundDone
from headrace.log.segments.swap_files import CleanedSegment
from headrace.log.segments.transaction_index import AbortedTransaction
from tests.log.batches import NOW, open_log
from tests.log.compaction.compacted import append, compact_config, names_in, records_of

CONFIG = compact_config(segment_bytes=2000)


def everything_said(process: CleaningProcess) -> list[Said]:
    said: list[Said] = []
    while not said or isinstance(said[-1], CleanedSegment):
        wait([process])
        said += process.read()
    return said


def test_a_round(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path / "data", CONFIG)
    for number in range(200):
        append(log, (b"k%d" % (number % 7), b"v" * 50), producer_id=7, producer_epoch=0, sequence=number)
    log.roll(now_ms=NOW)
    log.flush()
    left = sorted({record.key: record for record in records_of(log)}.values())
    cleaner = Cleaner(folder)
    job = cleaner.begin(NOW)
    assert job is not None
    process = CleaningProcess(job.task)
    assert process.read() == []
    said = everything_said(process)
    process.stop()
    assert isinstance(said[-1], RoundDone)
    assert said[-1].keys == 7
    # Nothing has happened to the log yet.
    assert len(records_of(log)) == 200
    for each in said:
        assert not isinstance(each, RoundFailed)
        assert cleaner.take(job, each, now_ms=NOW) == isinstance(each, CleanedSegment)
    assert records_of(log) == left
    assert not [name for name in names_in(log) if name.endswith((".cleaned", ".swap"))]
    folder.close()


def test_a_task_can_be_written_down(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path / "data", CONFIG)
    append(log, (b"k", b"1"), producer_id=7, producer_epoch=0, sequence=0)
    log.roll(now_ms=NOW)
    log.flush()
    aborted = AbortedTransaction(1, 2, 3, 4)
    job = Cleaner(folder, CleanerSettings(), aborted_in=lambda *_: [aborted]).begin(NOW)
    assert job is not None
    assert job.task.aborted == (aborted,)
    assert CleaningTask.from_json(job.task.to_json()) == job.task
    folder.close()


def test_failures_are_said(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path / "data", CONFIG)
    append(log, (b"k", b"1"), (b"k", b"2"))
    log.roll(now_ms=NOW)
    log.flush()
    cleaner = Cleaner(folder)
    job = cleaner.begin(NOW)
    assert job is not None
    path = Path(log.segments[0].log_path)
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"\xff")
    process = CleaningProcess(job.task)
    (damage,) = everything_said(process)
    process.stop()
    assert isinstance(damage, RoundFailed)
    assert damage.lasting
    path.write_bytes(content)
    process = CleaningProcess(job.task)
    os.kill(process.pid, signal.SIGKILL)
    (end,) = everything_said(process)
    process.stop()
    assert isinstance(end, RoundFailed)
    assert not end.lasting
    cleaner.give_up(job, end.reason)
    assert cleaner.clean(NOW)
    folder.close()


_PARENT = """
import sys
from headrace.log.compaction.cleaning_process import CleaningProcess
from headrace.log.compaction.cleaning_task import CleaningTask

process = CleaningProcess(CleaningTask.from_json(sys.stdin.read()))
print(process.pid, flush=True)
sys.stdin.close()
process._process.wait()
"""


def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    """Also if the parent is killed, and while the process sleeps to keep its pace."""
    folder, log = open_log(tmp_path / "data", CONFIG)
    for number in range(200):
        append(log, (b"k%d" % (number % 7), b"v" * 50))
    log.roll(now_ms=NOW)
    log.flush()
    job = Cleaner(folder, CleanerSettings(bytes_per_second=1)).begin(NOW)
    assert job is not None
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    try:
        parent.stdin.write(job.task.to_json())
        parent.stdin.close()
        child = psutil.Process(int(parent.stdout.readline()))
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
    deadline = time.monotonic() + 120
    while is_alive(child):
        assert time.monotonic() < deadline, "it goes on without its parent"
        time.sleep(0.01)
    folder.close()


def is_alive(process: psutil.Process) -> bool:
    try:
        # If nobody reaps orphans, a process that has ended stays as a zombie.
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_a_process_carries_out_one_round_after_the_other(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path / "data", CONFIG)
    cleaner = Cleaner(folder)
    process: CleaningProcess | None = None
    for number in range(3):
        for again in range(5):
            append(log, (b"k%d" % number, b"%d" % again))
        log.roll(now_ms=NOW)
        log.flush()
        job = cleaner.begin(NOW)
        assert job is not None
        if process is None:
            process = CleaningProcess(job.task)
        else:
            process.carry_out(job.task)
        assert not process.idle
        for each in everything_said(process):
            assert not isinstance(each, RoundFailed)
            cleaner.take(job, each, now_ms=NOW)
        assert process.idle
    assert process is not None
    process.stop()
    assert {record.key: record.value for record in records_of(log)} == {b"k%d" % n: b"4" for n in range(3)}
    assert len(records_of(log)) == 3
    folder.close()
