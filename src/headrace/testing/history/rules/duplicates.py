"""duplicate: one write stands in the log twice.

An idempotent producer is promised that it does not (KIP-98); others retry and may get it, which is counted.
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
                    summary=f"{value!r} stands in {log.partition} at the offsets "
                    f"{', '.join(map(str, offsets))}",
                    events=(*write.events, log.showing(*offsets)),
                    allowed=not write.idempotent,
                )


RULE = Rule(
    name="duplicate", meaning="one write of an idempotent producer stands in the log twice", find=find
)
