"""refused-write: a write that was definitely refused is in the log."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.testing.history.anomalies import Anomaly, Rule
from headrace.testing.history.events import SendRefused
from headrace.testing.history.facts import Facts


def find(facts: Facts) -> Iterator[Anomaly]:
    reported: set[str] = set()
    for sighting in facts.sightings():
        write = facts.writes.get(sighting.value)
        if write is None or not isinstance(write.end, SendRefused) or write.value in reported:
            continue
        reported.add(write.value)
        yield Anomaly(
            summary=f"{write.value!r} was refused, but is in {sighting.partition} at {sighting.offset}",
            events=(*write.events, sighting.shown),
        )


RULE = Rule(name="refused-write", meaning="a write that was definitely refused is in the log", find=find)
