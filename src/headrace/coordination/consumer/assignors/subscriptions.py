"""The input and output of assignors.

Invariants: the output names every member of the input. A partition goes to at most one member, which
subscribes to its topic; every partition of a topic with a subscriber has an owner. The same input gives the
same output, whatever the order of its mappings. Never: I/O, randomness, changes to the input.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

Partitions = Mapping[UUID, frozenset[int]]
"""Partitions by topic id, without topics that have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """A member, as assignors see it. `current` is its part of the last target."""

    topics: frozenset[UUID]
    current: Partitions
    instance_id: str | None = None


Assignor = Callable[[Mapping[str, Subscriber], Mapping[UUID, int]], dict[str, dict[UUID, frozenset[int]]]]
"""From subscribers by member id and partition counts by topic id to partitions by member id. A topic without
a count does not exist (any more), and nobody gets it."""
