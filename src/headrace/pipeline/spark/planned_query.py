"""A query with its name and its plan: which topics it reads and writes, and where its files are. Frozen.

Its files (checkpoints, copies of tables, notes of its starts) are in one folder, with the ids of its topics
in their names. So a checkpoint belongs to incarnations of topics: a recreated source is read from its
beginning, and a recreated derived topic is filled again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.lake.dead_letter_headers import dead_letter_topic
from headrace.pipeline.catalogue.catalogue import StartPositions
from headrace.pipeline.plan import QueryPlan, reads_of
from headrace.pipeline.spark.steps.notes import EARLIEST
from headrace.pipeline.statements.tree import SourceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedQuery:
    """`start` is where it begins; None: at its first start where `starting_offsets` says, earliest or latest.
    Tables are always read whole, and so is a topic that is recreated later.
    """

    name: str
    plan: QueryPlan
    settings: Settings
    starting_offsets: str = EARLIEST
    start: StartPositions | None = None

    @property
    def source_topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(read.source.topic for read in reads_of(self.plan.root)))

    @property
    def stream_topics(self) -> tuple[str, ...]:
        """Those of its sources that are streams."""
        streams = (read.source for read in reads_of(self.plan.root) if read.source.kind is SourceKind.STREAM)
        return tuple(dict.fromkeys(source.topic for source in streams))

    @property
    def dead_letter_topics(self) -> Mapping[str, str]:
        """By source topic."""
        return {topic: dead_letter_topic(topic) for topic in self.source_topics}

    @property
    def result_topics(self) -> tuple[str, ...]:
        return (self.plan.sink.topic,)

    @property
    def written_topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.result_topics, *self.dead_letter_topics.values())))

    @property
    def folder(self) -> Path:
        """Raises pipeline_failed if the id, which an older version accepted, would lead anywhere else."""
        if self.name in ("", ".", "..") or "/" in self.name or "\0" in self.name:
            raise HeadraceError(
                "pipeline_failed",
                f"The id {self.name!r} of a query cannot be the name of a folder.",
                remedy="Terminate the query, and create it again with another QUERY_ID or another name.",
            )
        return self.settings.data_dir / "pipeline" / "checkpoints" / self.name

    def checkpoint(self, topics: Mapping[str, TopicIdentity]) -> Path:
        names = (*self.source_topics, *self.result_topics)
        return self.folder / "-".join(topics[name].topic_id for name in names)
