"""hung-transaction: at the end, committed reads stop before the end of the log.

By then every transaction has ended or timed out: the run waits for that before the final reads. An open
transaction that nobody ends would block readers of committed records in that partition forever.
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
            summary=f"{partition} ends at {complete.end}, but committed reads end at {committed.end}: {what}",
            events=(*blocking, complete.showing(), committed.showing()),
        )


RULE = Rule(
    name="hung-transaction",
    meaning="committed reads stop before the end of the log although every transaction has ended",
    find=find,
)
