"""The sinks into the lake that the connectors of a platform ask for, and the topics that they read.

Imports no pyspark: commands ask, too.
"""

from __future__ import annotations

from collections.abc import Iterator

import re2

from headrace.client.cluster import Cluster
from headrace.connect.connectors.lake_sink.parsing import is_lake_sink, lake_sink_of
from headrace.connect.state.configs import TOPIC, ConfigLog
from headrace.connect.state.logs import compacted_log
from headrace.core.addresses import bracketed, reachable_host
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.lake.sink import LakeSink
from headrace.pipeline.sink_tables import letters_of


def worker_id(settings: Settings) -> str:
    """By which a platform's statuses say who runs a connector."""
    host = reachable_host(settings.host, settings.advertised_host)
    return f"{bracketed(host)}:{settings.connect_port}"


def topics_of(sink: LakeSink, cluster: Cluster) -> tuple[str, ...]:
    """Those that it names, or those that exist and match its expression. Its own dead letters do not, nor do
    the log's internal topics.
    """
    if sink.topics:
        return sink.topics
    expression = re2.compile(sink.topics_regex)
    found = [name for name in sorted(cluster.topic_names()) if expression.fullmatch(name)]
    own = {letters_of(sink, name) for name in found}
    return tuple(name for name in found if name not in own and not name.startswith("__"))


def configured_sinks(settings: Settings, cluster: Cluster) -> Iterator[tuple[LakeSink, str]]:
    """Each sink with each of its topics, whatever its target state. Those that cannot be read are left out:
    their connectors are FAILED. Raises log_unavailable.
    """
    if cluster.topic(TOPIC) is None:
        # No connector was ever created. Reading would create the topic.
        return
    log = ConfigLog(compacted_log(settings.bootstrap, TOPIC))
    log.start()
    try:
        wishes = log.wishes()
    finally:
        log.stop()
    for wish in wishes.values():
        if not is_lake_sink(wish.config):
            continue
        try:
            sink = lake_sink_of(wish, settings)
        except HeadraceError:
            continue
        for topic in topics_of(sink, cluster):
            yield sink, topic
