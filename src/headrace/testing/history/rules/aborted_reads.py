"""aborted-read: a read_committed consumer received a record of a transaction that was not committed.

Jepsen's aborted-read (Adya's G1a). Transactions count as not committed if they were aborted or if their
commit was never requested: the client died first, and its successor or the timeout aborts it. A transaction
is reported once, with its first record.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.testing.history.anomalies import Anomaly, Rule
from headrace.testing.history.facts import Facts, Fate


def find(facts: Facts) -> Iterator[Anomaly]:
    reported: set[tuple[str, str]] = set()
    for sighting in facts.sightings():
        if not sighting.read_committed:
            continue
        transaction = facts.transaction_of(sighting.value)
        if transaction is None or transaction.fate is not Fate.ABORTED:
            continue
        key = (transaction.name, sighting.event.client)
        if key in reported:
            continue
        reported.add(key)
        what = "was aborted" if transaction.asked or transaction.ended else "was never asked to commit"
        yield Anomaly(
            summary=f"{sighting.event.client} reads committed records and received {sighting.value!r} of "
            f"the transaction {transaction.name}, which {what}",
            events=(*transaction.events, facts.writes[sighting.value].invoked, sighting.shown),
        )


RULE = Rule(
    name="aborted-read",
    meaning="a read_committed consumer saw a transaction that was not committed",
    find=find,
)
