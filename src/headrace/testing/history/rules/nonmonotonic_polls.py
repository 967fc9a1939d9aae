"""nonmonotonic-poll: a consumer received records again or out of order, without seeking back.

Jepsen's nonmonotonic-poll. A new assignment starts over.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.testing.history.anomalies import Anomaly, Rule
from headrace.testing.history.facts import Facts
from headrace.testing.history.polls import steps


def find(facts: Facts) -> Iterator[Anomaly]:
    for step in steps(facts):
        if step.expected is not None and step.offset < step.expected:
            yield Anomaly(
                summary=f"{step.client} was at {step.expected} of {step.partition} and received "
                f"{step.offset} ({step.value!r})",
                events=step.shown,
            )


RULE = Rule(
    name="nonmonotonic-poll", meaning="a consumer went back in a partition without seeking", find=find
)
