"""Every kind of query survives SIGKILL of Spark's driver, again and again, at moments nobody chose.

The driver is two processes: Python, and the JVM that it starts; either is killed. Between two kills all
queries have written something, or some have and others are not even started, or none is: all three happen.

The variable DRIVER_KILLS says how many kills, DRIVER_KILLS_SEED takes the seed that a failure names: records
and kills are chosen by it; what a kill meets is up to the machine.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest

from headrace.assembly.demo import make_pipeline
from headrace.assembly.restarts import RestartPolicy
from tests.end_to_end.driver_kills.expectations import Check, Found, checks, is_closing, once_each
from tests.end_to_end.driver_kills.feed import Feed, Sent
from tests.end_to_end.driver_kills.output_reading import OutputReader
from tests.end_to_end.driver_kills.statements import OUTPUTS, QUERIES, SOURCES
from tests.end_to_end.test_statements import Door
from tests.running_platform import Platform, Stream, new_prefix, running_platform, wait_for

ROUNDS = int(os.environ.get("DRIVER_KILLS", "20"))
EVENTS_PER_ROUND = 300
# What each kill in turn waits for: that the process is there, that one query has written, that all have.
WAITING = ("one", "one", "all", "one", "start")
# Seconds; a start of Spark takes about as long.
LONGEST_DELAY = {"start": 15.0, "one": 5.0, "all": 5.0}
PIPELINE = "pipeline"
# All queries start anew, one after the other, beside whatever else the machine has to do.
PATIENCE_SECONDS = 900.0


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Platform]:
    """One of its own, with real-time batches so short that some end between two kills, and with a slot for
    each partition of each query that may run in real time.
    """
    policy = RestartPolicy(longest_delay=0.5)
    with running_platform(tmp_path, policy=policy, pipeline_slots=20, real_time_batch_seconds=15) as running:
        make_pipeline(running.settings)
        yield running


@pytest.fixture
def outputs(platform: Platform) -> Iterator[tuple[OutputReader, ...]]:
    readers = tuple(
        OutputReader(platform.settings.bootstrap, platform.registry_url, topic) for topic in OUTPUTS
    )
    yield readers
    for reader in readers:
        reader.close()


class Kills:
    """Kills the driver of a platform, at moments that a seeded generator chooses."""

    def __init__(self, platform: Platform, outputs: tuple[OutputReader, ...], seed: int) -> None:
        self.history: list[str] = []
        self._platform = platform
        self._outputs = outputs
        self._random = random.Random(seed)
        self._next_outputs: list[OutputReader] = []

    def next(self) -> None:
        began = time.monotonic()
        pid = self._started()
        waiting = WAITING[len(self.history) % len(WAITING)]
        written = self._wait(waiting)
        delay = self._random.uniform(0, LONGEST_DELAY[waiting])
        time.sleep(delay)
        victim = self._random.choice(("Python", "Java"))
        self._kill(pid, victim)
        took = time.monotonic() - began
        self.history.append(f"{victim}, {delay:.2f} s after {written}; {took:.0f} s for the round")
        print(self.history[-1], flush=True)
        wait_for(lambda: self._platform.pid(PIPELINE) != pid, f"the supervisor has seen {pid} end")

    def wait_until_written(self, readers: Iterable[OutputReader]) -> None:
        before = {reader.topic.name: (reader, reader.read()) for reader in readers}

        def still() -> list[str]:
            return [name for name, (reader, count) in before.items() if reader.read() == count]

        wait_for(
            lambda: not still(),
            "all queries write",
            seconds=PATIENCE_SECONDS,
            explain=lambda: f"{still()}\n{self}",
        )

    def _wait(self, waiting: str) -> str:
        if waiting == "start":
            return "the process was started"
        if waiting == "all":
            self.wait_until_written(self._outputs)
            return "all queries wrote"
        if not self._next_outputs:
            self._next_outputs = self._random.sample(self._outputs, len(self._outputs))
        output = self._next_outputs.pop()
        self.wait_until_written([output])
        return f"{output.topic.name} wrote"

    def _started(self) -> int:
        pid: int = wait_for(lambda: self._platform.pid(PIPELINE), "the pipeline is started")
        return pid

    def _kill(self, pid: int, victim: str) -> None:
        """Java where it is there already."""
        children = psutil.Process(pid).children(recursive=True) if victim == "Java" else []
        virtual_machine = next((child.pid for child in children if "java" in child.name()), pid)
        os.kill(virtual_machine, signal.SIGKILL)

    def __str__(self) -> str:
        return "\n".join(["kills so far:", *self.history])


@pytest.mark.long
@pytest.mark.timeout(5400)
def test_every_kind_of_query_survives_kills_of_the_driver(
    platform: Platform, outputs: tuple[OutputReader, ...]
) -> None:
    seed = int(os.environ.get("DRIVER_KILLS_SEED", "0")) or random.randrange(1, 1 << 30)
    print(f"seed {seed}")
    door = Door(platform)
    for statement in SOURCES:
        door.execute(statement)
    feed = Feed(platform.settings.bootstrap, seed)
    feed.start()
    for statement in QUERIES:
        door.execute(statement)
    prefix = new_prefix()
    streams: list[Stream] = []
    kills = Kills(platform, outputs, seed)
    for number in range(ROUNDS):
        streams.append(Stream(platform, f"{prefix}-{number}", EVENTS_PER_ROUND, senders=1))
        feed.check()
        kills.next()
    kills.wait_until_written(outputs)
    sent = feed.finish()
    users: set[str] = set()
    for stream in streams:
        posted = stream.finish()
        assert posted.unknown == []
        users |= posted.receipts.keys()
    _expect(outputs, sent, about=f"with seed {seed}, {kills}")
    _expect_to_see_faults(outputs, sent)
    platform.wait_in_lake(prefix, len(users))
    assert once_each(users, platform.rows(prefix)) == [], f"with seed {seed}, {kills}"


def _expect(outputs: tuple[OutputReader, ...], sent: Sent, *, about: str) -> None:
    """Wait until all is right; what is wrong does not get right by waiting, except in tables."""
    check = checks(sent)
    for reader in outputs:
        wait_for(
            partial(_is_right, reader, check[reader.topic.name]),
            f"{reader.topic.name} is right",
            seconds=PATIENCE_SECONDS,
            explain=partial(_explained, reader, check[reader.topic.name], about),
        )


def _expect_to_see_faults(outputs: tuple[OutputReader, ...], sent: Sent) -> None:
    """The same comparison fails where anything is lost or wrong: else it would have shown nothing."""
    check = checks(sent)
    for reader in outputs:
        name, records = reader.topic.name, reader.records
        last = _last_that_counts(records)
        lost = [each for each in records if (each.key, each.window) != (last.key, last.window)]
        assert check[name](lost) != [], f"{name} may lose what {last} is of"
        wrong = replace(last, value=dict.fromkeys(last.value or (), "wrong"))
        assert check[name]([*records, wrong]) != [], f"{name} may have {wrong}"


def _last_that_counts(records: Sequence[Found]) -> Found:
    """The newest row that stands; a group that lost all its rows may be there as an empty one or not."""
    standing = {(each.key, each.window): each for each in records if not is_closing(each.key)}
    return next(each for each in reversed(standing.values()) if any((each.value or {}).values()))


def _is_right(reader: OutputReader, check: Check) -> bool:
    reader.read()
    return not check(reader.records)


def _explained(reader: OutputReader, check: Check, about: str) -> str:
    return "\n".join(["", *check(reader.records), about])
