"""Consistent points: up to where a comparison can be made while everything runs.

A record that is on its way is not missing. So a hop is compared up to positions that its query or its table
has recorded: everything derived from before `positions` is in the sinks, below `sinks_to`, and everything
derived from there on lies at or above `sinks_from`. Offsets are by topic id and partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

Offsets = Mapping[str, Mapping[int, int]]


class Point(Protocol):
    """One commit of a query."""

    @property
    def positions(self) -> Offsets: ...

    @property
    def sinks_from(self) -> Offsets: ...

    @property
    def sinks_to(self) -> Offsets: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """The point of a query that has not committed anything."""

    positions: Offsets = field(default_factory=dict)
    sinks_from: Offsets = field(default_factory=dict)
    sinks_to: Offsets = field(default_factory=dict)


def newest_within(points: Sequence[Point], reached: Offsets) -> Point | None:
    """The newest point whose results a reader of its sinks has read, as far as it reads them.

    `points` are in order, the newest last; `reached` has the topics that the reader reads.
    """
    for point in reversed(points):
        if all(
            end <= offsets.get(partition, 0)
            for topic_id, offsets in reached.items()
            for partition, end in point.sinks_to.get(topic_id, {}).items()
        ):
            return point
    return None
