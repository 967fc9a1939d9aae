"""A topic as a value: its name, its id and its partitions.

The *id*, not the name, tells incarnations apart: a topic that was deleted and created again is another
source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

# A topic and the number of one of its partitions.
Partition = tuple[str, int]

COMPACTED: Final[Mapping[str, str]] = {"cleanup.policy": "compact"}
# For topics that are the only place where something is kept: an append is answered when it is on the disk.
KEPT: Final[Mapping[str, str]] = {**COMPACTED, "flush.messages": "1"}
# For topics that are written every second and of which only the newest records count. The active segment is
# never compacted, so it must not stay active for days.
COMPACTED_SOON: Final[Mapping[str, str]] = {
    **COMPACTED,
    "segment.ms": "600000",
    "min.cleanable.dirty.ratio": "0.1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicIdentity:
    """One incarnation of a topic. Its partitions are numbered from 0.

    `replicas` has the number of replicas of each partition; these may change during an incarnation.
    """

    name: str
    topic_id: str
    partitions: int
    replicas: tuple[int, ...] = field(default=(), compare=False)

    @property
    def places(self) -> tuple[Partition, ...]:
        return tuple((self.name, number) for number in range(self.partitions))


def printed_topic_id(topic_id: object) -> str:
    """A topic id as Kafka's own tools print it.

    librdkafka uses the base64 alphabet with `+` and `/`. A slash would break coordinates and folder names.
    """
    return str(topic_id).replace("+", "-").replace("/", "_")
