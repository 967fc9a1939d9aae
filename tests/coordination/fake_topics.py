"""Topics that tests make and delete, as the machines see them."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from headrace.coordination.topics import TopicInfo


class FakeTopics:
    """Topics that tests make and delete."""

    def __init__(self, **partitions: int) -> None:
        self.version = 0
        self._topics: dict[str, TopicInfo] = {}
        for name, count in partitions.items():
            self.create(name, count)

    def create(self, name: str, partitions: int) -> UUID:
        self.version += 1
        topic_id = UUID(int=self.version)
        self._topics[name] = TopicInfo(name=name, topic_id=topic_id, partitions=partitions)
        return topic_id

    def delete(self, name: str) -> None:
        self.version += 1
        del self._topics[name]

    def grow(self, name: str, partitions: int) -> None:
        self.version += 1
        topic_id = self._topics[name].topic_id
        self._topics[name] = TopicInfo(name=name, topic_id=topic_id, partitions=partitions)

    def id(self, name: str) -> UUID:
        return self._topics[name].topic_id

    def names(self) -> Iterable[str]:
        return list(self._topics)

    def by_name(self, name: str) -> TopicInfo | None:
        return self._topics.get(name)

    def by_id(self, topic_id: UUID) -> TopicInfo | None:
        return next((topic for topic in self._topics.values() if topic.topic_id == topic_id), None)
