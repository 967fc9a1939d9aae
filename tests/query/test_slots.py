"""Whose turn it is: never more than the slots, and always one for light questions."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.core.errors import HeadraceError
from headrace.query.slots import Seat, Slots


class SlotsMachine(RuleBasedStateMachine):
    """Questions come, grow heavy, are put back, give up and end, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.seats: dict[Seat, asyncio.Task[None]] = {}
        self.to_put_back: list[Seat] = []

    @initialize(slots=st.integers(2, 4))
    def begin(self, slots: int) -> None:
        self.slots = Slots(slots, most_waiting=1000)

    @rule()
    def arrive(self) -> None:
        self._wait(self.slots.arrive())

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def grow(self, data: st.DataObject) -> None:
        self._do(lambda: self.slots.grow_heavy(data.draw(st.sampled_from(self.running()))))

    @precondition(lambda self: self.seats)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        seat = data.draw(st.sampled_from(sorted(self.seats, key=lambda each: each.arrival)))
        task = self.seats.pop(seat)
        if not task.done():
            task.cancel()
        self._do(lambda: self.slots.leave(seat))

    def running(self) -> list[Seat]:
        return sorted((seat for seat in self.seats if seat.is_running), key=lambda each: each.arrival)

    def waiting(self) -> list[Seat]:
        return sorted((seat for seat in self.seats if not seat.is_running), key=lambda each: each.arrival)

    def _wait(self, seat: Seat) -> None:
        seat.put_back = lambda: self.to_put_back.append(seat)

        async def begin() -> None:
            self.seats[seat] = asyncio.ensure_future(self.slots.wait(seat))
            await asyncio.sleep(0)

        self.loop.run_until_complete(begin())
        self._settle()

    def _do(self, act: Any) -> None:
        async def acting() -> None:
            act()

        self.loop.run_until_complete(acting())
        self._settle()

    def _settle(self) -> None:
        """What the desk does with a question that is put back."""
        self.loop.run_until_complete(asyncio.sleep(0))
        while self.to_put_back:
            seat = self.to_put_back.pop()
            assert not seat.is_heavy
            self._do(lambda seat=seat: self.slots.leave(seat))
            seat.is_heavy = True
            self._wait(seat)

    @invariant()
    def the_slots_are_kept(self) -> None:
        running = self.running()
        assert len(running) <= self.slots.slots
        assert sum(seat.is_heavy for seat in running) <= self.slots.slots - 1

    @invariant()
    def nobody_waits_without_a_reason(self) -> None:
        running, waiting = self.running(), self.waiting()
        heavy = sum(seat.is_heavy for seat in running)
        if any(not seat.is_heavy for seat in waiting):
            assert len(running) == self.slots.slots
            # Whoever ran too long for a light one has made room.
            assert not any(seat.is_overdue for seat in running)
        if any(seat.is_heavy for seat in waiting):
            assert len(running) == self.slots.slots or heavy == self.slots.slots - 1

    def teardown(self) -> None:
        for task in self.seats.values():
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()


TestSlots = SlotsMachine.TestCase
TestSlots.settings = hypothesis_settings(max_examples=200, stateful_step_count=30, deadline=None)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 60))


def test_a_question_that_grows_heavy_makes_room_for_a_light_one() -> None:
    async def scenario() -> None:
        slots = Slots(2, most_waiting=10)
        seats = [slots.arrive() for _ in range(3)]
        put_back: list[int] = []
        for seat in seats[:2]:
            await slots.wait(seat)
            seat.put_back = lambda seat=seat: put_back.append(seat.arrival)
        assert slots.grow_heavy(seats[0])
        assert not slots.grow_heavy(seats[1])
        assert put_back == [], "nobody waits: it may run on"
        light = asyncio.ensure_future(slots.wait(seats[2]))
        await asyncio.sleep(0)
        assert put_back == [1]
        slots.leave(seats[1])
        await light

    run(scenario())


def test_beyond_those_that_may_wait_questions_are_refused() -> None:
    async def scenario() -> None:
        slots = Slots(2, most_waiting=1)
        for _ in range(2):
            await slots.wait(slots.arrive())
        waiting = asyncio.ensure_future(slots.wait(slots.arrive()))
        await asyncio.sleep(0)
        with pytest.raises(HeadraceError) as refused:
            slots.arrive()
        assert refused.value.http_status == 429
        waiting.cancel()
        await asyncio.wait({waiting})
        slots.arrive()

    run(scenario())
