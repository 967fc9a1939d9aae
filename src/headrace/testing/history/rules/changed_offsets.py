"""changed-offset: an offset had two values.

Jepsen's inconsistent-offsets. Acknowledgements, polls and final reads must all agree on what is at an offset.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.testing.history.anomalies import Anomaly, Rule
from headrace.testing.history.facts import Facts, Sighting


def find(facts: Facts) -> Iterator[Anomaly]:
    first: dict[tuple[str, int], Sighting] = {}
    reported: set[tuple[str, int]] = set()
    for sighting in facts.sightings():
        place = (sighting.partition, sighting.offset)
        before = first.setdefault(place, sighting)
        if before.value == sighting.value or place in reported:
            continue
        reported.add(place)
        yield Anomaly(
            summary=f"offset {sighting.offset} of {sighting.partition} was {before.value!r} for "
            f"{before.event.client} and {sighting.value!r} for {sighting.event.client}",
            events=(before.shown, sighting.shown),
        )


RULE = Rule(name="changed-offset", meaning="an offset had two values", find=find)
