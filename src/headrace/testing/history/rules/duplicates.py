"""duplicate: a write is in the log twice.

Kafka promises idempotent producers that this does not happen (KIP-98); others retry and may cause it, which
is counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.testing.history.anomalies import Anomaly, Rule
from headrace.testing.history.facts import Facts


def find(facts: Facts) -> Iterator[Anomaly]:
    for log in facts.logs():
        for value, offsets in log.offsets_of.items():
            if len(offsets) > 1 and (write := facts.writes.get(value)) is not None:
                yield Anomaly(
                    summary=f"{value!r} is in {log.partition} at the offsets {', '.join(map(str, offsets))}",
                    events=(*write.events, log.showing(*offsets)),
                    allowed=not write.idempotent,
                )


RULE = Rule(name="duplicate", meaning="a write of an idempotent producer is in the log twice", find=find)
