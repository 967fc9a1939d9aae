"""What an assignor is given and gives back.

Invariants: an assignor names every member it was given, gives a partition to one member at most, and only
to a member that subscribes to its topic; each partition of a topic with a subscriber has an owner. The
same input gives the same output, whatever the order of its mappings. Never: I/O, randomness, changes to
its input.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

Partitions = Mapping[UUID, frozenset[int]]
"""Partitions by topic id; a topic without partitions is not in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """A member as assignors see it. `current` is its part of the last target assignment."""

    topics: frozenset[UUID]
    current: Partitions
    instance_id: str | None = None


Assignor = Callable[[Mapping[str, Subscriber], Mapping[UUID, int]], dict[str, dict[UUID, frozenset[int]]]]
"""From subscribers by member id, and partition counts by topic id, to partitions by member id. A topic that
has no count does not exist (any more): nobody gets it."""
