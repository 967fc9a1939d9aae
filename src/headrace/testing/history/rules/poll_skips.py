"""poll-skip: a consumer was not given records that are there, and that it should see.

Jepsen's poll-skip. Offsets without a record are no gap: control records stand there, what compaction
removed, and for readers of committed records what was aborted. What it should see, the final read of its
isolation level says.
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
                summary=f"{step.client} stood at {step.expected} of {step.partition} and was given "
                f"{step.offset} next; {len(missed)} records from {missed[0]} on were left out",
                events=(*step.shown, log.showing(*missed[:3])),
            )


RULE = Rule(name="poll-skip", meaning="a consumer was not given records that are there", find=find)
