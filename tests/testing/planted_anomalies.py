"""Takes the history of a good run and puts one anomaly into it: for each rule the smallest lie that it tells.

Each plant is chosen such that nothing else is wrong after it. `events` is left as it is; the result is a
new list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from random import Random

from headrace.testing.history import (
    CommittedOffsetsRead,
    ConsumerStarted,
    Event,
    FinalRead,
    OffsetCommitInvoked,
    Polled,
    SendAcknowledged,
    SendInvoked,
    SendRefused,
    TransactionEnded,
    TransactionEnding,
)
from headrace.testing.history.facts import Facts, Fate, Transaction, Write

Plant = Callable[[list[Event], Facts, Random], list[Event]]


def lost_write(events: list[Event], facts: Facts, random: Random) -> list[Event]:
    lost = random.choice([each for each in facts.writes.values() if _offset(each) is not None]).value
    return [
        replace(each, records=tuple(entry for entry in each.records if entry[1] != lost))
        if isinstance(each, FinalRead)
        else each
        for each in events
    ]


def duplicate(events: list[Event], facts: Facts, random: Random) -> list[Event]:
    write = random.choice(
        [
            each
            for each in facts.writes.values()
            if each.idempotent and each.value in facts.committed[each.partition]
        ]
    )
    end = facts.complete[write.partition].end
    return [
        replace(each, end=end + 1, records=(*each.records, (end, write.value)))
        if isinstance(each, FinalRead) and each.partition == write.partition
        else each
        for each in events
    ]


def reordering(events: list[Event], facts: Facts, random: Random) -> list[Event]:
    """Two sends change their places in the order of sending; all else stays as it is."""
    sends = [(index, each) for index, each in enumerate(events) if isinstance(each, SendInvoked)]
    pairs = [
        (first, second)
        for (first, one), (second, two) in pairwise(sends)
        if second == first + 1
        and one.client == two.client != "plain"
        and one.partition == two.partition
        and {one.value, two.value} <= set(facts.complete[one.partition].offsets_of)
    ]
    first, second = random.choice(pairs)
    planted = list(events)
    one, two = sends_at(events, first), sends_at(events, second)
    planted[first] = replace(two, time=one.time)
    planted[second] = replace(one, time=two.time)
    return planted


def sends_at(events: list[Event], index: int) -> SendInvoked:
    event = events[index]
    assert isinstance(event, SendInvoked)
    return event


def changed_offset(events: list[Event], _facts: Facts, random: Random) -> list[Event]:
    """One poll gives two neighbours with their values exchanged."""
    choices = [
        (index, number)
        for index, each in enumerate(events)
        if isinstance(each, Polled)
        for number in range(len(each.records) - 1)
        if each.records[number][1] != each.records[number + 1][1]
    ]
    index, number = random.choice(choices)
    poll = events[index]
    assert isinstance(poll, Polled)
    records = list(poll.records)
    (first, one), (second, two) = records[number : number + 2]
    records[number : number + 2] = [(first, two), (second, one)]
    return [*events[:index], replace(poll, records=tuple(records)), *events[index + 1 :]]


def moved_write(events: list[Event], facts: Facts, random: Random) -> list[Event]:
    """Acknowledged where no record stands: at a control record, or behind the end."""
    write = random.choice([each for each in facts.writes.values() if _offset(each) is not None])
    log = facts.complete[write.partition]
    free = [offset for offset in range(log.end + 2) if offset not in log.records]
    elsewhere = random.choice(free)
    return [
        replace(each, offset=elsewhere) if isinstance(each, SendAcknowledged) and each is write.end else each
        for each in events
    ]


def aborted_read(events: list[Event], facts: Facts, random: Random) -> list[Event]:
    """A committed transaction was an aborted one."""
    name = random.choice(_visible_transactions(facts)).name
    planted: list[Event] = []
    for each in events:
        if isinstance(each, TransactionEnding) and each.transaction == name:
            planted.append(replace(each, commit=False))
        elif isinstance(each, TransactionEnded) and each.transaction == name:
            planted.append(replace(each, outcome="aborted"))
        else:
            planted.append(each)
    return planted


def early_read(events: list[Event], facts: Facts, random: Random) -> list[Event]:
    """It was asked for and given after all had read it."""
    name = random.choice(_visible_transactions(facts)).name
    moved = [
        each
        for each in events
        if isinstance(each, TransactionEnding | TransactionEnded) and each.transaction == name
    ]
    after = events[-1].time
    late = [replace(each, time=after + number) for number, each in enumerate(moved, 1)]
    return [*(each for each in events if each not in moved), *late]


def partial_transaction(events: list[Event], facts: Facts, random: Random) -> list[Event]:
    transaction = random.choice(_visible_transactions(facts))
    hidden = random.choice(transaction.writes).value
    return [
        replace(each, records=tuple(entry for entry in each.records if entry[1] != hidden))
        if isinstance(each, FinalRead) and each.read_committed
        else each
        for each in events
    ]


def hung_transaction(events: list[Event], facts: Facts, random: Random) -> list[Event]:
    partition = random.choice([name for name, log in facts.committed.items() if log.end])
    end = random.randrange(facts.committed[partition].end)
    return [
        replace(each, end=end, records=tuple(entry for entry in each.records if entry[0] < end))
        if isinstance(each, FinalRead) and each.read_committed and each.partition == partition
        else each
        for each in events
    ]


def phantom_read(events: list[Event], facts: Facts, _random: Random) -> list[Event]:
    partition, log = next(iter(facts.complete.items()))
    time = events[-1].time
    return [
        *events,
        ConsumerStarted(client="new", read_committed=False, time=time),
        Polled(client="new", partition=partition, records=((log.end, "nobody:1"),), time=time),
    ]


def refused_write(events: list[Event], facts: Facts, random: Random) -> list[Event]:
    write = random.choice([each for each in facts.writes.values() if _offset(each) is not None])
    return [
        SendRefused(client=each.client, value=write.value, time=each.time) if each is write.end else each
        for each in events
    ]


def nonmonotonic_poll(events: list[Event], _facts: Facts, random: Random) -> list[Event]:
    index = random.choice([number for number, each in enumerate(events) if isinstance(each, Polled)])
    return [*events[: index + 1], events[index], *events[index + 1 :]]


def poll_skip(events: list[Event], _facts: Facts, random: Random) -> list[Event]:
    choices = [
        index for index, each in enumerate(events) if isinstance(each, Polled) and len(each.records) > 2
    ]
    index = random.choice(choices)
    poll = events[index]
    assert isinstance(poll, Polled)
    left_out = random.randrange(1, len(poll.records) - 1)
    records = poll.records[:left_out] + poll.records[left_out + 1 :]
    return [*events[:index], replace(poll, records=records), *events[index + 1 :]]


def commit_regression(events: list[Event], _facts: Facts, random: Random) -> list[Event]:
    """The first read after two commits gives the one before, or one that nobody made."""
    index = [number for number, each in enumerate(events) if isinstance(each, CommittedOffsetsRead)][1]
    read = events[index]
    assert isinstance(read, CommittedOffsetsRead)
    older: list[int | None] = [None, 1, 77]
    offsets = read.offsets | {"orders/0": random.choice(older)}
    return [*events[:index], replace(read, offsets=offsets), *events[index + 1 :]]


def _offset(write: Write) -> int | None:
    return write.end.offset if isinstance(write.end, SendAcknowledged) else None


def _visible_transactions(facts: Facts) -> list[Transaction]:
    """Committed ones with records, and with nothing else in them."""
    with_offsets = {each.transaction for each in facts.events if isinstance(each, OffsetCommitInvoked)}
    return [
        each
        for each in facts.transactions.values()
        if each.fate is Fate.COMMITTED and each.writes and each.name not in with_offsets
    ]


PLANTS: dict[str, Plant] = {
    "lost-write": lost_write,
    "duplicate": duplicate,
    "reordering": reordering,
    "changed-offset": changed_offset,
    "moved-write": moved_write,
    "aborted-read": aborted_read,
    "early-read": early_read,
    "partial-transaction": partial_transaction,
    "hung-transaction": hung_transaction,
    "phantom-read": phantom_read,
    "refused-write": refused_write,
    "nonmonotonic-poll": nonmonotonic_poll,
    "poll-skip": poll_skip,
    "commit-regression": commit_regression,
}
