"""Where a new query begins: found out when its statement is answered, and kept with it.

`auto.offset.reset=latest` means the ends of its streams at that moment: every record that is accepted after
the answer is part of the query, however long the pipeline takes to start it, and so is every record of a
transaction that is committed after it. `earliest` means their
beginnings at that moment: what expires before the pipeline starts the query is a gap. The ends of the topics
that it writes come along, so that its runs never read what was in them before. Only asks the log; never
writes.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from headrace.client.cluster import Cluster
from headrace.client.topics import Partition, TopicIdentity
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
    written = {sink_topic, *(dead_letter_topic(source.topic) for source in sources)}
    topics = cluster.lookup(sorted(streams | written))
    read = [topics[name] for name in sorted(streams) if name in topics]
    sinks = [topics[name] for name in sorted(written) if name in topics]
    begins = cluster.earliest(read) if session.from_beginning else cluster.stable(read)
    return StartPositions(
        sources=_by_topic(read, begins),
        sinks=_by_topic(sinks, cluster.latest(sinks)),
        statement=uuid.uuid4().hex,
    )


def _by_topic(topics: Iterable[TopicIdentity], offsets: Mapping[Partition, int]) -> dict[str, dict[int, int]]:
    return {
        topic.topic_id: {place[1]: offsets[place] for place in topic.places if place in offsets}
        for topic in topics
    }
