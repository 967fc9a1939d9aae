"""Rounds of kills: what is killed and when, chosen by a seeded generator; and the check of all that came out.

The check uses nothing of the pipeline: it compares the output topics and the lake's table with what was sent
(`expectations.py`), and then asks `headrace reconcile` whether it agrees.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from headrace.assembly.reconciliation import Reconciliation
from headrace.client.cluster import Cluster
from headrace.client.reading import TopicReader
from tests.end_to_end.kills.expectations import Check, Found, checks, is_closing, once_each
from tests.end_to_end.kills.feed import Feed, Sent
from tests.end_to_end.kills.machine import SYNCED, Machine
from tests.end_to_end.kills.output_reading import OutputReader
from tests.end_to_end.kills.statements import (
    BETWEEN,
    EVENT_TOPIC,
    EVENTS,
    OUTPUTS,
    QUERIES,
    SOURCES,
    OutputTopic,
)
from tests.end_to_end.test_statements import Door
from tests.running_platform import Platform, Stream, new_prefix, wait_for

# Every kind in each dozen of rounds.
DOZEN: Final = (
    *("Python", "Java", "Java", "frozen log"),
    *("log", "gateway", "log"),
    *("power", "power", "power"),
    *("folders", "folders"),
)
# What a kill waits for: that nothing but time passes, that one query has written, that all have.
_WAITING: Final = ("start", "one", "one", "one", "all")
# Seconds; a start of Spark takes about as long.
_LONGEST_DELAY: Final = {"start": 15.0, "one": 5.0, "all": 5.0}
# All queries start anew, one after the other, beside whatever else the machine has to do.
PATIENCE_SECONDS: Final = 900.0
_EVENTS_PER_ROUND: Final = 200
AVRO_TOPIC: Final = "events_avro"


class Rounds:
    """Statements on a machine, a feed, and faults. `outputs` are the names of those to run."""

    def __init__(self, machine: Machine, seed: int, outputs: Collection[str] | None = None) -> None:
        self.history: list[str] = []
        self._machine = machine
        self._random = random.Random(seed)
        self._outputs = [each for each in OUTPUTS if outputs is None or each.name in outputs]
        self._cluster = Cluster(machine.settings.bootstrap)
        self._feed = Feed(machine.settings.bootstrap, seed)
        self._prefix = new_prefix()
        self._streams: list[Stream] = []
        self._left: list[str] = []
        door = Door(machine)
        for statement in (*SOURCES, *EVENTS):
            door.execute(statement)
        self._feed.start()
        for output in self._outputs:
            for statement in QUERIES[output.name]:
                door.execute(statement)
            if output.name in BETWEEN:
                self._cluster.configure_topic(output.name, SYNCED)

    def next(self, kinds: Sequence[str] = DOZEN) -> None:
        """One kill, of the next kind in a random order of all."""
        if not self._left:
            self._left = self._random.sample(kinds, len(kinds))
        kind = self._left.pop()
        began = time.monotonic()
        self._streams.append(
            Stream(self._machine, f"{self._prefix}-{len(self.history)}", _EVENTS_PER_ROUND, senders=1)
        )
        self._feed.check()
        waiting = self._random.choice(_WAITING)
        written = self._wait(waiting)
        delay = self._random.uniform(0, _LONGEST_DELAY[waiting])
        time.sleep(delay)
        self._fault(kind)
        took = time.monotonic() - began
        self.history.append(f"{kind}, {delay:.2f} s after {written}; {took:.0f} s for the round")
        print(f"{len(self.history)}: {self.history[-1]}", flush=True)

    def check(self) -> None:
        """The feed rests; everything that has come out so far is right, except what is not final yet."""
        with self._feed.resting():
            self._expect(self._feed.sent, [each for each in self._outputs if not each.is_final])

    def finish(self) -> None:
        """Everything is right, and the comparison would have seen it if it were not."""
        sent = self._feed.finish()
        self._expect(sent, self._outputs)
        for output in self._outputs:
            _expect_to_see_faults(output, checks(sent)[output.name], self._records(output))
        reconciled(self._machine)

    def __str__(self) -> str:
        return "\n".join(["kills so far:", *self.history])

    def _fault(self, kind: str) -> None:
        machine = self._machine
        if kind in ("Python", "Java"):
            machine.kill_driver(kind)
        elif kind == "log":
            machine.kill_log()
        elif kind == "frozen log":
            machine.kill_driver_of_frozen_log()
        elif kind == "gateway":
            machine.wait_restarted("gateway", after=machine.kill("gateway"))
        else:
            self._streams[-1].finish()
            with self._feed.resting():
                if kind == "power":
                    machine.cut_power()
                else:
                    machine.put_together(self._random, time.sleep)

    def _wait(self, waiting: str) -> str:
        if waiting == "start":
            return "nothing"
        if waiting == "all":
            self._wait_until_written([each.name for each in self._outputs if not each.is_final])
            return "all queries wrote"
        topic = self._random.choice([each.name for each in self._outputs if not each.is_final] + [AVRO_TOPIC])
        self._wait_until_written([topic])
        return f"{topic} wrote"

    def _wait_until_written(self, topics: Sequence[str]) -> None:
        before = {topic: self._cluster.end_offsets(topic) for topic in topics}

        def still() -> list[str]:
            return [topic for topic, ends in before.items() if self._cluster.end_offsets(topic) == ends]

        wait_for(
            lambda: not still(),
            "all queries write",
            seconds=PATIENCE_SECONDS,
            explain=lambda: f"{still()}\n{self}",
        )

    def _expect(self, sent: Sent, outputs: Sequence[OutputTopic]) -> None:
        """Wait until all is right. What is double does not get right by waiting."""
        for stream in self._streams:
            stream.finish()
        expected = checks(sent)
        self._until_right(EVENT_TOPIC, self._events_problems)
        for output in outputs:
            self._until_right(output.name, partial(self._problems, output, expected[output.name]))

    def _until_right(self, what: str, problems: Callable[[], list[str]]) -> None:
        found: list[str] = []

        def is_right() -> bool:
            nonlocal found
            found = problems()
            if any("too often" in each or "is wrong" in each for each in found) and what not in _TABLES:
                raise AssertionError("\n".join([f"{what}:", *found, str(self)]))
            return not found

        wait_for(
            is_right,
            f"{what} is right",
            seconds=PATIENCE_SECONDS,
            explain=lambda: "\n".join(["", *found, str(self)]),
        )

    def _problems(self, output: OutputTopic, check: Check) -> list[str]:
        return check(self._records(output))

    def _records(self, output: OutputTopic) -> Sequence[Found]:
        settings = self._machine.settings
        reader = OutputReader(settings.bootstrap, self._machine.registry_url, output)
        try:
            reader.read()
            return reader.records
        finally:
            reader.close()

    def _events_problems(self) -> list[str]:
        """Every event in the log is in the Avro topic and in the lake, once; every receipt is in the log."""
        keys = Counter(self._keys(EVENT_TOPIC))
        lost = {user for stream in self._streams for user in stream.sent.receipts} - keys.keys()
        avro = once_each(keys.elements(), Counter(self._keys(AVRO_TOPIC)))
        lake = once_each(keys.elements(), self._machine.rows(self._prefix))
        return (
            [f"lost in the log: {user}" for user in sorted(lost)[:5]]
            + [f"in {AVRO_TOPIC} {each}" for each in avro]
            + [f"in the lake {each}" for each in lake]
        )

    def _keys(self, topic: str) -> list[str]:
        ends = self._cluster.end_offsets(topic)
        reader = TopicReader(self._machine.settings.bootstrap, topic, len(ends))
        try:
            return [(record.key() or b"").decode() for record in reader.until(ends)]
        finally:
            reader.close()


# Their newest values count, which come in time.
_TABLES: Final = frozenset(
    name for name, statements in QUERIES.items() if statements[0].startswith("CREATE TABLE")
)


def reconciled(platform: Platform) -> None:
    """`headrace reconcile` finds nothing missing, nothing double and nothing that waits."""

    def wrong() -> list[str]:
        findings = Reconciliation(platform.settings).run(is_full=True)
        return [str(each) for each in findings if not each.is_clean or each.waiting]

    wait_for(lambda: not wrong(), "reconcile agrees", explain=lambda: "\n".join(wrong()))


def _expect_to_see_faults(output: OutputTopic, check: Check, records: Sequence[Found]) -> None:
    """The same comparison fails where anything is lost, double or wrong: else it would have shown nothing."""
    last = _last_that_counts(records)
    lost = [each for each in records if (each.key, each.window) != (last.key, last.window)]
    assert check(lost) != [], f"{output.name} may lose what {last} is of"
    wrong = replace(last, value=dict.fromkeys(last.value or (), "wrong"))
    assert check([*records, wrong]) != [], f"{output.name} may have {wrong}"
    if output.name not in _TABLES:
        assert check([*records, last]) != [], f"{output.name} may have {last} twice"


def _last_that_counts(records: Sequence[Found]) -> Found:
    """The newest row that stands; a group that lost all its rows may be there as an empty one or not."""
    standing: Mapping[object, Found] = {
        (each.key, each.window): each for each in records if not is_closing(each.key)
    }
    return next(each for each in reversed(list(standing.values())) if any((each.value or {}).values()))
