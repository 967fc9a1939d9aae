"""Where the tail of a table begins at a version: the rule of `lake/resuming.py`, with what the log has now.

Asking whether a topic still has the last records before the positions takes several requests. The log loses
records only when it breaks down, so it is asked once, and again after it was disturbed: it did not answer, or
a partition ended before where it had ended. Safe for several threads, but does not answer them at once.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.lake.positions import Offsets, Position, Source
from headrace.lake.resuming import TopicNow, history, resume
from headrace.query.tail.doubt import bounds_of_rows
from headrace.query.tail.feeds import Feeds, TableFeed
from headrace.query.tail.versions import CommitsUpTo, TableVersions

_MOST_VERSIONS: Final = 64

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """`starts` has every partition of the topic. `bounds` are those of the rows that must be looked up."""

    topic_id: str
    starts: Mapping[int, int]
    bounds: Mapping[Source, Position]


@dataclass(frozen=True, slots=True)
class _IntactTopic:
    """A topic that has lost nothing."""

    topic_id: str = ""
    starts: Offsets = field(default_factory=dict)

    def lacking(self, _: Offsets) -> AbstractSet[int]:
        return frozenset()


class _Asked:
    """A topic that remembers whether it lacked anything."""

    def __init__(self, topic: TopicNow) -> None:
        self._topic = topic
        self.is_whole = True

    @property
    def topic_id(self) -> str:
        return self._topic.topic_id

    @property
    def starts(self) -> Offsets:
        return self._topic.starts

    def lacking(self, offsets: Offsets) -> AbstractSet[int]:
        found = self._topic.lacking(offsets)
        self.is_whole = self.is_whole and not found
        return found


class Beginnings:
    """Of one table."""

    def __init__(self, versions: TableVersions, feeds: Feeds, cluster: Cluster) -> None:
        self._versions = versions
        self._feeds = feeds
        self._cluster = cluster
        self._lock = threading.Lock()
        self._disturbances = 0
        # The incarnation of the topic that had lost nothing, and how often the log was disturbed until then.
        self._intact: tuple[str, int] | None = None
        self._found: OrderedDict[tuple[int, str, int, int, int], Beginning | None] = OrderedDict()

    @property
    def disturbances(self) -> int:
        """How often the log may have lost records."""
        return self._disturbances

    def disturb(self) -> None:
        """The log may have lost records."""
        self._disturbances += 1

    def at(self, version: int, feed: TableFeed, topic: TopicIdentity, *, is_away: bool) -> Beginning | None:
        """None if the lake has yet to say where it begins. If the log `is_away`, it counts as whole.

        Raises TableChangedError and OSError.
        """
        with self._lock:
            disturbances = self._disturbances
            repairs = self._versions.repairs()
            key = (version, topic.topic_id, topic.partitions, disturbances, repairs)
            if key not in self._found:
                intact = _IntactTopic(topic.topic_id)
                if is_away:
                    return self._begun(version, feed, intact, _IntactTopic(), topic)
                try:
                    found = self._beginning(version, feed, topic, disturbances)
                except HeadraceError as error:
                    _logger.info("the tail of %s begins unchecked: %s", self._versions.location, error)
                    return self._begun(version, feed, intact, _IntactTopic(), topic)
                self._found[key] = found
                if len(self._found) > _MOST_VERSIONS:
                    self._found.popitem(last=False)
            return self._found[key]

    def _beginning(
        self, version: int, feed: TableFeed, topic: TopicIdentity, disturbances: int
    ) -> Beginning | None:
        if self._intact == (topic.topic_id, disturbances):
            return self._begun(version, feed, _IntactTopic(topic.topic_id), _IntactTopic(), topic)
        letters = self._cluster.topic(feed.letters)
        now = _Asked(self._feeds.topic_now(topic))
        of_letters = _Asked(_IntactTopic() if letters is None else self._feeds.topic_now(letters))
        found = self._begun(version, feed, now, of_letters, topic)
        if now.is_whole and of_letters.is_whole:
            self._intact = topic.topic_id, disturbances
        return found

    def _begun(
        self, version: int, feed: TableFeed, now: TopicNow, letters: TopicNow, topic: TopicIdentity
    ) -> Beginning | None:
        commits = CommitsUpTo(self._versions, version)
        said = next(history(commits), None)
        if feed.sink.starts_at_latest and (said is None or not said.progress.positions.topic_id):
            return None
        resumption = resume(commits, topic=now, dead_letters=letters)
        offsets = resumption.progress.positions.offsets
        bounds = resumption.progress.bounds
        if resumption.is_doubtful:
            bounds = bounds_of_rows(self._versions.location, self._versions.files(version))
        return Beginning(
            topic_id=topic.topic_id,
            starts={number: offsets.get(number, 0) for number in range(topic.partitions)},
            bounds=bounds,
        )
