"""What the topics that a query writes take, as the log says when the query starts.

A topic that others created may take smaller messages than ours do, or be compacted.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.client.cluster import Cluster
from headrace.client.message_sizes import derived_message_bytes
from headrace.pipeline.spark.planned_query import PlannedQuery
from headrace.pipeline.spark.steps.writable import Limits


def limits_of(query: PlannedQuery) -> Mapping[str, Limits]:
    """By source topic, as each has its own topic for dead letters."""
    largest = derived_message_bytes(query.settings)
    cluster = Cluster(query.settings.bootstrap)
    try:
        configs = {name: cluster.topic_config(name) for name in query.written_topics}
    finally:
        cluster.close()

    def most(name: str) -> int:
        return min(largest, int(configs[name].get("max.message.bytes", largest)))

    # The lake has no such topic, and no record of it needs a key.
    results = [configs[name] for name in query.result_topics]
    return {
        source: Limits(
            record_bytes=min((most(name) for name in query.result_topics), default=largest),
            letter_bytes=most(letters),
            needs_key=any("compact" in each.get("cleanup.policy", "") for each in results),
        )
        for source, letters in query.dead_letter_topics.items()
    }
