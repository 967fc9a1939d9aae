"""Histories on disk: all events come back, files are merged by time, what is no event is an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random
from typing import get_args

import pytest

from headrace.testing.history import (
    ClientFailed,
    Event,
    HistoryError,
    HistoryWriter,
    ProducerStarted,
    Revoked,
    SendInvoked,
    check,
    partition_name,
    read_history,
)
from headrace.testing.history.facts import Facts
from headrace.testing.history.files import decode
from tests.testing.planted_anomalies import PLANTS
from tests.testing.simulated_run import simulate


def write(path: Path, events: list[Event]) -> Path:
    with HistoryWriter(path) as history:
        for event in events:
            history.write(event)
    return path


def send(time: int, client: str = "producer") -> SendInvoked:
    return SendInvoked(client=client, value=f"{client}:{time}", partition="orders/0", time=time)


def test_every_event_comes_back(tmp_path: Path) -> None:
    events = [
        *simulate(Random(7), 60),
        ProducerStarted(client="t", idempotent=True, transactional_id="id"),
        ClientFailed(client="t", error='ä \n\t" \u2028', fatal=False),
        Revoked(client="c", partition=partition_name("orders", 1)),
    ]
    assert {type(each) for each in events} == set(get_args(Event))
    assert read_history(write(tmp_path / "one.jsonl", events)) == events


def test_files_are_merged_by_time(tmp_path: Path) -> None:
    write(tmp_path / "b.jsonl", [send(1, "b"), send(4, "b")])
    write(tmp_path / "a.jsonl", [send(2, "a"), send(3, "a")])
    assert [each.time for each in read_history(tmp_path.glob("*.jsonl"))] == [1, 2, 3, 4]


def test_a_writer_appends(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    write(path, [send(1)])
    assert read_history(write(path, [send(2)])) == [send(1), send(2)]


def test_a_line_that_a_kill_cut_off_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "one.jsonl", [send(1), send(2)])
    content = path.read_bytes()
    path.write_bytes(content[:-5])
    assert read_history(path) == [send(1)]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"event": "send lost", "client": "c"}', "there is no event 'send lost'"),
        (b'{"event": "send invoked", "client": "c", "value": 1, "partition": "o/0"}', "Expected `str`"),
        (b'{"event": "send invoked", "client": "c"}', "missing required field"),
        (b"[]", "Expected `object`"),
        (b"nonsense", "malformed"),
    ],
)
def test_a_line_that_is_no_event_is_named(tmp_path: Path, line: bytes, why: str) -> None:
    with pytest.raises(HistoryError, match=why):
        decode(line)
    path = write(tmp_path / "one.jsonl", [send(1)])
    with path.open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(HistoryError, match=r"one\.jsonl, line 2"):
        read_history(path)


def test_the_command_prints_the_report_and_says_whether_all_is_well(tmp_path: Path) -> None:
    events = simulate(Random(1), 20)
    good = write(tmp_path / "good.jsonl", events)
    bad = write(tmp_path / "bad.jsonl", PLANTS["lost-write"](events, Facts(events), Random(1)))
    (tmp_path / "none.jsonl").write_text("no history\n")

    def run(*arguments: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "headrace.testing.history", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    result = run(good)
    assert (result.returncode, result.stdout) == (0, f"{check(events)}\n")
    result = run(bad)
    assert result.returncode == 1
    assert "lost-write (1)" in result.stdout
    result = run(tmp_path / "none.jsonl")
    assert result.returncode == 2
    assert "line 1" in result.stderr
    assert run().returncode == 2
