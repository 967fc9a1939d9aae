"""Low-priority work sleeps while others need the processor, and only then."""

from __future__ import annotations

import pytest

from headrace.log.compaction.giving_way import GivingWay


class Machine:
    """A clock that advances only with work and sleep, and a count of interruptions."""

    def __init__(self) -> None:
        self.now = 50.0
        self.interrupted = 7
        self.slept: list[float] = []
        self.give_way = GivingWay(lambda: self.now, self._sleep, lambda: self.interrupted)

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def work(self, seconds: float, *, interrupted: bool = False) -> None:
        self.now += seconds
        self.interrupted += interrupted
        self.give_way()


def test_who_is_alone_never_rests() -> None:
    machine = Machine()
    for _ in range(100):
        machine.work(0.002)
    assert machine.slept == []


def test_who_is_interrupted_rests_as_long_as_it_has_worked() -> None:
    machine = Machine()
    for _ in range(10):
        machine.work(0.002, interrupted=True)
    assert machine.slept == pytest.approx([0.002] * 10)


def test_small_pieces_count_together() -> None:
    machine = Machine()
    for _ in range(8):
        machine.work(0.00025, interrupted=True)
    assert machine.slept == pytest.approx([0.001, 0.001])


def test_after_a_long_piece_the_rest_is_short() -> None:
    machine = Machine()
    machine.work(1.0, interrupted=True)
    assert machine.slept == [0.005]


def test_others_are_forgotten_soon() -> None:
    machine = Machine()
    machine.work(0.002, interrupted=True)
    machine.work(0.002)
    machine.slept.clear()
    for _ in range(20):
        machine.work(0.002)
    assert machine.slept == []
