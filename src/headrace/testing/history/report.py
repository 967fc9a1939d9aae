"""The report on a history: what was examined, what was found, and the events that show it.

Invariant: `str(report)` is for people and may change; `anomalies` is for programs. Every event of the history
counts: a report on an empty history says so, because finding no anomalies there proves nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headrace.testing.history.anomalies import Anomaly, Rule
from headrace.testing.history.events import (
    ClientFailed,
    CommittedOffsetsRead,
    Event,
    FinalRead,
    OffsetCommitEnded,
    Polled,
    SendAcknowledged,
    SendRefused,
)
from headrace.testing.history.facts import Facts, Fate
from headrace.testing.history.rules import RULES

# How many of each kind are shown; the rest are only counted.
SHOWN = 5
# How many records of a read are shown.
SHOWN_RECORDS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The size of the history."""

    clients: int
    writes: int
    acknowledged: int
    refused: int
    committed: int
    aborted: int
    undecided: int
    polled: int
    commits: int
    committed_offsets_read: int
    partitions: int
    seconds: float
    failures: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """`found` is what every rule found, including what is allowed; `anomalies` only what is not."""

    totals: Totals
    found: tuple[tuple[Rule, tuple[Anomaly, ...]], ...]
    began: int

    @property
    def anomalies(self) -> dict[str, tuple[Anomaly, ...]]:
        """By rule name; empty if all is well."""
        wrong = {rule.name: tuple(each for each in found if not each.allowed) for rule, found in self.found}
        return {name: found for name, found in wrong.items() if found}

    @property
    def allowed(self) -> dict[str, int]:
        """How often something undesirable happened that was not promised against."""
        counts = {rule.name: sum(each.allowed for each in found) for rule, found in self.found}
        return {name: count for name, count in counts.items() if count}

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        totals = self.totals
        yield (
            f"History of {totals.clients} clients over {totals.seconds:.1f} s, "
            f"{totals.partitions} partitions read at the end"
        )
        yield (
            f"  writes        {totals.writes}: {totals.acknowledged} acknowledged, {totals.refused} refused, "
            f"{totals.writes - totals.acknowledged - totals.refused} unknown"
        )
        yield (
            f"  transactions  {totals.committed} committed, {totals.aborted} aborted or abandoned, "
            f"{totals.undecided} unknown"
        )
        yield f"  polled        {totals.polled} records"
        yield (
            f"  commits       {totals.commits} answered, committed offsets read "
            f"{totals.committed_offsets_read} times"
        )
        for error, count in totals.failures:
            yield f"  {error} ({count})"
        for name, count in self.allowed.items():
            yield f"  {name} of producers that are not idempotent, which is allowed ({count})"
        if not totals.writes:
            yield "Nothing was written, so this history proves nothing."
        wrong = self.anomalies
        yield "No anomalies." if not wrong else f"{sum(map(len, wrong.values()))} anomalies:"
        for rule, _found in self.found:
            for number, anomaly in enumerate(wrong.get(rule.name, ())):
                if number == 0:
                    yield f"\n{rule.name} ({len(wrong[rule.name])}): {rule.meaning}"
                if number == SHOWN:
                    yield f"  … and {len(wrong[rule.name]) - SHOWN} more"
                    break
                yield f"  {anomaly.summary}"
                for event in anomaly.events:
                    yield f"    {describe(event, self.began)}"


def check(events: Iterable[Event], rules: Iterable[Rule] = RULES) -> Report:
    """Apply every rule. Raises HistoryError if the events contradict each other."""
    facts = Facts(events)
    return Report(
        totals=_totals(facts),
        found=tuple((rule, tuple(rule.find(facts))) for rule in rules),
        began=min((each.time for each in facts.events), default=0),
    )


def describe(event: Event, began: int = 0) -> str:
    """One line: when, who, what."""
    details = []
    for name in event.__dataclass_fields__:
        value = getattr(event, name)
        if name in ("client", "time", "event") or value is None or value == "":
            continue
        if name == "records":
            shown = ", ".join(f"{offset}: {entry!r}" for offset, entry in value[:SHOWN_RECORDS])
            more = f" and {len(value) - SHOWN_RECORDS} more" if len(value) > SHOWN_RECORDS else ""
            value = f"[{shown}{more}]"
        elif name == "asked":
            value = f"{(value - began) / 1e9:.6f}"
        details.append(f"{name}={value}")
    return f"{(event.time - began) / 1e9:12.6f}  {event.client}  {event.event}  {' '.join(details)}"


def _totals(facts: Facts) -> Totals:
    ends = Counter(type(each.end) for each in facts.writes.values())
    fates = Counter(each.fate for each in facts.transactions.values())
    failures = Counter(each.error for each in facts.events if isinstance(each, ClientFailed))
    times = [each.time for each in facts.events]
    return Totals(
        clients=len({each.client for each in facts.events}),
        writes=len(facts.writes),
        acknowledged=ends[SendAcknowledged],
        refused=ends[SendRefused],
        committed=fates[Fate.COMMITTED],
        aborted=fates[Fate.ABORTED],
        undecided=fates[Fate.UNKNOWN],
        polled=sum(len(each.records) for each in facts.events if isinstance(each, Polled)),
        commits=sum(
            isinstance(each, OffsetCommitEnded) and each.outcome == "committed" for each in facts.events
        ),
        committed_offsets_read=sum(isinstance(each, CommittedOffsetsRead) for each in facts.events),
        partitions=len({each.partition for each in facts.events if isinstance(each, FinalRead)}),
        seconds=(max(times) - min(times)) / 1e9 if times else 0.0,
        failures=tuple(failures.most_common()),
    )
