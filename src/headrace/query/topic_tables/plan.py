"""What a question may read of a topic: a value that the query process makes and a worker follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.client.topics import TopicIdentity

# The schema that topics are in, as in `FROM topic."events"`.
TOPIC_SCHEMA: Final = "topic"

Broker = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """`name` is as in the statement. `stretches` has the first and the next offset of each partition, whose
    leaders are `leaders`. `schemas` are those of the topic's values by their ids, of which `newest` gives the
    columns (0: none has). Other schemas are asked for at `registry_url`. With `appended_times`, the log
    stamps the records, so their times never decrease.
    """

    name: str
    topic: TopicIdentity
    bootstrap: str
    stretches: Mapping[int, tuple[int, int]]
    leaders: Mapping[int, Broker]
    schemas: Mapping[int, str]
    newest: int = 0
    registry_url: str = ""
    appended_times: bool = False
