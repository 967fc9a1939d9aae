"""hung-transaction: in the end committed reads stop before the end of the log.

Every transaction has ended then, or its timeout has: the run waits for it before the final reads. An open
one that nobody ends keeps its partition's readers from everything behind it for good.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.testing.history.anomalies import Anomaly, Rule
from headrace.testing.history.events import Event
from headrace.testing.history.facts import Facts


def find(facts: Facts) -> Iterator[Anomaly]:
    for partition, committed in facts.committed.items():
        complete = facts.complete.get(partition)
        if complete is None or complete.read.time > committed.read.time or committed.end >= complete.end:
            continue
        blocking: tuple[Event, ...] = ()
        what = "a control record or a compacted one"
        if committed.end in complete.records:
            value = complete.records[committed.end]
            what = repr(value)
            if (transaction := facts.transaction_of(value)) is not None:
                what += f" of the transaction {transaction.name}"
                blocking = transaction.events
        yield Anomaly(
            summary=f"{partition} ends at {complete.end}, and committed reads end at {committed.end}: {what}",
            events=(*blocking, complete.showing(), committed.showing()),
        )


RULE = Rule(
    name="hung-transaction",
    meaning="committed reads stop before the end of the log although every transaction has ended",
    find=find,
)
