"""What feeds the tables of the lake, for the tail that questions read: connectors as the topic of their
configurations says, followed in the background.

A connector that is STOPPED, or cannot be read, feeds nothing; one that is PAUSED goes on later with what is
in its topic, and so does one that FAILED. Of two connectors with the same table only one writes it, so then
nothing is certain. Imports no pyspark.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.assembly.sinks import topics_of
from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.connect.connectors.lake_sink.parsing import is_lake_sink, lake_sink_of
from headrace.connect.state.configs import TOPIC, ConfigLog, ConnectorWish
from headrace.connect.state.logs import compacted_log
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.lake.location import Location
from headrace.lake.resuming import TopicNow
from headrace.lake.sink import LakeSink, TableFormat
from headrace.pipeline.runs.asked_topic import AskedTopic
from headrace.pipeline.sink_tables import letters_of, table_location
from headrace.pipeline.spark.registry_client import Registries
from headrace.query.tail.feeds import SchemaById, TableFeed

# How often a connector with a regular expression looks for new topics.
_LOOK_SECONDS: Final = 5.0
# How often to look whether there are connectors at all.
_FIRST_LOOK_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """The feeds by the places of their tables, and the configurations that they are made from."""

    versions: Mapping[str, tuple[int, int, str]]
    looked: float
    feeds: Mapping[str, TableFeed]
    buckets: tuple[Location, ...] = ()


class TableFeeds:
    """Of one platform. All methods may be called from any thread."""

    def __init__(self, settings: Settings, cluster: Cluster) -> None:
        self._settings = settings
        self._cluster = cluster
        self._schemas = _Schemas()
        self._lock = threading.Lock()
        self._configs: ConfigLog | None = None
        self._looked = -_LOOK_SECONDS
        self._known = _Known(versions={}, looked=-_LOOK_SECONDS, feeds={})

    def close(self) -> None:
        with self._lock:
            if self._configs is not None:
                self._configs.stop()
        self._schemas.close()

    def of(self, table: Location) -> TableFeed | None:
        """Raises log_unavailable."""
        with self._lock:
            return self._newest().feeds.get(_place(table))

    def in_buckets(self) -> tuple[Location, ...]:
        """Where connectors write Delta tables, or have written them. Raises log_unavailable."""
        with self._lock:
            return self._newest().buckets

    def reading(self, topic: str) -> list[TableFeed]:
        """What the topic of this name feeds. Raises log_unavailable."""
        with self._lock:
            return [feed for feed in self._newest().feeds.values() if feed.topic == topic]

    def _newest(self) -> _Known:
        wishes = self._wishes()
        versions = {
            name: (wish.config_version, wish.restart.version, wish.target) for name, wish in wishes.items()
        }
        known, now = self._known, time.monotonic()
        if known.versions != versions or now > known.looked + _LOOK_SECONDS:
            known = self._known = self._read(wishes, versions, now)
        return known

    def topic_now(self, topic: TopicIdentity) -> TopicNow:
        return AskedTopic(self._cluster, topic)

    def _wishes(self) -> Mapping[str, ConnectorWish]:
        if self._configs is None:
            now = time.monotonic()
            if now < self._looked + _FIRST_LOOK_SECONDS:
                return {}
            self._looked = now
            if self._cluster.topic(TOPIC) is None:
                # Following the topic would create it.
                return {}
            configs = ConfigLog(compacted_log(self._settings.bootstrap, TOPIC))
            configs.start()
            self._configs = configs
        return self._configs.wishes()

    def _read(
        self, wishes: Mapping[str, ConnectorWish], versions: Mapping[str, tuple[int, int, str]], now: float
    ) -> _Known:
        found: dict[str, TableFeed] = {}
        buckets: dict[str, Location] = {}
        for wish in wishes.values():
            if not is_lake_sink(wish.config):
                continue
            try:
                sink = lake_sink_of(wish, self._settings)
            except HeadraceError:
                # Its connector is FAILED with that reason.
                continue
            problem = f"connector {sink.name} is stopped" if wish.target == "STOPPED" else ""
            for topic in topics_of(sink, self._cluster):
                try:
                    table = table_location(sink, topic)
                except HeadraceError:
                    continue
                place = _place(table)
                if not table.is_local and sink.table_format is TableFormat.DELTA:
                    buckets[place] = table
                former = found.get(place)
                if former is not None:
                    both = f"connectors {former.sink.name} and {sink.name} both name this table"
                found[place] = self._feed(sink, topic, problem if former is None else both)
        return _Known(versions=versions, looked=now, feeds=found, buckets=tuple(buckets.values()))

    def _feed(self, sink: LakeSink, topic: str, problem: str) -> TableFeed:
        return TableFeed(
            sink=sink,
            topic=topic,
            letters=letters_of(sink, topic),
            new_partitions_per_hour=self._settings.lake_new_partitions_per_hour,
            problem=problem,
            schema_by_id=self._schemas.at(sink.value.registry_url),
        )


class _Schemas:
    """The schemas of all registries. An id always means the same schema, so none is asked for twice."""

    def __init__(self) -> None:
        self._registries = Registries()
        self._found: dict[tuple[str, int], str] = {}

    def at(self, url: str) -> SchemaById:
        return lambda schema_id: self._schema(url, schema_id)

    def close(self) -> None:
        self._registries.close()

    def _schema(self, url: str, schema_id: int) -> str | None:
        found = self._found.get((url, schema_id))
        if found is None:
            found = self._registries.at(url).schema_by_id(schema_id)
            if found is not None:
                self._found[url, schema_id] = found
        return found


def _place(table: Location) -> str:
    """The same for one folder, however it is written."""
    return str(table.path.resolve()) if table.is_local else str(table)
