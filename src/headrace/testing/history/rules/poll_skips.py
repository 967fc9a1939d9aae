"""poll-skip: a consumer did not receive records that exist and that it should see.

Jepsen's poll-skip. Offsets without a record are not a gap: they were control records, records removed by
compaction or, for readers of committed records, aborted ones. The final read with the consumer's isolation
level says what it should see.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from headrace.testing.history.anomalies import Anomaly, Rule
from headrace.testing.history.facts import Facts
from headrace.testing.history.polls import steps


def find(facts: Facts) -> Iterator[Anomaly]:
    for step in steps(facts):
        logs = facts.committed if facts.isolation_of(step.client) else facts.complete
        log = logs.get(step.partition)
        if log is None or step.expected is None or step.offset <= step.expected:
            continue
        offsets = log.offsets
        missed = offsets[bisect_left(offsets, step.expected) : bisect_left(offsets, step.offset)]
        if missed:
            yield Anomaly(
                summary=f"{step.client} was at {step.expected} of {step.partition} and received "
                f"{step.offset} next, skipping {len(missed)} records from {missed[0]} on",
                events=(*step.shown, log.showing(*missed[:3])),
            )


RULE = Rule(name="poll-skip", meaning="a consumer did not receive records that exist", find=find)
