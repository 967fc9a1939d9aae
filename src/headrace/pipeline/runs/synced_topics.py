"""Topics whose records are on the disk before anybody reads them, so that a power failure takes none of them.

Two kinds of derived topics are of that sort:

- a topic that another query reads. If it came back shorter, its lost records would be derived again at other
  offsets, and the query behind it would take them for new ones;
- the topic of a query that keeps state. Its rows are known by their place in the topic, for they have no
  coordinates of a source.

Such a topic has flush.messages=1: an append is synced before it is acknowledged, and before it can be read.
Of two queries that share a topic the one that starts later sees the other in the catalogue, and sees to it
before it reads or writes. A value that an operator has set stays. A topic with several replicas is left as it
is: it survives the loss of a machine.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from headrace.client.cluster import Cluster
from headrace.core.errors import HeadraceError
from headrace.lake.dead_letter_headers import DEAD_LETTER_SUFFIX, dead_letter_topic
from headrace.pipeline.catalogue.catalogue import Catalogue
from headrace.pipeline.plan import QueryPlan, is_stateful, reads_of

logger = logging.getLogger(__name__)


def synced_topics(plan: QueryPlan, catalogue: Catalogue) -> frozenset[str]:
    """Those of the topics of a query, given the other queries. Pure."""
    read = {each.source.topic for each in reads_of(plan.root)}
    written = {plan.sink.topic, *map(dead_letter_topic, read)}
    read_by_others: set[str] = set()
    written_by_others: set[str] = set()
    for query in catalogue.queries.values():
        sources = {catalogue.sources[name].topic for name in query.sources if name in catalogue.sources}
        read_by_others |= sources
        written_by_others |= {dead_letter_topic(topic) for topic in sources}
        if query.sink in catalogue.sources:
            written_by_others.add(catalogue.sources[query.sink].topic)
    # Those of the lake's query, too, which is not in the catalogue.
    dead_letters = {topic for topic in read if topic.endswith(DEAD_LETTER_SUFFIX)}
    between = (read & (written | written_by_others | dead_letters)) | (written & read_by_others)
    return frozenset(between | ({plan.sink.topic} if is_stateful(plan) else set()))


def keep_synced(cluster: Cluster, names: Iterable[str]) -> tuple[str, ...]:
    """Have the topics synced, those that exist. Returns a warning for each that cannot be.

    Raises log_unavailable.
    """
    warnings: list[str] = []
    for name, topic in sorted(cluster.lookup(sorted(names)).items()):
        if min(topic.replicas, default=1) > 1:
            continue
        reason = ""
        try:
            other = cluster.sync_every_record(name)
            if other is not None:
                reason = f"it has flush.messages={other}"
        except HeadraceError as error:
            if error.code == "log_unavailable":
                raise
            reason = str(error)
        if reason:
            warnings.append(
                f"Topic '{name}' is not synced with each record ({reason}). After a power failure, what is "
                "derived from it may be repeated. flush.messages=1 on that topic prevents it."
            )
    return tuple(warnings)
