"""phantom-read: a client read a value that nobody had sent to that partition by then.

Possible causes: damaged bytes, records of another topic or partition, clocks that disagree.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.testing.history.anomalies import Anomaly, Rule
from headrace.testing.history.events import Event, SendAcknowledged
from headrace.testing.history.facts import Facts


def find(facts: Facts) -> Iterator[Anomaly]:
    reported: set[tuple[str, str]] = set()
    for sighting in facts.sightings():
        if isinstance(sighting.event, SendAcknowledged) or (sighting.partition, sighting.value) in reported:
            continue
        write = facts.writes.get(sighting.value)
        sent: tuple[Event, ...] = ()
        if write is None:
            why = "nobody sent it"
        else:
            sent = (write.invoked,)
            if write.partition != sighting.partition:
                why = f"it was sent to {write.partition}"
            elif write.invoked.time > sighting.event.time:
                why = "it was sent later"
            else:
                continue
        reported.add((sighting.partition, sighting.value))
        yield Anomaly(
            summary=f"{sighting.event.client} read {sighting.value!r} in {sighting.partition} at "
            f"{sighting.offset}: {why}",
            events=(sighting.shown, *sent),
        )


RULE = Rule(name="phantom-read", meaning="a value was read that nobody had sent there", find=find)
