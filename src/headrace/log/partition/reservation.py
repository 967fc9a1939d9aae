"""Which offsets of a log may be shown to others, because they will never be used again.

Without a sync a record can get lost in a power loss after it was acknowledged or read. Its offset must not
come back with another record. So offsets are reserved ahead on the disk (`folder/reservations`), and after a
power loss the log continues behind its reservation (`hole`).

Owns the reservation of one log. Invariants: every offset below `bound` is reserved durably, or its record is
synced; a batch with an offset from `bound` on is held: neither acknowledged nor readable until the bound has
passed it. `ask_at` is where the next reservation is due, early enough for it to be written in the background.
A log with `fsync` always shows only synced records and needs none: nothing is ever held there.

Byte format: none. Crash behaviour: that of `folder/reservations`. Who may call: the partition log and its
parts, the data folder. Never writes, and never reads the clock.
"""

from __future__ import annotations

from typing import Final

UNLIMITED: Final = 2**63 - 1
# How far ahead to reserve: about this many seconds of the recent rate, but within these limits. The larger,
# the fewer the writes; the smaller, the shorter the holes.
SECONDS_AHEAD: Final = 10.0
FEWEST: Final = 1_000
MOST: Final = 1 << 22


class Reservation:
    """Of a log that nobody reserves for, until `enforce` is called."""

    __slots__ = ("_asked_end", "_asked_seconds", "_held", "ask_at", "bound", "held_at")

    def __init__(self) -> None:
        self.bound = UNLIMITED
        self.ask_at = UNLIMITED
        self.held_at = UNLIMITED
        """The first offset of the first batch that is held."""
        # First and last offset of each.
        self._held: list[tuple[int, int]] = []
        self._asked_end = 0
        self._asked_seconds: float | None = None

    def enforce(self, bound: int, end_offset: int) -> None:
        """Hold batches beyond `bound` from now on. The log must not go beyond it yet."""
        assert end_offset <= bound
        self._asked_end = end_offset
        self.bound = bound
        self.grant(bound)

    def hold(self, base_offset: int, last_offset: int) -> None:
        """A batch was appended that goes beyond the bound."""
        self._held.append((base_offset, last_offset))
        self.held_at = self._held[0][0]

    def ask(self, end_offset: int, seconds: float) -> int:
        """The bound to reserve next for a log with this end; `seconds` is a monotonic clock.

        Until it is granted, only batches that are held ask again.
        """
        before, self._asked_seconds = self._asked_seconds, seconds
        passed = 1.0 if before is None else max(1.0, seconds - before)
        ahead = int((end_offset - self._asked_end) / passed * SECONDS_AHEAD)
        self._asked_end = end_offset
        self.ask_at = self.bound
        return max(self.bound, end_offset + min(max(ahead, FEWEST), MOST))

    def grant(self, bound: int) -> None:
        """The bound is on the disk."""
        self.bound = max(self.bound, bound)
        self._release()
        # Half-way, so that there is time to write the next one.
        self.ask_at = bound - (bound - self._asked_end) // 2

    def synced(self, offset: int) -> None:
        """Records before an offset are on the disk themselves, and need no reservation."""
        if offset > self.bound:
            self.bound = offset
            self._release()

    def _release(self) -> None:
        self._held = [held for held in self._held if held[1] >= self.bound]
        self.held_at = self._held[0][0] if self._held else UNLIMITED
