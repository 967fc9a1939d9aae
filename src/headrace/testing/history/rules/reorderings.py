"""reordering: writes of one producer to one partition are not in the order in which they were sent.

Jepsen's nonmonotonic-send. Idempotent producers are promised their order whatever they retry; others are not,
unless they have one request in flight, and are only counted. A second copy of a write is a duplicate, not a
reordering.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.testing.history.anomalies import Anomaly, Rule
from headrace.testing.history.facts import Facts, Write


def find(facts: Facts) -> Iterator[Anomaly]:
    for log in facts.logs():
        latest: dict[str, tuple[int, Write]] = {}
        seen: set[str] = set()
        for offset in log.offsets:
            write = facts.writes.get(log.records[offset])
            if write is None or write.value in seen or write.partition != log.partition:
                continue
            seen.add(write.value)
            client = write.invoked.client
            before = latest.get(client)
            latest[client] = (offset, write)
            if before is not None and before[1].turn > write.turn:
                yield Anomaly(
                    summary=f"{client} sent {write.value!r} to {log.partition} before {before[1].value!r}, "
                    f"but it comes after it, at {offset} and {before[0]}",
                    events=(write.invoked, before[1].invoked, log.showing(before[0], offset)),
                    allowed=not write.idempotent,
                )


RULE = Rule(
    name="reordering",
    meaning="writes of an idempotent producer are not in the order in which they were sent",
    find=find,
)
