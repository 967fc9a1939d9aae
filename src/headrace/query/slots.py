"""Who may run now: light questions never wait for heavy ones.

A question is light when it comes. It becomes heavy once it has run for a second or given a megabyte; the desk
says so. Heavy questions get all slots but one. A question that should become heavy while there is no slot for
it keeps its slot only as long as no light question needs it: then it is put back, that is, stopped and run
again when there is a heavy slot. This costs at most a second of work, once for each heavy question.

Invariants: at most `slots` run, of these at most `slots - 1` heavy ones; both kinds in the order of their
arrival, and a question that is put back keeps its place; beyond `most_waiting`, questions are refused. Pure
but for asyncio's futures: it knows nothing of workers or time.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from headrace.core.errors import HeadraceError

FEWEST_SLOTS: Final = 2


@dataclass(slots=True, kw_only=True, eq=False)
class Seat:
    """The place of one question, from its arrival to its end. `put_back` is called at most once a run."""

    arrival: int
    is_heavy: bool = False
    is_running: bool = False
    # It ran for too long to be light, but there was no heavy slot yet.
    is_overdue: bool = False
    put_back: Callable[[], None] = lambda: None
    _turn: asyncio.Future[None] | None = field(default=None)


class Slots:
    """The slots of one desk. Belongs to one event loop."""

    def __init__(self, slots: int, *, most_waiting: int) -> None:
        self.slots = max(FEWEST_SLOTS, slots)
        self._most_waiting = most_waiting
        self._arrivals = itertools.count()
        self._running: set[Seat] = set()
        self._waiting: list[Seat] = []

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def heavy(self) -> int:
        return sum(seat.is_heavy for seat in self._running)

    def arrive(self) -> Seat:
        """Raises too_many_questions."""
        if len(self._waiting) >= self._most_waiting:
            raise HeadraceError(
                "too_many_questions",
                f"{len(self._running)} questions run and {len(self._waiting)} wait.",
                remedy="Ask again in a moment, or raise the setting `query_waiting`.",
            )
        return Seat(arrival=next(self._arrivals))

    async def wait(self, seat: Seat) -> None:
        """Until it is the seat's turn. If the caller is cancelled, the seat has left."""
        seat._turn = asyncio.get_running_loop().create_future()
        seat.is_overdue = False
        self._waiting.append(seat)
        self._waiting.sort(key=lambda each: each.arrival)
        self._give_turns()
        try:
            await seat._turn
        except asyncio.CancelledError:
            self.leave(seat)
            raise

    def leave(self, seat: Seat) -> None:
        """It has ended, is put back, or no longer waits."""
        if seat in self._waiting:
            self._waiting.remove(seat)
        self._running.discard(seat)
        seat.is_running = False
        self._give_turns()

    def grow_heavy(self, seat: Seat) -> bool:
        """Make a running question heavy. False if it cannot be yet: then it is overdue."""
        if not seat.is_heavy and self.heavy >= self.slots - 1:
            seat.is_overdue = True
            self._give_turns()
            return False
        seat.is_heavy = True
        seat.is_overdue = False
        return True

    def _give_turns(self) -> None:
        for seat in sorted((each for each in self._running if each.is_overdue), key=lambda e: e.arrival):
            if self.heavy < self.slots - 1:
                seat.is_heavy, seat.is_overdue = True, False
        for seat in list(self._waiting):
            if len(self._running) >= self.slots:
                break
            if seat.is_heavy and self.heavy >= self.slots - 1:
                continue
            self._waiting.remove(seat)
            self._running.add(seat)
            seat.is_running = True
            if seat._turn is not None and not seat._turn.done():
                seat._turn.set_result(None)
        if any(not seat.is_heavy for seat in self._waiting):
            # The last one that came: the others are nearer to their ends.
            overdue = max(
                (each for each in self._running if each.is_overdue), key=lambda e: e.arrival, default=None
            )
            if overdue is not None:
                overdue.is_overdue = False
                overdue.put_back()
