"""early-read: a read_committed consumer received a record before its transaction's commit was requested.

Jepsen's precommitted-read. The transaction may have been committed later: then nothing else shows it.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.testing.history.anomalies import Anomaly, Rule
from headrace.testing.history.facts import Facts


def find(facts: Facts) -> Iterator[Anomaly]:
    reported: set[tuple[str, str]] = set()
    for sighting in facts.sightings():
        if not sighting.read_committed:
            continue
        transaction = facts.transaction_of(sighting.value)
        if transaction is None or transaction.asked is None or sighting.event.time >= transaction.asked.time:
            continue
        key = (transaction.name, sighting.event.client)
        if key not in reported:
            reported.add(key)
            yield Anomaly(
                summary=f"{sighting.event.client} reads committed records and received {sighting.value!r} "
                f"before the commit of the transaction {transaction.name} was requested",
                events=(facts.writes[sighting.value].invoked, sighting.shown, transaction.asked),
            )


RULE = Rule(
    name="early-read",
    meaning="a read_committed consumer saw a transaction before it could be committed",
    find=find,
)
