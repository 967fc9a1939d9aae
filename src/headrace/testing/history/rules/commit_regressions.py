"""commit-regression: a group's committed offset is one that was overwritten or that nobody committed.

The committed offset of a group and partition is a register: commits set it, reads return it, and each takes
effect at some moment between its call and its answer. A read is explained by a commit of the same offset that
may have taken effect before the read's answer and that is not certainly overwritten, that is: no answered
commit and no other read of a different offset began after this commit's answer and ended before the read was
requested. A commit without an answer may take effect at any time. One in a transaction takes effect
between the request for the transaction's commit and the answer, and not at all if the transaction was
aborted; reads request stable offsets (KIP-447), so an answered one is visible.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.testing.history.anomalies import Anomaly, Rule
from headrace.testing.history.events import (
    CommittedOffsetsRead,
    Event,
    OffsetCommitEnded,
    OffsetCommitInvoked,
)
from headrace.testing.history.facts import Facts, Fate

# Group and partition.
Register = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """At some moment from `begin` to `end` the register had this offset; None: it was empty."""

    offset: int | None
    begin: float
    end: float
    certain: bool
    events: tuple[Event, ...]


def find(facts: Facts) -> Iterator[Anomaly]:
    commits = _commits(facts)
    reads = _reads(facts)
    for register, seen in reads.items():
        set_by = commits.get(register, [])
        witnesses = sorted(
            (each for each in (*set_by, *seen) if each.certain), key=lambda each: (each.end, each.begin)
        )
        for read in seen:
            if (anomaly := _judge(register, read, set_by, witnesses)) is not None:
                yield anomaly


def _judge(
    register: Register, read: Interval, commits: list[Interval], witnesses: list[Interval]
) -> Anomaly | None:
    group, partition = register
    candidates = [each for each in commits if each.offset == read.offset and each.begin <= read.end]
    if read.offset is None:
        candidates = [Interval(offset=None, begin=-math.inf, end=-math.inf, certain=True, events=())]
    if not candidates:
        return Anomaly(
            summary=f"{group} is at {read.offset} of {partition}, which nobody committed",
            events=read.events,
        )
    latest = max(candidates, key=lambda each: each.end)
    overwriting: Interval | None = None
    for each in witnesses:
        if each.end >= read.begin:
            break
        if each.offset != read.offset and each.begin > latest.end:
            overwriting = each
    if overwriting is None:
        return None
    return Anomaly(
        summary=f"{group} is at {read.offset} of {partition}, although it was at {overwriting.offset} since",
        events=(*latest.events, *overwriting.events, *read.events),
    )


def _commits(facts: Facts) -> dict[Register, list[Interval]]:
    ends = {each.commit: each for each in facts.events if isinstance(each, OffsetCommitEnded)}
    commits: dict[Register, list[Interval]] = defaultdict(list)
    for invoked in facts.events:
        if not isinstance(invoked, OffsetCommitInvoked):
            continue
        ended = ends.get(invoked.commit)
        if ended is not None and ended.outcome == "refused":
            continue
        begin, end = float(invoked.time), math.inf
        certain = ended is not None and ended.outcome == "committed"
        if certain and ended is not None:
            end = ended.time
        events: tuple[Event, ...] = (invoked,) if ended is None else (invoked, ended)
        if invoked.transaction is not None:
            transaction = facts.transactions[invoked.transaction]
            if transaction.fate is Fate.ABORTED or transaction.asked is None:
                continue
            # The answer to the offset commit says only that the offsets are part of the transaction.
            certain = certain and transaction.fate is Fate.COMMITTED
            begin = transaction.asked.time
            end = transaction.ended.time if certain and transaction.ended is not None else math.inf
            events = (*events, *transaction.events)
        for partition, offset in invoked.offsets.items():
            commits[invoked.group, partition].append(
                Interval(offset=offset, begin=begin, end=end, certain=certain, events=events)
            )
    return commits


def _reads(facts: Facts) -> dict[Register, list[Interval]]:
    reads: dict[Register, list[Interval]] = defaultdict(list)
    for event in facts.events:
        if isinstance(event, CommittedOffsetsRead):
            for partition, offset in event.offsets.items():
                reads[event.group, partition].append(
                    Interval(offset=offset, begin=event.asked, end=event.time, certain=True, events=(event,))
                )
    return reads


RULE = Rule(
    name="commit-regression",
    meaning="a group's committed offset went back, or was never committed",
    find=find,
)
