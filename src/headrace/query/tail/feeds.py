"""What a table of the lake is fed by: a connector and a topic. Values, and what the assembly has to tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from headrace.client.topics import TopicIdentity
from headrace.lake.location import Location
from headrace.lake.resuming import TopicNow
from headrace.lake.sink import LakeSink

# The text of a schema by its id; None if the registry has none. Raises HeadraceError if it does not answer.
SchemaById = Callable[[int], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFeed:
    """The sink that writes the table, the name of the topic that it reads, and that of its dead letters.

    `problem` says why no record of the topic will become a row for now; empty if nothing keeps them from it.
    `new_partitions_per_hour` is that of `lake/new_partitions.py`.
    """

    sink: LakeSink
    topic: str
    letters: str
    new_partitions_per_hour: int
    problem: str = ""
    schema_by_id: SchemaById = field(compare=False, repr=False)


class Feeds(Protocol):
    """All methods may be called from any thread; all may block. They raise log_unavailable."""

    def of(self, table: Location) -> TableFeed | None:
        """None if no connector writes the table."""
        ...

    def topic_now(self, topic: TopicIdentity) -> TopicNow:
        """Asks the log for what is left of the topic."""
        ...
