"""partial-transaction: some or all records of a committed transaction cannot be read as committed.

If the client does not know whether it was committed, all or none of its records must be visible. An
acknowledged record that is not in the log at all is a lost write; one beyond the last stable offset is
waiting for another transaction.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.testing.history.anomalies import Anomaly, Rule
from headrace.testing.history.events import Event, SendRefused
from headrace.testing.history.facts import Facts, Fate, Transaction, Write


def find(facts: Facts) -> Iterator[Anomaly]:
    for transaction in facts.transactions.values():
        if transaction.fate is Fate.ABORTED:
            continue
        visible, missing = _visible_and_missing(facts, transaction)
        if missing and (visible or transaction.fate is Fate.COMMITTED):
            known = "was committed" if transaction.fate is Fate.COMMITTED else "has an unknown outcome"
            shown: list[Event] = []
            for write in missing[:3]:
                shown.extend(write.events)
            for write in visible[:1]:
                log = facts.committed[write.partition]
                shown.append(log.showing(log.offsets_of[write.value][0]))
            yield Anomaly(
                summary=f"the transaction {transaction.name} {known}; {len(visible)} of its records are "
                f"visible, {len(missing)} are not: {', '.join(repr(each.value) for each in missing[:3])}",
                events=(*transaction.events, *shown),
            )


def _visible_and_missing(facts: Facts, transaction: Transaction) -> tuple[list[Write], list[Write]]:
    visible: list[Write] = []
    missing: list[Write] = []
    for write in transaction.writes:
        committed = facts.committed.get(write.partition)
        if committed is None or isinstance(write.end, SendRefused):
            continue
        if write.value in committed:
            visible.append(write)
        elif _should_be_visible(facts, transaction, write, committed.start, committed.end):
            missing.append(write)
    return visible, missing


def _should_be_visible(facts: Facts, transaction: Transaction, write: Write, start: int, end: int) -> bool:
    answer = write.acknowledged
    complete = facts.complete.get(write.partition)
    if complete is not None and write.value in complete:
        return start <= complete.offsets_of[write.value][0] < end
    if complete is not None and answer is not None:
        return False
    if answer is not None:
        return answer.offset is not None and start <= answer.offset < end
    # A commit waits for all sends. If it succeeded, even a send that was never answered must be there.
    return transaction.fate is Fate.COMMITTED


RULE = Rule(
    name="partial-transaction",
    meaning="records of a committed transaction cannot be read as committed",
    find=find,
)
