"""What reconciling found, as values: what was compared, and what is missing or double.

A *hop* is one step of an event's way: from a query's source to its sink, or from a topic to a table of the
lake. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Basis(Enum):
    """How a hop was compared."""

    COUNTS = "counts"
    FINGERPRINTS = "fingerprints"
    IDENTITIES = "identities"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCounts:
    """One source partition: the records in a stretch of its offsets, and what became of them.

    `written` are records of the sink, or rows of the table; None if only their total is known.
    """

    partition: int
    first: int
    end: int
    accepted: int
    written: int | None
    dead_letters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Double:
    """A record that is there `times` times: in the topic at these places, or in the table."""

    id: str
    times: int
    places: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One hop. `unchecked` says what could not be compared, and why; empty if everything was.

    `missing` are source records of which nothing came out, by partition; `doubles` are named. `waiting` are
    those of which nothing has come out yet: they are on their way.
    """

    query: str
    source: str
    sink: str
    basis: Basis
    written: int = 0
    partitions: tuple[PartitionCounts, ...] = ()
    missing: tuple[tuple[int, int], ...] = ()
    doubles: tuple[Double, ...] = ()
    waiting: int = 0
    unchecked: str = ""

    @property
    def accepted(self) -> int:
        return sum(each.accepted for each in self.partitions)

    @property
    def dead_letters(self) -> int:
        return sum(each.dead_letters for each in self.partitions)

    @property
    def is_clean(self) -> bool:
        return not self.missing and not self.doubles
