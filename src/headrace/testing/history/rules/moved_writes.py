"""moved-write: a write was reported at one offset, but at the end it is elsewhere and that offset is empty.

If something else is at that offset at the end, the offset has changed, which another rule reports.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.testing.history.anomalies import Anomaly, Rule
from headrace.testing.history.facts import Facts, FinalLog


def find(facts: Facts) -> Iterator[Anomaly]:
    homes: dict[str, FinalLog] = {value: log for log in facts.logs() for value in log.offsets_of}
    reported: set[str] = set()
    for sighting in facts.sightings():
        write, home = facts.writes.get(sighting.value), homes.get(sighting.value)
        if write is None or home is None or write.value in reported:
            continue
        log = facts.log_for(write)
        if log is None or sighting.partition != log.partition or sighting.event.time > log.read.time:
            continue
        if sighting.offset >= log.start and sighting.offset not in log.records:
            reported.add(write.value)
            now = home.offsets_of[write.value][0]
            yield Anomaly(
                summary=f"{write.value!r} was at {sighting.offset} of {sighting.partition} for "
                f"{sighting.event.client}, but is at {now} of {home.partition} at the end",
                events=(write.invoked, sighting.shown, home.showing(now)),
            )


RULE = Rule(name="moved-write", meaning="a write changed its offset", find=find)
