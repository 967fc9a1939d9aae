"""Plans topics for questions: which topic a name means, its stretches and leaders, and its schemas.

Invariants: all topics of a question end where the log ended for committed reads at one moment; planning never
creates a topic and reads no record. Thread-safe; every method may block, but not for longer than a few
seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.query.topic_tables.plan import Broker, TopicPlan

_TIMES: Final = "message.timestamp.type"
_APPENDED: Final = "LogAppendTime"


class SubjectSchemas(Protocol):
    """The schemas of a registry. Raises HeadraceError if it does not answer."""

    def versions(self, subject: str) -> Sequence[int]:
        """Empty if there is no such subject."""
        ...

    def version(self, subject: str, version: int) -> tuple[int, str] | None:
        """Id and text, if the schema is Avro; None if it is another kind, or is gone."""
        ...


class TopicPlanner:
    """Of one platform's log and registry. `registry_url` is where workers ask for other schemas."""

    def __init__(self, cluster: Cluster, registry: SubjectSchemas, registry_url: str) -> None:
        self._cluster = cluster
        self._registry = registry
        self._registry_url = registry_url
        self._lock = threading.Lock()
        # A version of a subject means the same schema for ever: our registry deletes none.
        self._schemas: dict[tuple[str, int], tuple[int, str] | None] = {}

    def plan(self, names: Collection[str], *, with_schemas: Collection[str]) -> list[TopicPlan]:
        """The schemas of values are asked for where names are those of views. Raises no_such_topic,
        log_unavailable.
        """
        topics = self._topics(names)
        _check_views({name: topics[name].name for name in with_schemas})
        known = list({topic.name: topic for topic in topics.values()}.values())
        first = self._cluster.earliest(known)
        ends = self._cluster.stable(known)
        leaders = self._cluster.leaders(known)
        return [
            self._plan(
                name,
                topic,
                first,
                ends,
                leaders,
                self._schemas_of(f"{topic.name}-value") if name in with_schemas else [],
            )
            for name, topic in topics.items()
        ]

    def _plan(  # noqa: PLR0917 - what was asked for all topics at once
        self,
        name: str,
        topic: TopicIdentity,
        first: Mapping[tuple[str, int], int],
        ends: Mapping[tuple[str, int], int],
        leaders: Mapping[tuple[str, int], Broker],
        schemas: Sequence[tuple[int, str]],
    ) -> TopicPlan:
        found = {number: leaders.get((topic.topic_id, number)) for _, number in topic.places}
        without = [number for number, leader in found.items() if leader is None]
        if without or any(place not in ends or place not in first for place in topic.places):
            raise HeadraceError(
                "log_unavailable",
                f"Topic `{topic.name}` cannot be read now: partitions {without or 'of it'} have no leader.",
                remedy="Ask again in a moment.",
            )
        return TopicPlan(
            name=name,
            topic=topic,
            bootstrap=self._cluster.bootstrap,
            # Where a transaction is open the end may come before what was read a moment ago.
            stretches={place[1]: (min(first[place], ends[place]), ends[place]) for place in topic.places},
            leaders={number: leader for number, leader in found.items() if leader is not None},
            schemas=dict(schemas),
            newest=schemas[-1][0] if schemas else 0,
            registry_url=self._registry_url,
            appended_times=self._cluster.topic_config(topic.name).get(_TIMES) == _APPENDED,
        )

    def _topics(self, names: Collection[str]) -> dict[str, TopicIdentity]:
        """By the names in the statement: exactly, or the only one that differs in case."""
        found = self._cluster.lookup(names)
        lacking = [name for name in names if name not in found]
        if lacking:
            spellings: dict[str, list[str]] = {}
            for each in self._cluster.topic_names():
                spellings.setdefault(each.casefold(), []).append(each)
            meant = {name: spellings.get(name.casefold(), []) for name in lacking}
            alike = self._cluster.lookup({one[0] for one in meant.values() if len(one) == 1})
            found |= {name: alike[one[0]] for name, one in meant.items() if one and one[0] in alike}
        for name in names:
            if name not in found:
                raise HeadraceError(
                    "no_such_topic",
                    f"There is no topic `{name}`.",
                    remedy="`GET /topics` lists the topics; names are written exactly, in quotes.",
                )
        return {name: found[name] for name in names}

    def _schemas_of(self, subject: str) -> list[tuple[int, str]]:
        """Ids and texts, the newest last."""
        found: list[tuple[int, str]] = []
        for version in self._registry.versions(subject):
            key = (subject, version)
            with self._lock:
                known = self._schemas.get(key)
            if known is None:
                known = self._registry.version(subject, version)
                with self._lock:
                    self._schemas[key] = known
            if known is not None:
                found.append(known)
        return found


def _check_views(topics: Mapping[str, str]) -> None:
    """SQL ignores case: two topics that differ in nothing else cannot be views at once."""
    by_view: dict[str, str] = {}
    for name, topic in topics.items():
        other = by_view.setdefault(name.casefold(), topic)
        if other != topic:
            raise HeadraceError(
                "query_failed",
                f"`{other}` and `{topic}` differ in case only, which SQL ignores.",
                remedy="Ask for one of them at a time.",
            )
