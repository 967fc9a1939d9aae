"""Where a new query begins: found out when its statement is answered, and kept with it.

`auto.offset.reset=latest` means the ends of its streams at that moment: every record that is accepted after
the answer is part of the query, however long the pipeline takes to start it. The ends of the topics that it
writes come along, so that its runs never read what was in them before. Only asks the log; never writes.
"""

from __future__ import annotations

import uuid

from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.lake.dead_letter_headers import dead_letter_topic
from headrace.pipeline.catalogue.catalogue import StartPositions
from headrace.pipeline.plan import QueryPlan, reads_of
from headrace.pipeline.serving.session import Session
from headrace.pipeline.statements.tree import SourceKind


def start_positions(
    cluster: Cluster, plan: QueryPlan, *, sink_topic: str, session: Session
) -> StartPositions:
    """Raises log_unavailable."""
    sources = [read.source for read in reads_of(plan.root)]
    # Tables are read from their beginning.
    streams = {source.topic for source in sources if source.kind is SourceKind.STREAM}
    if session.from_beginning:
        streams.clear()
    written = {sink_topic, *(dead_letter_topic(source.topic) for source in sources)}
    topics = cluster.lookup(sorted(streams | written))
    ends = cluster.latest(topics.values())

    def of(topic: TopicIdentity) -> dict[int, int]:
        return {place[1]: ends[place] for place in topic.places if place in ends}

    return StartPositions(
        sources={topics[name].topic_id: of(topics[name]) for name in sorted(streams) if name in topics},
        sinks={topics[name].topic_id: of(topics[name]) for name in sorted(written) if name in topics},
        statement=uuid.uuid4().hex,
    )
