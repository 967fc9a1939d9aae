"""The interface through which coordinators see the broker's topics.

Invariants: `version` grows whenever a topic is created, deleted or gets partitions. As long as it stays the
same, nothing has to be looked at again. Answers do not change during a decision.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """A topic. If it is deleted and created again, it has another id."""

    name: str
    topic_id: UUID
    partitions: int


class Topics(Protocol):
    """Looks up topics."""

    @property
    def version(self) -> int:
        """The version of all topics together."""
        ...

    def names(self) -> Iterable[str]:
        """All topics, including internal ones."""
        ...

    def by_name(self, name: str) -> TopicInfo | None: ...

    def by_id(self, topic_id: UUID) -> TopicInfo | None: ...
