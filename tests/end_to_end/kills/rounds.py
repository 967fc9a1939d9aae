"""Rounds of kills: what is killed and when, chosen by a seeded generator; and the check of all that came out.

A kill comes as soon as what it waits for has happened. The check uses nothing of the pipeline: it compares
the output topics and the lake's table with what was sent (`expectations.py`), and then asks
`headrace reconcile` whether it agrees.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from headrace.assembly.demo import make_connector
from headrace.assembly.reconciliation import Reconciliation
from headrace.client.cluster import Cluster
from headrace.client.reading import TopicReader
from headrace.client.topics import Partition
from tests.end_to_end.kills.expectations import Check, Found, checks, is_closing, once_each
from tests.end_to_end.kills.feed import Feed, Sent
from tests.end_to_end.kills.machine import Machine
from tests.end_to_end.kills.output_reading import OutputReader
from tests.end_to_end.kills.statements import (
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
_LONGEST_DELAY: Final = {"start": 12.0, "one": 1.0, "all": 2.0}
# All queries start anew, one after the other, beside whatever else the machine has to do.
PATIENCE_SECONDS: Final = 300.0
# Reading all topics more often would take a good part of the machine.
_PAUSE_SECONDS: Final = 0.5
_EVENTS_PER_ROUND: Final = 100
AVRO_TOPIC: Final = "events_avro"


def kinds(seed: int) -> Iterator[str]:
    """What is killed in each round: all that there is, in a random order, again and again."""
    chance = random.Random(seed)
    while True:
        yield from chance.sample(DOZEN, len(DOZEN))


class Rounds:
    """Statements on a machine, a feed, and faults. `outputs` are the names of those to run."""

    def __init__(self, machine: Machine, seed: int, outputs: Collection[str]) -> None:
        self.history: list[str] = []
        self._machine = machine
        self._random = random.Random(seed)
        self._outputs = [each for each in OUTPUTS if each.name in outputs]
        self._cluster = Cluster(machine.settings.bootstrap)
        self._feed = Feed(machine.settings.bootstrap, seed)
        self._prefix = new_prefix()
        self._streams: list[Stream] = []
        # Spark warms up if it finds no events when it has started: there is no time for that.
        self._post_events()
        door = Door(machine)
        for statement in (*SOURCES, *EVENTS):
            door.execute(statement)
        make_connector(machine.settings)
        self._feed.start()
        for output in self._outputs:
            for statement in QUERIES[output.name]:
                door.execute(statement)

    def next(self, kind: str, after: str = "") -> None:
        """One kill, after this topic has got records, or whatever chance chooses."""
        began = time.monotonic()
        waiting = "one" if after else self._random.choice(_WAITING)
        names = [after] if after else self._waited_for(waiting)
        before = self._cluster.latest(self._cluster.lookup(names).values())
        self._post_events()
        self._feed.check()
        self._wait_until_written(before)
        delay = self._random.uniform(0, _LONGEST_DELAY[waiting])
        time.sleep(delay)
        waited = time.monotonic() - began
        self._fault(kind)
        took = time.monotonic() - began - waited
        waited_for = f"{waiting} ({', '.join(names)})" if waiting == "one" else waiting
        self.history.append(
            f"{kind}, after {waited:.1f} s, {delay:.1f} s behind {waited_for}; took {took:.1f} s"
        )
        print(f"{len(self.history)}: {self.history[-1]}", flush=True)

    def check(self) -> None:
        """The feed rests; everything that has come out so far is right, except what is not final yet."""
        with self._feed.resting():
            self._expect(self._feed.sent, [each for each in self._outputs if not each.is_final])

    def finish(self) -> None:
        """Everything is right, and the comparison would have seen it if it were not."""
        sent = self._feed.finish()
        found = self._expect(sent, self._outputs)
        expected = checks(sent)
        for output in self._outputs:
            _expect_to_see_faults(output, expected[output.name], found[output.name])
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
            # What is acknowledged is synced, and nothing else was sent.
            for stream in self._streams:
                stream.finish()
            with self._feed.resting():
                if kind == "power":
                    machine.cut_power()
                else:
                    machine.put_together(self._random, time.sleep)

    def _waited_for(self, waiting: str) -> list[str]:
        """The topics that must have got records before the kill."""
        written = [each.name for each in self._outputs if not each.is_final]
        if waiting == "one":
            return [self._random.choice([*written, AVRO_TOPIC])]
        return written if waiting == "all" else []

    def _wait_until_written(self, before: Mapping[Partition, int]) -> None:
        """Until each topic has got records since its partitions had these ends."""
        names = {place[0] for place in before}

        def still() -> set[str]:
            now = self._cluster.latest(self._cluster.lookup(names).values())
            return names - {place[0] for place, end in now.items() if end != before[place]}

        wait_for(
            lambda: not still(),
            "all queries write",
            seconds=PATIENCE_SECONDS,
            explain=lambda: f"{still()}\n{self}",
        )

    def _expect(self, sent: Sent, outputs: Sequence[OutputTopic]) -> Mapping[str, Sequence[Found]]:
        """Wait until all is right; gives the records. What is double does not get right by waiting."""
        for stream in self._streams:
            stream.finish()
        expected = checks(sent)
        self._until_right(EVENT_TOPIC, self._events_problems)
        found: dict[str, Sequence[Found]] = {}
        for output in outputs:
            reader = OutputReader(self._cluster, self._machine.registry_url, output)
            check = expected[output.name]

            def problems(reader: OutputReader = reader, check: Check = check) -> list[str]:
                reader.read()
                return check(reader.records)

            try:
                self._until_right(output.name, problems)
                found[output.name] = reader.records
            finally:
                reader.close()
        return found

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
            pause_seconds=_PAUSE_SECONDS,
            explain=lambda: "\n".join(["", *found, str(self)]),
        )

    def _post_events(self) -> None:
        prefix = f"{self._prefix}-{len(self._streams)}"
        self._streams.append(Stream(self._machine, prefix, _EVENTS_PER_ROUND, senders=1))

    def _events_problems(self) -> list[str]:
        """Every event in the log is in the Avro topic and in the lake, once; every receipt is in the log."""
        keys = Counter(self._keys(EVENT_TOPIC))
        lost = {user for stream in self._streams for user in stream.sent.receipts} - keys.keys()
        avro = once_each(keys.elements(), Counter(self._keys(AVRO_TOPIC)))
        found = [f"lost in the log: {user}" for user in sorted(lost)[:5]]
        found += [f"in {AVRO_TOPIC} {each}" for each in avro]
        # Before that there may be no table.
        if not found:
            lake = once_each(keys.elements(), self._machine.rows(self._prefix))
            found += [f"in the lake {each}" for each in lake]
        return found

    def _keys(self, topic: str) -> list[str]:
        ends = self._cluster.end_offsets(topic)
        reader = TopicReader(self._machine.settings.bootstrap, topic, len(ends))
        try:
            return [(record.key() or b"").decode() for record in reader.until(ends)]
        finally:
            reader.close()


# Their newest values count, which come in time. What is final is said once.
_TABLES: Final = frozenset(
    output.name
    for output in OUTPUTS
    if QUERIES[output.name][0].startswith("CREATE TABLE") and not output.is_final
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
