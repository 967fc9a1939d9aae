"""Producer state by scenario: which batches are new, repeated, out of order or from an old epoch."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.log.errors import InvalidProducerEpochError, OutOfOrderSequenceError
from headrace.log.producers.producer_snapshot import CorruptSnapshotError, decode, encode
from headrace.log.producers.producer_state import LARGEST_SEQUENCE, Duplicate, ProducerState
from headrace.wire.record_batch import BatchHeader, read_header
from headrace.wire.records import Record, build_batch

DAY = 86_400_000
NEW = "new"
OUT_OF_ORDER = OutOfOrderSequenceError
OLD_EPOCH = InvalidProducerEpochError


def batch(sequence: int, count: int = 1, *, epoch: int = 0, producer: int = 7) -> BatchHeader:
    records = [Record(index) for index in range(count)]
    return read_header(
        build_batch(records, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    )


def state_after(*headers: BatchHeader) -> ProducerState:
    """The state after these batches were appended, one second apart."""
    state = ProducerState("events-0")
    offset = 0
    for index, header in enumerate(headers):
        assert state.check(header, offset) is None
        state.appended(header, offset, 1_000 * index)
        offset += header.record_count
    return state


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    name: str
    before: tuple[BatchHeader, ...]
    comes: BatchHeader
    expected: object


FIVE = tuple(batch(10 * index, 10) for index in range(5))
SIX = tuple(batch(10 * index, 10) for index in range(6))
TOP = LARGEST_SEQUENCE
SCENARIOS = [
    Scenario(name="first batch", before=(), comes=batch(0), expected=NEW),
    Scenario(name="unknown producer may begin anywhere", before=(), comes=batch(500), expected=NEW),
    Scenario(name="no producer id", before=FIVE, comes=batch(3, producer=-1), expected=NEW),
    Scenario(name="next", before=FIVE, comes=batch(50, 3), expected=NEW),
    Scenario(name="gap of one", before=FIVE, comes=batch(51), expected=OUT_OF_ORDER),
    Scenario(name="large gap", before=FIVE, comes=batch(5_000), expected=OUT_OF_ORDER),
    *(
        Scenario(
            name=f"duplicate of batch {index} of 5",
            before=FIVE,
            comes=batch(10 * index, 10),
            expected=Duplicate(10 * index, 10 * index + 9, 1_000 * index),
        )
        for index in range(5)
    ),
    Scenario(name="duplicate of the sixth last", before=SIX, comes=batch(0, 10), expected=OUT_OF_ORDER),
    Scenario(name="fifth last of six", before=SIX, comes=batch(10, 10), expected=Duplicate(10, 19, 1_000)),
    Scenario(name="starts like a duplicate, shorter", before=FIVE, comes=batch(40, 5), expected=OUT_OF_ORDER),
    Scenario(name="starts like a duplicate, longer", before=FIVE, comes=batch(40, 11), expected=OUT_OF_ORDER),
    Scenario(name="ends like a duplicate", before=FIVE, comes=batch(45, 5), expected=OUT_OF_ORDER),
    Scenario(name="two batches joined", before=FIVE, comes=batch(30, 20), expected=OUT_OF_ORDER),
    Scenario(name="old epoch", before=(batch(0, epoch=3),), comes=batch(1, epoch=2), expected=OLD_EPOCH),
    Scenario(
        name="old epoch, once a batch",
        before=(batch(0), batch(0, epoch=1)),
        comes=batch(0),
        expected=OLD_EPOCH,
    ),
    Scenario(name="new epoch from 0", before=FIVE, comes=batch(0, 10, epoch=1), expected=NEW),
    Scenario(name="new epoch skips epochs", before=FIVE, comes=batch(0, epoch=9), expected=NEW),
    Scenario(name="new epoch goes on counting", before=FIVE, comes=batch(50, epoch=1), expected=OUT_OF_ORDER),
    Scenario(
        name="sequences of the old epoch are forgotten",
        before=(*FIVE, batch(0, 10, epoch=1)),
        comes=batch(10, 10, epoch=1),
        expected=NEW,
    ),
    Scenario(
        name="duplicate within the new epoch",
        before=(*FIVE, batch(0, 10, epoch=1)),
        comes=batch(0, 10, epoch=1),
        expected=Duplicate(50, 59, 5_000),
    ),
    Scenario(name="wraps to 0", before=(batch(TOP),), comes=batch(0), expected=NEW),
    Scenario(name="wraps inside a batch", before=(batch(TOP - 1),), comes=batch(TOP, 3), expected=NEW),
    Scenario(name="after a wrap inside a batch", before=(batch(TOP - 1, 4),), comes=batch(2), expected=NEW),
    Scenario(
        name="duplicate of a batch with a wrap",
        before=(batch(TOP - 1, 4), batch(2)),
        comes=batch(TOP - 1, 4),
        expected=Duplicate(0, 3, 0),
    ),
    Scenario(name="no wrap before the top", before=(batch(TOP - 1),), comes=batch(0), expected=OUT_OF_ORDER),
    Scenario(
        name="producers do not share numbers", before=FIVE, comes=batch(0, 10, producer=8), expected=NEW
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_scenario(scenario: Scenario) -> None:
    state = state_after(*scenario.before)
    if isinstance(scenario.expected, type):
        with pytest.raises(scenario.expected):
            state.check(scenario.comes, 99)
    else:
        found = state.check(scenario.comes, 99)
        assert (NEW if found is None else found) == scenario.expected


def test_messages_are_worded_as_kafka_does() -> None:
    state = state_after(batch(0, epoch=1))
    with pytest.raises(OutOfOrderSequenceError) as caught:
        state.check(batch(5, epoch=1), 1)
    assert str(caught.value) == (
        "Out of order sequence number for producer 7 at offset 1 in partition events-0: "
        "5 (incoming seq. number), 0 (current end sequence number)"
    )
    with pytest.raises(InvalidProducerEpochError) as old:
        state.check(batch(1, epoch=0), 1)
    assert str(old.value) == (
        "Epoch of producer 7 at offset 1 in events-0 is 0, which is < the last seen epoch 1 (TV-1)"
    )


def test_checking_changes_nothing() -> None:
    state = state_after(*FIVE)
    before = state.snapshot()
    for scenario in SCENARIOS:
        try:
            state.check(scenario.comes, 50)
        except (OutOfOrderSequenceError, InvalidProducerEpochError):
            continue
    assert state.snapshot() == before


def test_batches_without_a_producer_are_not_remembered() -> None:
    state = ProducerState("events-0")
    state.appended(batch(-1, producer=-1, epoch=-1), 0, 0)
    assert len(state) == 0


def test_producers_expire_by_the_time_of_their_newest_record() -> None:
    state = ProducerState("events-0")
    state.appended(batch(0, producer=1), 0, 5_000)
    state.appended(batch(0, producer=2), 1, 5_001)
    assert state.remove_expired(4_999 + DAY) == 0
    assert state.remove_expired(5_000 + DAY) == 1
    assert [producer.producer_id for producer in state.active()] == [2]
    assert state.check(batch(17, producer=1), 2) is None


def test_a_producer_with_an_open_transaction_does_not_expire() -> None:
    state = state_after(batch(0))
    producer = state.get(7)
    assert producer is not None
    producer.begin(0)
    assert state.remove_expired(100 * DAY) == 0


def test_the_expiration_can_be_set() -> None:
    state = ProducerState("events-0")
    state.expire_after(10)
    state.appended(batch(0), 0, 100)
    assert state.remove_expired(109) == 0
    assert state.remove_expired(110) == 1


def test_a_snapshot_remembers_all_that_the_state_does() -> None:
    state = state_after(*SIX, batch(3, producer=9))
    loaded = ProducerState("events-0")
    loaded.load(state.snapshot())
    assert loaded.snapshot() == state.snapshot()
    for index in range(1, 6):
        assert loaded.check(batch(10 * index, 10), 61) == Duplicate(10 * index, 10 * index + 9, 1_000 * index)
    assert loaded.check(batch(60), 61) is None
    with pytest.raises(OutOfOrderSequenceError):
        loaded.check(batch(0, 10), 61)
    with pytest.raises(OutOfOrderSequenceError):
        loaded.check(batch(61), 61)


def test_a_snapshot_that_kafka_wrote_remembers_the_newest_batch() -> None:
    producers, _ = decode(state_after(*FIVE).snapshot())
    loaded = ProducerState("events-0")
    loaded.load(encode(producers))
    assert loaded.check(batch(40, 10), 50) == Duplicate(40, 49, 4_000)
    assert loaded.check(batch(50), 50) is None
    with pytest.raises(OutOfOrderSequenceError):
        loaded.check(batch(30, 10), 50)


def test_a_snapshot_with_a_batch_of_no_producer_is_damaged() -> None:
    producers, batches = decode(state_after(*FIVE).snapshot())
    strange = encode(producers, [batches[0]._replace(producer_id=99)])
    with pytest.raises(CorruptSnapshotError):
        ProducerState("events-0").load(strange)


def test_a_snapshot_of_a_batch_with_a_wrap() -> None:
    loaded = ProducerState("events-0")
    loaded.load(state_after(batch(TOP - 1, 4)).snapshot())
    assert loaded.check(batch(TOP - 1, 4), 4) == Duplicate(0, 3, 0)


def test_a_damaged_snapshot_leaves_the_state_as_it_was() -> None:
    state = state_after(*FIVE)
    before = state.snapshot()
    with pytest.raises(CorruptSnapshotError):
        state.load(before[:-1])
    assert state.snapshot() == before


def test_a_snapshot_keeps_what_transactions_need() -> None:
    state = state_after(batch(0))
    producer = state.get(7)
    assert producer is not None
    producer.begin(0)
    producer.coordinator_epoch = 4
    producer.batches.clear()
    loaded = ProducerState("events-0")
    loaded.load(state.snapshot())
    loaded.remove_expired(100 * DAY)
    again = loaded.get(7)
    assert again is not None
    assert (again.transaction_first_offset, again.coordinator_epoch, again.last_sequence) == (0, 4, -1)
    assert loaded.ongoing == {7: 0}


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=30),
    retries=st.lists(st.integers(0, 29), max_size=10),
    start=st.sampled_from([0, TOP - 20]),
)
def test_against_a_list_of_batches(sizes: list[int], retries: list[int], start: int) -> None:
    """Whatever is resent: the last five batches are recognised, everything older is refused."""
    state = ProducerState("events-0")
    sent: list[tuple[BatchHeader, int]] = []
    sequence, offset = start, 0
    for size in sizes:
        header = batch(sequence, size)
        assert state.check(header, offset) is None
        state.appended(header, offset, offset)
        sent.append((header, offset))
        sequence = (sequence + size) & TOP
        offset += size
    for index in retries:
        if index >= len(sent):
            continue
        header, at = sent[index]
        if index >= len(sent) - 5:
            assert state.check(header, offset) == Duplicate(at, at + header.last_offset_delta, at)
        else:
            with pytest.raises(OutOfOrderSequenceError):
                state.check(header, offset)
