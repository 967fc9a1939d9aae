"""The topics of the broker, as coordinators see them.

Invariants: `version` grows with every topic that is created or deleted or gets partitions, and never
otherwise has to: who has seen a version has nothing to look at again. Answers do not change within one
decision.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """A topic; one that was made again has another id."""

    name: str
    topic_id: UUID
    partitions: int


class Topics(Protocol):
    """Looks topics up."""

    @property
    def version(self) -> int:
        """Of all topics together."""
        ...

    def names(self) -> Iterable[str]:
        """Every topic there is, internal ones too."""
        ...

    def by_name(self, name: str) -> TopicInfo | None: ...

    def by_id(self, topic_id: UUID) -> TopicInfo | None: ...
