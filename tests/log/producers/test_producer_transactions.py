"""Producer state by scenario: who may open a transaction, who may end it, and what ends with it."""

from __future__ import annotations

import pytest

from headrace.log.errors import (
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from headrace.log.producers.producer_state import Duplicate, Ended, ProducerState
from headrace.log.producers.verification import Coordinator, Guard, Permission, TransactionEnd
from headrace.wire.control_batches import EndMarker, build_end_marker
from headrace.wire.record_batch import BatchHeader, read_header
from headrace.wire.records import Record, build_batch

DAY = 86_400_000
NOW = 1_800_000_000_000


def batch(
    sequence: int, count: int = 1, *, epoch: int = 0, producer: int = 7, transactional: bool = True
) -> BatchHeader:
    return read_header(
        build_batch(
            [Record(index) for index in range(count)],
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
    )


def marker(epoch: int, producer: int = 7) -> BatchHeader:
    return read_header(
        build_end_marker(EndMarker(True, 0), producer_id=producer, producer_epoch=epoch, timestamp=NOW)
    )


def by_coordinator(coordinator_epoch: int = 0, version: int = 2) -> Coordinator:
    return Coordinator(end=TransactionEnd(EndMarker(True, coordinator_epoch), version))


def guard_of(
    state: ProducerState, sequence: int = 0, *, epoch: int = 0, producer: int = 7, bump: bool = True
) -> Guard | None:
    return state.begin_verification(producer, sequence, epoch, epoch_bump=bump, now_ms=NOW)


def append(
    state: ProducerState, header: BatchHeader, offset: int, permission: Permission | None = None
) -> None:
    assert state.check(header, offset, permission) is None
    state.appended(header, offset, NOW)


def with_transaction(*, bump: bool = True) -> ProducerState:
    """Producer 7 has written offsets 0 and 1 in a transaction of epoch 0."""
    state = ProducerState("events-0")
    append(state, batch(0, 2), 0, guard_of(state, bump=bump))
    return state


def test_records_that_no_coordinator_knows_of_are_refused() -> None:
    state = ProducerState("events-0")
    for permission in (None, Guard(), Coordinator(), Coordinator(guard=Guard())):
        with pytest.raises(InvalidTransactionStateError):
            state.check(batch(0), 0, permission)
    guard_of(state)
    with pytest.raises(InvalidTransactionStateError):
        state.check(batch(0), 0, Guard())
    with pytest.raises(InvalidTransactionStateError):
        state.check(batch(0, producer=8), 0, guard_of(state))


def test_the_first_records_open_a_transaction_and_the_next_need_no_guard() -> None:
    state = with_transaction()
    assert state.ongoing == {7: 0}
    assert guard_of(state, 2) is None
    append(state, batch(2), 2)
    assert state.first_unstable_offset(3) == 0


def test_a_guard_is_used_up_by_the_first_records() -> None:
    state = ProducerState("events-0")
    guard = guard_of(state)
    append(state, batch(0), 0, guard)
    state.ended(marker(1), EndMarker(True, 0), 1, NOW)
    with pytest.raises(InvalidTransactionStateError):
        state.check(batch(0, epoch=1), 2, guard)


def test_a_marker_takes_the_guard_away() -> None:
    """The coordinator's reply was about a transaction that has ended meanwhile."""
    state = ProducerState("events-0")
    guard = guard_of(state)
    state.ended(marker(0), EndMarker(False, 0), 0, NOW)
    with pytest.raises(InvalidTransactionStateError):
        state.check(batch(0), 1, guard)
    append(state, batch(0), 1, guard_of(state))


def test_two_requests_of_one_producer_share_a_guard() -> None:
    state = ProducerState("events-0")
    first, second = guard_of(state, 0, bump=False), guard_of(state, 3, bump=False)
    assert first is second
    with pytest.raises(OutOfOrderSequenceError, match="earliest seen sequence"):
        state.check(batch(3), 0, second)
    append(state, batch(0, 3), 0, first)
    append(state, batch(3), 3, second)


def test_a_new_epoch_resets_the_sequence_that_is_waited_for() -> None:
    state = ProducerState("events-0")
    guard_of(state, 0, bump=False)
    guard = guard_of(state, 4, epoch=1, bump=False)
    append(state, batch(4, epoch=1), 0, guard)


def test_in_version_2_an_unknown_producer_begins_at_0() -> None:
    state = ProducerState("events-0")
    with pytest.raises(OutOfOrderSequenceError, match="Expected sequence 0"):
        state.check(batch(5), 0, guard_of(state, 5))
    state = ProducerState("events-0")
    append(state, batch(5), 0, guard_of(state, 5, bump=False))


def test_verification_of_an_old_epoch_is_refused_at_once() -> None:
    state = with_transaction()
    state.ended(marker(1), EndMarker(True, 0), 2, NOW)
    with pytest.raises(InvalidProducerEpochError):
        guard_of(state, 2, epoch=0)


def test_an_open_transaction_of_an_older_epoch_is_no_proof_for_a_newer_one() -> None:
    state = with_transaction()
    with pytest.raises(InvalidTransactionStateError):
        state.check(batch(0, epoch=1), 2)
    append(state, batch(0, epoch=1), 2, guard_of(state, epoch=1))
    assert state.ongoing == {7: 0}


def test_other_records_during_a_transaction_are_refused() -> None:
    state = with_transaction()
    with pytest.raises(InvalidTransactionStateError, match="Expected transactional write"):
        state.check(batch(2, transactional=False), 2)
    with pytest.raises(InvalidProducerEpochError):
        with_epoch_5().check(batch(2, transactional=False), 2)


def with_epoch_5() -> ProducerState:
    state = ProducerState("events-0")
    append(state, batch(0, epoch=5), 0, guard_of(state, epoch=5))
    return state


def test_a_repetition_is_recognised_after_the_end_too() -> None:
    state = with_transaction(bump=False)
    state.ended(marker(0), EndMarker(True, 0), 2, NOW)
    assert state.check(batch(0, 2), 3) == Duplicate(0, 1, NOW)


def test_in_version_1_the_sequence_continues_after_a_marker() -> None:
    state = with_transaction(bump=False)
    state.ended(marker(0), EndMarker(True, 0), 2, NOW)
    append(state, batch(2), 3, guard_of(state, 2, bump=False))
    assert state.ongoing == {7: 3}


def test_in_version_2_each_transaction_counts_from_0() -> None:
    state = with_transaction()
    state.ended(marker(1), EndMarker(True, 0), 2, NOW)
    with pytest.raises(InvalidProducerEpochError):
        state.check(batch(2), 3, guard_of(state, 0, epoch=1))
    append(state, batch(0, epoch=1), 3, guard_of(state, 0, epoch=1))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_markers_of_an_older_epoch_are_refused(version: int) -> None:
    with pytest.raises(InvalidProducerEpochError):
        with_epoch_5().check(marker(4), 1, by_coordinator(version=version))


def test_a_late_marker_of_version_2_does_not_end_a_newer_transaction() -> None:
    state = with_transaction()
    assert state.check(marker(1), 2, by_coordinator()) is None
    state.ended(marker(1), EndMarker(True, 0), 2, NOW)
    append(state, batch(0, epoch=1), 3, guard_of(state, epoch=1))
    with pytest.raises(InvalidProducerEpochError, match="which is <= the last seen epoch 1"):
        state.check(marker(1), 4, by_coordinator())
    assert state.check(marker(2), 4, by_coordinator()) is None


def test_a_marker_may_be_written_again() -> None:
    state = with_transaction()
    assert state.ended(marker(1), EndMarker(False, 0), 2, NOW) == Ended(7, 0, 2, 3, False)
    assert state.check(marker(1), 3, by_coordinator()) is None
    assert state.ended(marker(1), EndMarker(False, 0), 3, NOW) is None


def test_markers_of_an_older_coordinator_are_refused() -> None:
    state = with_transaction()
    state.ended(marker(1), EndMarker(True, 4), 2, NOW)
    append(state, batch(0, epoch=1), 3, guard_of(state, epoch=1))
    with pytest.raises(TransactionCoordinatorFencedError, match=r"3 \(zombie\), 4 \(current\)"):
        state.check(marker(2), 4, by_coordinator(3))
    assert state.check(marker(2), 4, by_coordinator(4)) is None


def test_a_marker_without_records_makes_the_producer_known() -> None:
    state = ProducerState("events-0")
    assert state.check(marker(3), 0, by_coordinator()) is None
    assert state.ended(marker(3), EndMarker(False, 2), 0, NOW) is None
    producer = state.get(7)
    assert producer is not None
    assert (producer.epoch, producer.coordinator_epoch, producer.last_timestamp) == (3, 2, NOW)
    with pytest.raises(InvalidProducerEpochError):
        guard_of(state, epoch=2)


def test_only_coordinators_write_markers() -> None:
    with pytest.raises(InvalidTransactionStateError):
        with_transaction().check(marker(1), 2)


def test_offsets_have_no_sequence_numbers() -> None:
    state = ProducerState("events-0")
    guard = guard_of(state, -1, bump=False)
    append(state, batch(-1), 0, Coordinator(guard=guard))
    append(state, batch(-1, 2), 1, Coordinator())
    assert state.check(batch(-1, 2), 3, Coordinator()) is None
    producer = state.get(7)
    assert producer is not None
    assert producer.last_sequence == -1
    again = ProducerState("events-0")
    again.load(state.snapshot())
    assert again.snapshot() == state.snapshot()
    assert again.check(batch(-1, 2), 3, Coordinator()) is None


def test_what_is_stable_when_several_transactions_are_open() -> None:
    state = ProducerState("events-0")
    for offset, producer in enumerate((7, 8, 9)):
        append(state, batch(0, producer=producer), offset, guard_of(state, producer=producer))
    assert state.first_unstable_offset(9) == 0
    assert state.ended(marker(1, 8), EndMarker(False, 0), 3, NOW) == Ended(8, 1, 3, 0, False)
    assert state.first_unstable_offset(9) == 0
    assert state.ended(marker(1, 7), EndMarker(True, 0), 4, NOW) == Ended(7, 0, 4, 2, True)
    assert state.first_unstable_offset(9) == 2
    assert state.ended(marker(1, 9), EndMarker(True, 0), 5, NOW) == Ended(9, 2, 5, 6, True)
    assert state.first_unstable_offset(9) is None


def test_an_end_that_is_not_synced_does_not_count() -> None:
    state = with_transaction()
    ended = state.ended(marker(1), EndMarker(True, 0), 2, NOW)
    assert ended is not None
    state.await_sync(ended)
    assert state.first_unstable_offset(2) == 0
    assert state.first_unstable_offset(3) is None


def test_a_snapshot_keeps_open_transactions_in_order() -> None:
    state = ProducerState("events-0")
    for offset, producer in enumerate((9, 7, 8)):
        append(state, batch(0, producer=producer), offset, guard_of(state, producer=producer))
    state.ended(marker(1, 9), EndMarker(True, 3), 3, NOW)
    append(state, batch(0, producer=9, epoch=1), 4, guard_of(state, producer=9, epoch=1))
    loaded = ProducerState("events-0")
    loaded.load(state.snapshot())
    loaded.remove_expired(NOW + 100 * DAY)
    assert list(loaded.ongoing.items()) == list(state.ongoing.items()) == [(7, 1), (8, 2), (9, 4)]
    assert loaded.snapshot() == state.snapshot()
    append(loaded, batch(1, producer=8), 5)


def test_verifications_that_nobody_waits_for_are_forgotten() -> None:
    state = ProducerState("events-0")
    guard = guard_of(state)
    state.remove_expired(NOW + DAY - 1)
    assert len(state.verifications) == 1
    state.remove_expired(NOW + DAY)
    assert len(state.verifications) == 0
    with pytest.raises(InvalidTransactionStateError):
        state.check(batch(0), 0, guard)
