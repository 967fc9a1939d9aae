"""Latency histograms: percentiles of any number of values in a small, fixed amount of memory.

Buckets are logarithmic, each 2 % wider than the one before, from 0.01 ms to one hour. Invariants: a
percentile uses the nearest rank and is within 1 % of the exact value for values in that range; it is never
below the smallest or above the largest value added; merging two histograms gives the same result as one
histogram of all their values. Smaller values (including negative ones, which two clocks can produce) go to
the first bucket, larger ones to the last.

Never reads a clock: time is an argument. Not locked: the owner of a histogram guards it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

SMALLEST_MS: Final = 0.01
LARGEST_MS: Final = 3_600_000.0
GROWTH: Final = 1.02
_LOG_GROWTH: Final = math.log(GROWTH)
_LAST_BUCKET: Final = math.ceil(math.log(LARGEST_MS / SMALLEST_MS) / _LOG_GROWTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Three percentiles and the number of values. The percentiles are None if there are no values."""

    p50: float | None
    p90: float | None
    p99: float | None
    count: int

    def as_json(self) -> dict[str, float | int | None]:
        """Rounded to a microsecond: further digits are noise from the buckets."""
        return {
            "p50": _rounded(self.p50),
            "p90": _rounded(self.p90),
            "p99": _rounded(self.p99),
            "count": self.count,
        }


class Histogram:
    """Counts per bucket, stored sparsely: the latencies of one path fill a few dozen buckets."""

    __slots__ = ("_count", "_counts", "_largest", "_smallest")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._count = 0
        self._smallest = math.inf
        self._largest = -math.inf

    @property
    def count(self) -> int:
        return self._count

    def add(self, value: float, count: int = 1) -> None:
        """Add a value in milliseconds, `count` times."""
        if not math.isfinite(value):
            raise ValueError(f"a latency must be a finite number, not {value}")
        if count < 0:
            raise ValueError(f"a count must not be negative: {count}")
        if count == 0:
            return
        bucket = _bucket(value)
        self._counts[bucket] = self._counts.get(bucket, 0) + count
        self._count += count
        self._smallest = min(self._smallest, value)
        self._largest = max(self._largest, value)

    def merge(self, other: Histogram) -> None:
        """Add all values of the other histogram."""
        for bucket, count in other._counts.items():
            self._counts[bucket] = self._counts.get(bucket, 0) + count
        self._count += other._count
        self._smallest = min(self._smallest, other._smallest)
        self._largest = max(self._largest, other._largest)

    def percentile(self, percent: float) -> float | None:
        """The smallest value that `percent` per cent of the values do not exceed; None if there are none."""
        if not 0 <= percent <= 100:
            raise ValueError(f"a percentile must be between 0 and 100, not {percent}")
        if self._count == 0:
            return None
        rank = max(1, math.ceil(self._count * percent / 100))
        if rank == 1:
            return self._smallest
        if rank == self._count:
            return self._largest
        below = 0
        for bucket in sorted(self._counts):
            below += self._counts[bucket]
            if below >= rank:
                return min(max(_middle(bucket), self._smallest), self._largest)
        raise AssertionError("the counts of the buckets do not add up")

    def percentiles(self) -> Percentiles:
        return Percentiles(
            p50=self.percentile(50), p90=self.percentile(90), p99=self.percentile(99), count=self._count
        )


class SlidingHistogram:
    """A histogram of about the last `window_seconds`: the window is divided into slots, dropped as a whole.

    So it covers the last window, less at most one slot. Times are seconds on any one clock and need not be in
    order; a value older than the window is dropped.
    """

    __slots__ = ("_newest", "_slot_seconds", "_slots", "_slots_kept")

    def __init__(self, *, window_seconds: float, slots: int = 12) -> None:
        if window_seconds <= 0 or slots < 1:
            raise ValueError("a window must have a positive length and at least one slot")
        self._slot_seconds = window_seconds / slots
        self._slots_kept = slots
        self._slots: dict[int, Histogram] = {}
        self._newest = -(2**62)

    def add(self, value: float, *, now: float, count: int = 1) -> None:
        slot = self._advance(now)
        if slot > self._newest - self._slots_kept:
            self._slots.setdefault(slot, Histogram()).add(value, count)

    def merged(self, *, now: float) -> Histogram:
        """All values in the window that ends now."""
        self._advance(now)
        result = Histogram()
        for histogram in self._slots.values():
            result.merge(histogram)
        return result

    def percentiles(self, *, now: float) -> Percentiles:
        return self.merged(now=now).percentiles()

    def _advance(self, now: float) -> int:
        slot = math.floor(now / self._slot_seconds)
        if slot > self._newest:
            self._newest = slot
            for old in [kept for kept in self._slots if kept <= slot - self._slots_kept]:
                del self._slots[old]
        return slot


def _bucket(value: float) -> int:
    """Bucket 0 holds all up to SMALLEST_MS; bucket n those above SMALLEST_MS * GROWTH ** (n - 1)."""
    if value <= SMALLEST_MS:
        return 0
    return min(max(1, math.ceil(math.log(value / SMALLEST_MS) / _LOG_GROWTH)), _LAST_BUCKET)


def _middle(bucket: int) -> float:
    if bucket == 0:
        return SMALLEST_MS
    return SMALLEST_MS * math.exp((bucket - 0.5) * _LOG_GROWTH)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
