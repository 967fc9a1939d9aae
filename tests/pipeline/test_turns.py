"""Turns of batches: how many at once, in which order, and who gives up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from headrace.pipeline.spark.batch_gate import BatchGate
from headrace.pipeline.spark.turns import Turns
from tests.assembly.fakes import wait_until

FOR_EVER = 1e9
SECONDS = 120.0


def never() -> bool:
    return False


class Batch:
    """A batch in a thread of its own, which has its turn until `end` is called."""

    def __init__(self, turns: Turns, is_given_up: Callable[[], bool] = never) -> None:
        self._turns = turns
        self._is_given_up = is_given_up
        self._ending = threading.Event()
        self.begun = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with self._turns.one(self._is_given_up):
            self.begun.set()
            assert self._ending.wait(SECONDS)

    def end(self) -> None:
        self._ending.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()


@contextmanager
def waiting(turns: Turns, *, count: int) -> Iterator[list[Batch]]:
    """So many batches, each of which asks for its turn after the one before it."""
    with ExitStack() as stack:
        batches: list[Batch] = []
        for number in range(count):
            batches.append(Batch(turns))
            stack.callback(batches[-1].end)
            wait_until(lambda asked=number + 1: _asked(turns) == asked, "it asks")  # type: ignore[misc]
        yield batches


def _asked(turns: Turns) -> int:
    return len(turns._waiting) + len(turns._begun)


def test_so_many_at_once_and_the_others_in_order() -> None:
    turns = Turns(2, longest_seconds=FOR_EVER)
    with waiting(turns, count=5) as batches:
        for ended in range(3):
            assert batches[ended].begun.wait(SECONDS)
            assert batches[ended + 1].begun.wait(SECONDS)
            assert [batch.begun.is_set() for batch in batches[ended + 2 :]] == [False] * (3 - ended)
            batches[ended].end()
        assert batches[4].begun.wait(SECONDS)


def test_a_turn_that_lasts_too_long_holds_up_nobody() -> None:
    turns = Turns(1, longest_seconds=0.05)
    with waiting(turns, count=3) as batches:
        for batch in batches:
            assert batch.begun.wait(SECONDS)


def test_a_turn_counts_as_long_as_it_may_last() -> None:
    now = 100.0
    turns = Turns(1, longest_seconds=5, clock=lambda: now)
    with waiting(turns, count=2) as (first, second):
        assert first.begun.wait(SECONDS)
        now = 104.9
        turns.look_again()
        assert not second.begun.wait(0.05)
        now = 105.0
        turns.look_again()
        assert second.begun.wait(SECONDS)


def test_whoever_gives_up_holds_up_nobody() -> None:
    turns = Turns(1, longest_seconds=FOR_EVER)
    given_up = threading.Event()
    with waiting(turns, count=1) as (first,):
        second = Batch(turns, given_up.is_set)
        wait_until(lambda: _asked(turns) == 2, "it asks")
        third = Batch(turns)
        wait_until(lambda: _asked(turns) == 3, "it asks")
        given_up.set()
        turns.look_again()
        second.end()
        first.end()
        assert third.begun.wait(SECONDS)
        third.end()


def test_a_batch_of_the_lake_after_a_long_one_is_not_disturbed() -> None:
    now = 100.0
    turns = Turns(1, longest_seconds=15, clock=lambda: now)
    with turns.ahead_of_all():
        # Nothing is known of the one before.
        with turns.one(never):
            pass
        now += 1.1
    with ExitStack() as lake:
        lake.enter_context(turns.ahead_of_all())
        batch = Batch(turns)
        wait_until(lambda: _asked(turns) == 1, "it asks")
        assert not batch.begun.wait(0.05)
        lake.close()
        # Between two batches of the lake one has its turn, and keeps it.
        assert batch.begun.wait(SECONDS)
    with turns.ahead_of_all():
        batch.end()
        # The one before was short.
        with turns.one(never):
            pass


def test_a_batch_of_the_lake_that_takes_long_is_not_disturbed_any_more() -> None:
    now = 100.0
    turns = Turns(1, longest_seconds=15, clock=lambda: now)
    with ExitStack() as lake:
        lake.enter_context(turns.ahead_of_all())
        now += 0.4
        with turns.one(never):
            pass
        now += 0.1
        batch = Batch(turns)
        wait_until(lambda: _asked(turns) == 1, "it asks")
        assert not batch.begun.wait(0.05)
        lake.close()
        assert batch.begun.wait(SECONDS)
        batch.end()


def test_a_batch_of_the_lake_that_hangs_holds_up_nobody() -> None:
    now = 100.0
    turns = Turns(1, longest_seconds=15, clock=lambda: now)
    with turns.ahead_of_all():
        now += 3
    with turns.ahead_of_all():
        now += 15
        with turns.one(never):
            pass


def test_a_query_that_is_stopped_does_not_wait_for_its_turn() -> None:
    turns = Turns(1, longest_seconds=FOR_EVER)
    gate = BatchGate("q", patience=SECONDS, turns=turns)
    refused: list[str] = []

    def write() -> None:
        with pytest.raises(RuntimeError) as error, gate.batch(3):
            pass
        refused.append(str(error.value))

    with waiting(turns, count=1):
        writing = threading.Thread(target=write, daemon=True)
        writing.start()
        wait_until(lambda: _asked(turns) == 2, "it asks")
        gate.close()
        writing.join(SECONDS)
        assert refused == ["query q was stopped before batch 3"]
    # And leaves no turn behind.
    with turns.one(never):
        pass
