"""A topic as the log knows it now, for the rules of where a table goes on (`lake/resuming.py`).

Where it begins is asked once. Never writes.
"""

from __future__ import annotations

from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.lake.positions import Offsets
from headrace.pipeline.runs.witnesses import has_records


class AskedTopic:
    """A topic as the log knows it."""

    def __init__(self, cluster: Cluster, topic: TopicIdentity) -> None:
        self._bootstrap = cluster.bootstrap
        self._topic = topic
        self.topic_id = topic.topic_id
        earliest = cluster.earliest([topic])
        self.starts: Offsets = {place[1]: earliest[place] for place in topic.places if place in earliest}

    def lacking(self, offsets: Offsets) -> frozenset[int]:
        if self._has_all(offsets):
            return frozenset()
        return frozenset(number for number, offset in offsets.items() if not self._has_all({number: offset}))

    def _has_all(self, offsets: Offsets) -> bool:
        known = {number: offset for number, offset in offsets.items() if number in self.starts}
        return known == offsets and has_records(self._bootstrap, [self._topic], {self.topic_id: known})
