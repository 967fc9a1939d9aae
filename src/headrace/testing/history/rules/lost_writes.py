"""lost-write: a write that was acknowledged or read is no longer in the log.

Jepsen's lost-write, and more: it needs nothing later in the log, because the final read says how far it went.
Records before the log's start were removed by retention. A write found elsewhere is not lost but moved.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.testing.history.anomalies import Anomaly, Rule
from headrace.testing.history.events import Event, SendAcknowledged
from headrace.testing.history.facts import Facts, FinalLog, Write


def find(facts: Facts) -> Iterator[Anomaly]:
    somewhere = {value for log in facts.logs() for value in log.offsets_of}
    reported: set[str] = set()
    for write in facts.writes.values():
        log = facts.log_for(write)
        answer = write.acknowledged
        if log is None or answer is None or write.value in somewhere or answer.time > log.read.time:
            continue
        # Without its offset it is unknown whether it was before the start, which retention may have moved.
        if answer.offset < log.start if answer.offset is not None else log.start > 0:
            continue
        reported.add(write.value)
        yield _lost(log, write, "was acknowledged", answer.offset, write.events)
    for sighting in facts.sightings():
        value = sighting.value
        if isinstance(sighting.event, SendAcknowledged) or value in somewhere or value in reported:
            continue
        # A value that nobody sent is a phantom; it need not stay.
        if (sent := facts.writes.get(value)) is None or (read_log := facts.log_for(sent)) is None:
            continue
        if sighting.event.time < read_log.read.time and sighting.offset >= read_log.start:
            reported.add(value)
            yield _lost(read_log, sent, "was read", sighting.offset, (sent.invoked, sighting.shown))


def _lost(log: FinalLog, write: Write, how: str, offset: int | None, events: tuple[Event, ...]) -> Anomaly:
    at = "" if offset is None else f" at offset {offset}"
    return Anomaly(
        summary=f"{write.value!r} {how} in {write.partition}{at}, but is not in the log, which extends "
        f"from {log.start} to {log.end}",
        events=(*events, log.showing()),
    )


RULE = Rule(
    name="lost-write",
    meaning="a write that was acknowledged or read is not in the log at the end",
    find=find,
)
