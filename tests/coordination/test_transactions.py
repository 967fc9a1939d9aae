"""The machine of transactions by scenario: who gets which epoch, who is fenced, how transactions end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kio.schema.errors import ErrorCode

from headrace.coordination.decision import Decision
from headrace.coordination.transactions.endings import LARGEST_EPOCH
from headrace.coordination.transactions.machine import TransactionSettings
from headrace.coordination.transactions.records import transaction_record
from headrace.coordination.transactions.requests import (
    EndReply,
    ListTransactions,
    Markers,
)
from headrace.coordination.transactions.states import (
    AT_REST,
    ENDINGS_V1,
    ENDINGS_V2,
    TRANSITIONS,
    Ending,
    Event,
    State,
    can,
)
from tests.coordination.transaction_runtime import OFFSETS, P0, P1, TIMEOUT_MS, Runtime, producer_of

DAY_MS = 24 * 60 * 60 * 1000
NONE = ErrorCode.none
CONCURRENT = ErrorCode.concurrent_transactions
FENCED = ErrorCode.producer_fenced
INVALID = ErrorCode.invalid_txn_state
UNKNOWN = ErrorCode.invalid_producer_id_mapping


def begun(runtime: Runtime, *, version: int = 2) -> tuple[int, int]:
    """A producer with an open transaction on one partition."""
    producer = producer_of(runtime.init())
    assert runtime.add(producer, version=version).error is NONE
    return producer


def exhausted(runtime: Runtime, epoch: int = LARGEST_EPOCH - 1) -> tuple[int, int]:
    """A producer that has reached a high epoch."""
    producer_id, _ = producer_of(runtime.init())
    transaction = runtime.machine.get("t")
    assert transaction is not None
    record = transaction_record(replace(transaction, producer_epoch=epoch))
    runtime.apply(Decision(records=(record,), reply=EndReply()))
    return producer_id, epoch


# InitProducerId


def test_every_init_raises_the_epoch_of_the_same_id() -> None:
    runtime = Runtime()
    first = producer_of(runtime.init())
    assert first == (1001, 0)
    assert [producer_of(runtime.init()) for _ in range(3)] == [(1001, 1), (1001, 2), (1001, 3)]
    assert producer_of(runtime.init("other")) == (1002, 0)


@pytest.mark.parametrize(
    ("transactional_id", "timeout_ms", "error"),
    [
        ("", 1, ErrorCode.invalid_request),
        ("t", 0, ErrorCode.invalid_transaction_timeout),
        ("t", -1, ErrorCode.invalid_transaction_timeout),
        ("t", 900_001, ErrorCode.invalid_transaction_timeout),
        ("t", 900_000, NONE),
    ],
)
def test_requests_that_cannot_be(transactional_id: str, timeout_ms: int, error: ErrorCode) -> None:
    runtime = Runtime()
    assert runtime.init(transactional_id, timeout_ms=timeout_ms).error is error
    assert (len(runtime.log), runtime.ids) == ((1, 1001) if error is NONE else (0, 1000))


def test_a_producer_that_goes_on_may_repeat_its_request() -> None:
    """KIP-360."""
    runtime = Runtime()
    first = producer_of(runtime.init())
    second = producer_of(runtime.init(producer=first))
    assert second == (first[0], 1)
    assert producer_of(runtime.init(producer=first)) == second
    runtime.reload()
    assert producer_of(runtime.init(producer=first)) == second
    assert producer_of(runtime.init(producer=second)) == (first[0], 2)
    assert runtime.init(producer=first).error is FENCED


def test_a_producer_that_was_followed_by_another_is_fenced() -> None:
    runtime = Runtime()
    first = producer_of(runtime.init())
    second = producer_of(runtime.init())
    assert runtime.init(producer=first).error is FENCED
    assert runtime.add(first).error is FENCED
    assert runtime.end(first, committed=True).error is FENCED
    assert runtime.end(first, committed=True, version=0).error is FENCED
    assert runtime.init(producer=(999, 1)).error is FENCED
    assert runtime.add(second).error is NONE


def test_an_id_that_was_forgotten_takes_any_producer() -> None:
    runtime = Runtime()
    assert producer_of(runtime.init(producer=(5, 7))) == (1001, 0)


def test_init_aborts_what_is_open_and_asks_to_come_again() -> None:
    runtime = Runtime()
    producer = begun(runtime)
    assert runtime.init().error is CONCURRENT
    assert runtime.state() == "PrepareAbort"
    assert runtime.init().error is CONCURRENT
    assert runtime.end(producer, committed=True).error is CONCURRENT
    markers = runtime.finish()
    assert markers == Markers(
        transactional_id="t",
        producer_id=producer[0],
        producer_epoch=1,
        committed=False,
        client_version=2,
        partitions=frozenset({P0}),
    )
    assert producer_of(runtime.init()) == (producer[0], 2)
    assert runtime.end(producer, committed=True).error is FENCED


def test_a_producer_that_was_fenced_cannot_abort_the_transaction_of_its_successor() -> None:
    """Kafka allows this, because it checks only the id while a transaction is open."""
    runtime = Runtime()
    first = producer_of(runtime.init())
    second = producer_of(runtime.init())
    runtime.add(second)
    assert runtime.init(producer=first).error is FENCED
    assert runtime.state() == "Ongoing"
    assert runtime.init(producer=second).error is CONCURRENT
    assert runtime.state() == "PrepareAbort"


# Partitions


def test_partitions_are_added_once() -> None:
    runtime = Runtime()
    producer = begun(runtime)
    written = len(runtime.log)
    assert runtime.add(producer).error is NONE
    assert len(runtime.log) == written
    assert runtime.add(producer, [P0, P1, OFFSETS]).error is NONE
    assert runtime.machine.describe("t").partitions == (OFFSETS, P0, P1)
    assert len(runtime.log) == written + 1


@pytest.mark.parametrize("verify_only", [False, True])
def test_partitions_of_producers_that_are_not_there(verify_only: bool) -> None:
    runtime = Runtime()
    assert runtime.add((1, 0), verify_only=verify_only).error is UNKNOWN
    assert (
        runtime.add((1, 0), transactional_id="", verify_only=verify_only).error is ErrorCode.invalid_request
    )
    producer_id, epoch = begun(runtime)
    assert runtime.add((producer_id + 1, epoch), verify_only=verify_only).error is UNKNOWN
    assert runtime.add((producer_id, epoch + 1), verify_only=verify_only).error is FENCED


def test_verifying_tells_which_partitions_are_in_the_transaction() -> None:
    runtime = Runtime()
    producer = producer_of(runtime.init())
    abortable = ErrorCode.transaction_abortable
    assert runtime.add(producer, verify_only=True).partitions == ((P0, abortable),)
    runtime.add(producer)
    written = len(runtime.log)
    assert runtime.add(producer, [P0, P1], verify_only=True).partitions == ((P0, NONE), (P1, abortable))
    assert len(runtime.log) == written
    runtime.end(producer, committed=True, version=0)
    assert runtime.add(producer, verify_only=True).error is CONCURRENT
    runtime.finish()
    assert runtime.add(producer, verify_only=True).error is abortable


def test_no_partition_is_added_while_the_end_is_under_way() -> None:
    runtime = Runtime()
    producer = begun(runtime)
    following = producer_of(runtime.end(producer, committed=True))
    assert runtime.add(following).error is CONCURRENT
    runtime.finish()
    assert runtime.add(following).error is NONE


# EndTxn


@pytest.mark.parametrize("committed", [True, False])
def test_in_version_2_each_end_raises_the_epoch(committed: bool) -> None:
    runtime = Runtime()
    producer = begun(runtime)
    following = producer_of(runtime.end(producer, committed=committed))
    assert following == (producer[0], producer[1] + 1)
    assert runtime.state() == ("PrepareCommit" if committed else "PrepareAbort")
    markers = runtime.finish()
    assert markers is not None
    assert (markers.producer_epoch, markers.committed) == (following[1], committed)
    assert runtime.state() == ("CompleteCommit" if committed else "CompleteAbort")
    assert runtime.machine.describe("t").partitions == ()
    assert runtime.finish() is None


@pytest.mark.parametrize("committed", [True, False])
def test_in_version_1_the_epoch_stays(committed: bool) -> None:
    runtime = Runtime()
    producer = begun(runtime, version=0)
    assert runtime.end(producer, committed=committed, version=0) == EndReply()
    markers = runtime.finish()
    assert markers is not None
    assert (markers.producer_epoch, markers.client_version) == (producer[1], 0)
    assert runtime.end(producer, committed=committed, version=0) == EndReply()
    assert runtime.end(producer, committed=not committed, version=0).error is INVALID
    assert runtime.add(producer, version=0).error is NONE


def test_a_late_end_does_not_touch_a_newer_transaction() -> None:
    runtime = Runtime()
    producer = begun(runtime)
    following = producer_of(runtime.end(producer, committed=True))
    runtime.finish()
    assert producer_of(runtime.end(producer, committed=True)) == following
    assert runtime.end(producer, committed=False).error is INVALID
    runtime.add(following)
    for committed in (True, False):
        assert runtime.end(producer, committed=committed).error is FENCED
    assert runtime.state() == "Ongoing"


# Kafka's own table in TransactionCoordinator: state, then abort and commit of the epoch before, then of this
# one.
_TABLE = [
    ("Empty", (FENCED, FENCED), (NONE, INVALID)),
    ("Ongoing", (FENCED, FENCED), (NONE, NONE)),
    ("PrepareCommit", (CONCURRENT, CONCURRENT), (CONCURRENT, CONCURRENT)),
    ("PrepareAbort", (CONCURRENT, CONCURRENT), (CONCURRENT, CONCURRENT)),
    ("CompleteAbort", (NONE, INVALID), (NONE, INVALID)),
    ("CompleteCommit", (INVALID, NONE), (NONE, INVALID)),
]


def in_state(state: str) -> tuple[Runtime, int, int]:
    runtime = Runtime()
    producer = producer_of(runtime.init())
    if state != "Empty":
        runtime.add(producer)
    if state not in ("Empty", "Ongoing"):
        producer = producer_of(runtime.end(producer, committed=state.endswith("Commit")))
    if state.startswith("Complete"):
        runtime.finish()
    assert runtime.state() == state
    return runtime, *producer


@pytest.mark.parametrize(("state", "repeated", "current"), _TABLE)
@pytest.mark.parametrize("committed", [False, True])
def test_what_an_end_comes_to_in_version_2(
    state: str, repeated: tuple[ErrorCode, ErrorCode], current: tuple[ErrorCode, ErrorCode], committed: bool
) -> None:
    runtime, producer_id, epoch = in_state(state)
    assert runtime.end((producer_id, epoch - 1), committed=committed).error is repeated[committed]
    assert runtime.state() == state
    assert runtime.end((producer_id, epoch), committed=committed).error is current[committed]
    if state not in ("PrepareCommit", "PrepareAbort") and current[committed] is NONE:
        assert runtime.state() == ("PrepareCommit" if committed else "PrepareAbort")
    runtime, producer_id, epoch = in_state(state)
    if not state.startswith("Prepare"):
        assert runtime.end((producer_id, epoch + 1), committed=committed).error is FENCED
    assert runtime.end((producer_id + 1, epoch), committed=committed).error is UNKNOWN


def test_an_end_of_what_was_never_begun() -> None:
    runtime = Runtime()
    assert runtime.end((1, 0), committed=True).error is UNKNOWN
    assert runtime.end((1, 0), committed=True, transactional_id="").error is ErrorCode.invalid_request
    producer = producer_of(runtime.init())
    assert runtime.end(producer, committed=False, version=0).error is INVALID
    assert producer_of(runtime.end(producer, committed=False)) == (producer[0], 1)
    markers = runtime.finish()
    assert markers is not None
    assert markers.partitions == frozenset()
    assert runtime.machine.describe("t").started_ms == runtime.now_ms


# Epochs that are used up


def test_when_epochs_are_used_up_the_producer_goes_on_with_another_id() -> None:
    runtime = Runtime()
    producer = exhausted(runtime)
    runtime.add(producer)
    following = producer_of(runtime.end(producer, committed=True))
    assert following == (producer[0] + 1, 0)
    assert runtime.add(following).error is CONCURRENT
    assert runtime.end(producer, committed=True).error is CONCURRENT
    markers = runtime.finish()
    assert markers is not None
    assert (markers.producer_id, markers.producer_epoch) == (producer[0], LARGEST_EPOCH)
    assert producer_of(runtime.end(producer, committed=True)) == following
    assert runtime.end(producer, committed=False).error is INVALID
    runtime.add(following)
    assert runtime.end(producer, committed=True).error is UNKNOWN


def test_init_gives_another_id_when_epochs_are_used_up() -> None:
    runtime = Runtime()
    producer = exhausted(runtime)
    assert producer_of(runtime.init()) == (producer[0] + 1, 0)
    runtime = Runtime()
    producer = exhausted(runtime)
    following = producer_of(runtime.init(producer=producer))
    assert following == (producer[0] + 1, 0)
    for _ in range(2):
        assert producer_of(runtime.init(producer=producer)) == following


def test_fencing_with_the_last_epoch() -> None:
    """No client gets the largest epoch, not even one that continues after an abort."""
    for goes_on in (False, True):
        runtime = Runtime()
        producer = exhausted(runtime)
        runtime.add(producer)
        runtime.advance(TIMEOUT_MS)
        markers = runtime.finish()
        assert markers is not None
        assert markers.producer_epoch == LARGEST_EPOCH
        following = producer_of(runtime.init(producer=producer if goes_on else (-1, -1)))
        assert following == (producer[0] + 1, 0)


# Time


def test_a_transaction_that_takes_too_long_is_aborted() -> None:
    runtime = Runtime()
    producer = begun(runtime)
    runtime.advance(TIMEOUT_MS - 1)
    assert runtime.state() == "Ongoing"
    runtime.advance(1)
    assert runtime.state() == "PrepareAbort"
    markers = runtime.finish()
    assert markers is not None
    assert (markers.producer_epoch, markers.committed) == (producer[1] + 1, False)
    assert runtime.end(producer, committed=True).error is INVALID
    assert producer_of(runtime.end(producer, committed=False)) == (producer[0], producer[1] + 1)
    assert runtime.end(producer, committed=False, version=0).error is FENCED


def test_time_runs_from_the_first_partition_on() -> None:
    runtime = Runtime()
    producer = begun(runtime)
    runtime.advance(TIMEOUT_MS - 1)
    runtime.add(producer, [P1])
    runtime.advance(1)
    assert runtime.state() == "PrepareAbort"


def test_an_end_in_time_stops_the_clock() -> None:
    runtime = Runtime()
    producer = begun(runtime)
    following = producer_of(runtime.end(producer, committed=True))
    runtime.finish()
    runtime.advance(10 * TIMEOUT_MS)
    assert runtime.state() == "CompleteCommit"
    runtime.add(following)
    runtime.advance(TIMEOUT_MS - 1)
    assert runtime.state() == "Ongoing"


def test_a_timer_of_an_earlier_transaction_does_nothing() -> None:
    runtime = Runtime()
    producer = begun(runtime)
    key = next(iter(runtime.timers))
    following = producer_of(runtime.end(producer, committed=True))
    runtime.apply(runtime.machine.timed_out(key, runtime.now_ms + TIMEOUT_MS))
    assert runtime.state() == "PrepareCommit"
    runtime.finish()
    runtime.advance(1000)
    runtime.add(following)
    runtime.apply(runtime.machine.timed_out(key, runtime.now_ms + TIMEOUT_MS - 1000))
    assert runtime.state() == "Ongoing"
    assert runtime.timers[key] == runtime.now_ms + TIMEOUT_MS


def test_with_version_1_on_the_server_the_abort_is_a_fence() -> None:
    runtime = Runtime(TransactionSettings(server_version=1))
    producer = begun(runtime, version=0)
    runtime.advance(TIMEOUT_MS)
    markers = runtime.finish()
    assert markers is not None
    assert (markers.producer_epoch, markers.client_version) == (producer[1] + 1, 1)
    assert runtime.init(producer=producer).error is FENCED


def test_unused_ids_are_forgotten() -> None:
    runtime = Runtime()
    runtime.init("idle")
    busy = producer_of(runtime.init("busy", timeout_ms=900_000))
    runtime.advance(6 * DAY_MS)
    runtime.add(busy, transactional_id="busy")
    runtime.end(busy, committed=True, transactional_id="busy")
    runtime.advance(2 * DAY_MS)
    assert runtime.machine.describe("idle").error is ErrorCode.transactional_id_not_found
    assert runtime.state("busy") == "PrepareCommit"
    runtime.reload()
    assert len(runtime.machine) == 1
    assert producer_of(runtime.init("idle"))[1] == 0


# Stops and failures


@pytest.mark.parametrize("state", [row[0] for row in _TABLE])
def test_every_state_is_there_again_after_a_load(state: str) -> None:
    runtime, producer_id, epoch = in_state(state)
    owed = runtime.machine.markers("t")
    runtime.reload()
    assert runtime.state() == state
    assert runtime.machine.unfinished() == ((owed,) if owed else ())
    assert (owed is not None) == state.startswith("Prepare")
    if state == "Ongoing":
        runtime.advance(TIMEOUT_MS)
        assert runtime.state() == "PrepareAbort"
    runtime.finish()
    runtime.reload()
    reply = runtime.init()
    assert reply.producer_id == producer_id
    assert reply.producer_epoch > epoch


def test_markers_of_an_earlier_end_complete_nothing() -> None:
    runtime = Runtime()
    producer = begun(runtime)
    following = producer_of(runtime.end(producer, committed=True))
    old = runtime.finish()
    assert old is not None
    runtime.add(following)
    runtime.end(following, committed=False)
    written = len(runtime.log)
    runtime.apply(runtime.machine.decide_complete(old, now_ms=runtime.now_ms))
    assert (runtime.state(), len(runtime.log)) == ("PrepareAbort", written)


def test_what_is_said_when_the_record_could_not_be_written() -> None:
    runtime = Runtime()
    producer = begun(runtime)
    runtime.fail_next_write = True
    error = ErrorCode.coordinator_not_available
    assert runtime.end(producer, committed=True) == EndReply(error=error)
    assert runtime.state() == "Ongoing"
    runtime.fail_next_write = True
    runtime.advance(TIMEOUT_MS)
    assert runtime.state() == "Ongoing"
    assert list(runtime.timers.values()) == [runtime.now_ms + 1000]
    runtime.advance(1000)
    assert runtime.state() == "PrepareAbort"


# Tools


def test_describing() -> None:
    runtime = Runtime()
    producer = begun(runtime)
    described = runtime.machine.describe("t")
    assert (described.error, described.state, described.timeout_ms) == (NONE, "Ongoing", TIMEOUT_MS)
    assert (described.producer_id, described.producer_epoch) == producer
    assert (described.started_ms, described.partitions) == (runtime.now_ms, (P0,))
    assert runtime.machine.describe("x").error is ErrorCode.transactional_id_not_found
    assert runtime.machine.describe("").error is ErrorCode.invalid_request


def test_listing() -> None:
    runtime = Runtime()
    for name in ("orders-1", "orders-2", "clicks"):
        producer = producer_of(runtime.init(name))
        if name != "clicks":
            runtime.add(producer, transactional_id=name)
        runtime.advance(1000)

    def names(request: ListTransactions) -> list[str]:
        listed = runtime.machine.list_transactions(request, now_ms=runtime.now_ms)
        assert listed.error is NONE
        return [each.transactional_id for each in listed.transactions]

    assert names(ListTransactions()) == ["clicks", "orders-1", "orders-2"]
    assert names(ListTransactions(states=frozenset({"Ongoing"}))) == ["orders-1", "orders-2"]
    assert names(ListTransactions(states=frozenset({"Empty", "Dead"}))) == ["clicks"]
    assert names(ListTransactions(producer_ids=frozenset({1002}))) == ["orders-2"]
    assert names(ListTransactions(states=frozenset({"Ongoing"}), duration_ms=2000)) == ["orders-1"]
    assert names(ListTransactions(pattern="orders-.*")) == ["orders-1", "orders-2"]
    assert names(ListTransactions(pattern="orders")) == []
    unknown = runtime.machine.list_transactions(
        ListTransactions(states=frozenset({"Nothing"})), now_ms=runtime.now_ms
    )
    assert (unknown.unknown_states, unknown.transactions) == (("Nothing",), ())
    broken = runtime.machine.list_transactions(ListTransactions(pattern="("), now_ms=runtime.now_ms)
    assert broken.error is ErrorCode.invalid_regular_expression


# Tables


def test_the_tables_know_every_state() -> None:
    assert set(TRANSITIONS) == set(ENDINGS_V1) == set(ENDINGS_V2) == set(State)


def test_a_decided_transaction_can_only_complete() -> None:
    for state in (State.PREPARE_COMMIT, State.PREPARE_ABORT):
        assert [event for event in Event if can(event, state)] == [Event.MARKED]


def test_every_state_but_kafkas_own_two_can_be_reached() -> None:
    reached = {State.EMPTY}
    while (
        further := reached | {after for state in reached for after in TRANSITIONS[state].values()}
    ) != reached:
        reached = further
    assert set(State) - reached == {State.DEAD, State.PREPARE_EPOCH_FENCE}
    assert {State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT} == AT_REST


def test_the_tables_agree() -> None:
    """Every end that the tables of endings allow is in the table of transitions."""
    for state in State:
        for endings in (ENDINGS_V1[state], ENDINGS_V2[state]):
            for number, ending in enumerate(endings):
                if ending is Ending.PREPARE:
                    assert can(Event.COMMITTED if number % 2 else Event.ABORTED, state)
