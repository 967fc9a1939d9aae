"""Looks up dead-letter topics and their entries. A dead-letter topic is one whose name ends in `_dlq`.

Never changes anything.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from headrace.client.batches import batches_between, count_records
from headrace.client.cluster import Cluster
from headrace.client.reading import records_between
from headrace.client.topics import TopicIdentity
from headrace.client.visible_batches import Batch
from headrace.core.errors import HeadraceError
from headrace.dead_letters.entries import At, DeadLetter, dead_letter
from headrace.lake.dead_letter_headers import DEAD_LETTER_SUFFIX, dead_letter_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterTopic:
    """`stretches` has the first and the next offset of each partition, between which there may be gaps."""

    identity: TopicIdentity
    stretches: dict[int, tuple[int, int]]
    entries: int

    @property
    def name(self) -> str:
        return self.identity.name


class DeadLetterTopics:
    """The dead-letter topics of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def all(self) -> list[DeadLetterTopic]:
        """Raises log_unavailable."""
        return self._described(self._names())

    def named(self, name: str) -> DeadLetterTopic:
        """Raises bad_request for a topic of another kind, no_such_topic, log_unavailable."""
        if not name.endswith(DEAD_LETTER_SUFFIX):
            self._refuse_other_kind(name)
        found = self._described([name])
        if not found:
            known = ", ".join(self._names())
            raise HeadraceError(
                "no_such_topic",
                f"There is no topic `{name}`.",
                remedy=f"The dead-letter topics are: {known}."
                if known
                else "There is no dead-letter topic yet: a query creates them when it starts.",
            )
        return found[0]

    def newest(self, topic: DeadLetterTopic, limit: int) -> list[DeadLetter]:
        """The newest entries, oldest first."""
        batches: dict[int, deque[Batch]] = defaultdict(deque)
        held: Counter[int] = Counter()
        for partition, batch in batches_between(self._cluster, topic.identity, topic.stretches):
            held[partition] += batch.records
            kept = batches[partition]
            kept.append(batch)
            while held[partition] - kept[0].records >= limit:
                held[partition] -= kept.popleft().records
        tails = {partition: (kept[0].first, kept[-1].end) for partition, kept in batches.items()}
        records = records_between(self._cluster.bootstrap, topic.name, tails)
        found = [dead_letter(record) for record in records]
        found.sort(key=lambda letter: (letter.timestamp_ms, letter.at))
        return found[-limit:]

    def every(self, topic: DeadLetterTopic) -> Iterator[DeadLetter]:
        """All entries that existed when the topic was looked up, partition by partition."""
        for record in records_between(self._cluster.bootstrap, topic.name, topic.stretches):
            yield dead_letter(record)

    def entry(self, topic: DeadLetterTopic, at: At) -> DeadLetter:
        """Raises bad_request if there is no such entry."""
        if at.partition not in topic.stretches:
            raise HeadraceError(
                "bad_request",
                f"{topic.name} has no partition {at.partition}.",
                remedy=f"Its partitions are {_listed(sorted(topic.stretches))}.",
            )
        first, end = topic.stretches[at.partition]
        stretch = {at.partition: (at.offset, at.offset + 1)}
        if first <= at.offset < end:
            for record in records_between(self._cluster.bootstrap, topic.name, stretch):
                return dead_letter(record)
        holds = f"has offsets {first} to {end - 1}" if first < end else "is empty"
        raise HeadraceError(
            "bad_request",
            f"{topic.name} has no entry at {at}: partition {at.partition} {holds}.",
            remedy=f"`headrace dlq list {topic.name}` shows the places of the entries.",
        )

    def _names(self) -> list[str]:
        return [name for name in self._cluster.topic_names() if name.endswith(DEAD_LETTER_SUFFIX)]

    def _described(self, names: Sequence[str]) -> list[DeadLetterTopic]:
        topics = self._cluster.lookup(names)
        found = self._cluster.stretches(topics.values())
        return [
            DeadLetterTopic(
                identity=topics[name],
                stretches=found[name],
                entries=count_records(self._cluster, topics[name], found[name]),
            )
            for name in sorted(found)
        ]

    def _refuse_other_kind(self, name: str) -> NoReturn:
        own = dead_letter_topic(name)
        there = self._cluster.topic(own) is not None
        raise HeadraceError(
            "bad_request",
            f"`{name}` is not a dead-letter topic: those end in {DEAD_LETTER_SUFFIX}.",
            remedy=f"Its dead letters are in `{own}`."
            if there
            else "`headrace dlq list` lists the dead-letter topics.",
        )


def _listed(numbers: Sequence[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
