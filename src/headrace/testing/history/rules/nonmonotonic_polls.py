"""nonmonotonic-poll: a consumer was given records again, or in a wrong order, and had not sought back.

Jepsen's nonmonotonic-poll. A new assignment begins anew.
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
                summary=f"{step.client} stood at {step.expected} of {step.partition} and was given "
                f"{step.offset} ({step.value!r})",
                events=step.shown,
            )


RULE = Rule(
    name="nonmonotonic-poll", meaning="a consumer went back in a partition without having sought", find=find
)
