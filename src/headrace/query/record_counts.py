"""Counts of records with the positions up to which they hold, so that counting goes on instead of beginning
anew.

A *checkpoint* of a partition says: up to `position`, the offset after the last counted record, there were
`records` records. It is the same whoever counted, so any number of gateways may keep them. Each partition has
a short history of checkpoints, newest last, with ages that grow by about four: after a power failure the log
may have lost its newest records, and with them those that the newest checkpoints counted. So counting goes on
from the newest checkpoint whose last record is still there, its *witness*; without one it begins at the
beginning. A reply has room for a few partitions only: an empty share of it says nothing about a witness.

A topic that was deleted and recreated is counted from its beginning. What its earlier incarnations had is in
`earlier`, for topics whose count covers them all.

Pure: no log and no clock. `fetched` is told what the log gave, `starts` says what to fetch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from headrace.client.batches import Fetched
from headrace.client.topics import TopicIdentity

_YOUNGEST_MS: Final = 1000
_GROWTH: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """`records` before `position`; `at` is when, in milliseconds since the epoch."""

    position: int
    records: int
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCheckpoints:
    """The histories of the partitions of one incarnation, and the records of earlier ones."""

    topic_id: str
    partitions: dict[int, tuple[Checkpoint, ...]]
    earlier: int = 0

    @property
    def records(self) -> int:
        return sum(history[-1].records for history in self.partitions.values() if history)


# By the name of the topic.
Checkpoints = dict[str, TopicCheckpoints]


def encode(checkpoints: Checkpoints) -> bytes:
    return msgspec.json.encode(checkpoints)


def decode(value: bytes) -> Checkpoints:
    """The inverse of `encode`. Raises msgspec.DecodeError on anything else."""
    return msgspec.json.decode(value, type=Checkpoints)


def thinned(history: Iterable[Checkpoint], now_ms: int) -> tuple[Checkpoint, ...]:
    """The newest checkpoint and the oldest of each class of ages; the newest last."""
    by_class: dict[int, Checkpoint] = {}
    ordered = sorted(history, key=lambda checkpoint: checkpoint.at)
    for checkpoint in ordered:
        by_class.setdefault(_age_class(now_ms - checkpoint.at), checkpoint)
    kept = list(by_class.values())
    if ordered and kept[-1] is not ordered[-1]:
        kept.append(ordered[-1])
    return tuple(kept)


def _age_class(age_ms: int) -> int:
    number, limit = 0, _YOUNGEST_MS
    while age_ms >= limit:
        number, limit = number + 1, limit * _GROWTH
    return number


@dataclass(slots=True)
class _Partition:
    """`position` is where to fetch next, `counted_to` the offset after the last counted record."""

    history: tuple[Checkpoint, ...] = ()
    position: int = 0
    counted_to: int = 0
    records: int = 0
    is_verified: bool = False

    def go_back(self, history: tuple[Checkpoint, ...]) -> None:
        """Go on from the newest of these checkpoints, once its witness was seen."""
        self.history = history
        newest = history[-1] if history else Checkpoint(position=0, records=0, at=0)
        self.position = self.counted_to = newest.position
        self.records = newest.records
        self.is_verified = newest.position == 0

    @property
    def start(self) -> int:
        return self.position if self.is_verified else self.position - 1

    def take(self, fetched: Fetched) -> None:
        if self._says_nothing(fetched):
            return
        if not self.is_verified:
            if not self._has_witness(fetched):
                self.go_back(self.history[:-1])
                return
            self.is_verified = True
            # The witness was counted before.
            self.records -= 0 if fetched.is_out_of_range else 1
        if fetched.is_out_of_range:
            if self.position < fetched.first:
                self.position = fetched.first
            elif self.position > fetched.end:
                self.go_back(self.history)
            return
        for batch in fetched.batches:
            self.records += batch.records
            self.counted_to = batch.end
        self.position = max(self.position, fetched.position)

    def _says_nothing(self, fetched: Fetched) -> bool:
        """Whether other partitions have used up the bytes of the reply: there are records, but none came."""
        is_empty = not fetched.batches and fetched.position == self.start and not fetched.is_out_of_range
        return is_empty and fetched.end > self.start

    def _has_witness(self, fetched: Fetched) -> bool:
        if fetched.is_out_of_range:
            # Retention has removed it; or the log is shorter than it was.
            return self.start < fetched.first and self.position <= fetched.end
        return bool(fetched.batches) and fetched.batches[0].first == self.start


@dataclass(slots=True)
class _Topic:
    identity: TopicIdentity
    earlier: int = 0
    partitions: dict[int, _Partition] = field(default_factory=dict)

    @property
    def records(self) -> int:
        return sum(partition.records for partition in self.partitions.values())


class RecordCounts:
    """Counts the records of some topics. Not locked: its owner guards it.

    `with_earlier` names the topics whose count covers their earlier incarnations.
    """

    def __init__(self, checkpoints: Checkpoints, *, with_earlier: Iterable[str]) -> None:
        self._known = dict(checkpoints)
        self._with_earlier = frozenset(with_earlier)
        self._topics: dict[str, _Topic] = {}

    def follow(self, topics: Mapping[str, TopicIdentity]) -> None:
        """Count these topics, which exist now."""
        for name, identity in topics.items():
            topic = self._topics.get(name)
            if topic is None or topic.identity.topic_id != identity.topic_id:
                topic = self._topics[name] = self._opened(name, identity)
            topic.identity = identity
            for number in range(identity.partitions):
                if number not in topic.partitions:
                    topic.partitions[number] = _Partition()
                    topic.partitions[number].go_back(())

    def starts(self, names: Iterable[str]) -> dict[TopicIdentity, dict[int, int]]:
        """Where to fetch next in each partition of these topics."""
        return {
            topic.identity: {number: partition.start for number, partition in topic.partitions.items()}
            for name in names
            if (topic := self._topics.get(name)) is not None
        }

    def fetched(self, found: Mapping[tuple[str, int], Fetched]) -> None:
        for topic in self._topics.values():
            for number, partition in topic.partitions.items():
                if (each := found.get((topic.identity.topic_id, number))) is not None:
                    partition.take(each)

    def interrupted(self, now_ms: int) -> None:
        """The log was away and may have lost records: look for the witnesses again before going on."""
        self.checkpoints(now_ms)
        for topic in self._topics.values():
            for partition in topic.partitions.values():
                partition.go_back(partition.history)

    def total(self, name: str) -> int:
        """The records of the topic, with those of earlier incarnations where that was asked for."""
        if (topic := self._topics.get(name)) is not None:
            return topic.earlier + topic.records
        known = self._known.get(name)
        return known.earlier + known.records if known is not None and name in self._with_earlier else 0

    def checkpoints(self, now_ms: int) -> Checkpoints:
        """The current counts, for the next start. What has not been verified yet is left as it was."""
        found = dict(self._known)
        for name, topic in self._topics.items():
            for partition in topic.partitions.values():
                newest = partition.history[-1] if partition.history else None
                if partition.is_verified and partition.counted_to > (newest.position if newest else 0):
                    counted = Checkpoint(position=partition.counted_to, records=partition.records, at=now_ms)
                    partition.history = thinned((*partition.history, counted), now_ms)
            found[name] = TopicCheckpoints(
                topic_id=topic.identity.topic_id,
                earlier=topic.earlier,
                partitions={
                    number: each.history for number, each in topic.partitions.items() if each.history
                },
            )
        return found

    def _opened(self, name: str, identity: TopicIdentity) -> _Topic:
        followed, known = self._topics.get(name), self._known.get(name)
        if known is not None and known.topic_id == identity.topic_id:
            topic = _Topic(identity=identity, earlier=known.earlier)
            for number, history in known.partitions.items():
                topic.partitions[number] = _Partition()
                topic.partitions[number].go_back(history)
            return topic
        if name not in self._with_earlier:
            return _Topic(identity=identity)
        if followed is not None:
            return _Topic(identity=identity, earlier=followed.earlier + followed.records)
        return _Topic(identity=identity, earlier=known.earlier + known.records if known is not None else 0)
