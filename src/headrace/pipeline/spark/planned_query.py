"""A query by its name, its plan and its place: the topics that it reads and writes, where its files are.

Its files (checkpoints, copies of tables, notes of what a start has found out) are beside each other in its
folder, under names made of the ids of its topics. A checkpoint so belongs to the incarnations of its topics:
one that was deleted and made again is read from its beginning, and a derived topic that was is filled again.
A frozen value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.client.topics import TopicIdentity
from headrace.core.settings import Settings
from headrace.lake.dead_letter_headers import dead_letter_topic
from headrace.pipeline.plan import QueryPlan, reads_of
from headrace.pipeline.spark.steps.notes import EARLIEST


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedQuery:
    """`starting_offsets`, earliest or latest, is where streams are read from at the very first start; tables
    are always read whole. From then on nothing is left out: a topic made again is read from its beginning.
    """

    name: str
    plan: QueryPlan
    settings: Settings
    starting_offsets: str = EARLIEST

    @property
    def source_topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(read.source.topic for read in reads_of(self.plan.root)))

    @property
    def dead_letter_topics(self) -> Mapping[str, str]:
        """By source topic."""
        return {topic: dead_letter_topic(topic) for topic in self.source_topics}

    @property
    def result_topics(self) -> tuple[str, ...]:
        """None for the lake."""
        return (self.plan.sink.topic,) if self.plan.lake_table is None else ()

    @property
    def written_topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.result_topics, *self.dead_letter_topics.values())))

    @property
    def folder(self) -> Path:
        return self.settings.data_dir / "pipeline" / "checkpoints" / self.name

    def checkpoint(self, topics: Mapping[str, TopicIdentity]) -> Path:
        names = (*self.source_topics, *self.result_topics)
        return self.folder / "-".join(topics[name].topic_id for name in names)
