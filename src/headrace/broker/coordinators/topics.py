"""The broker's topics for coordinators, which see them through `coordination.topics`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final
from uuid import UUID

from headrace.coordination.topics import TopicInfo

if TYPE_CHECKING:
    from headrace.broker.node import Node
    from headrace.log.folder.data_folder import Topic


class BrokerTopics:
    """A view, not a copy."""

    def __init__(self, node: Node) -> None:
        self._node: Final = node

    @property
    def version(self) -> int:
        return self._node.topic_changes

    def names(self) -> Iterable[str]:
        return self._node.logs.topics

    def by_name(self, name: str) -> TopicInfo | None:
        return _info(self._node.logs.topics.get(name))

    def by_id(self, topic_id: UUID) -> TopicInfo | None:
        return _info(self._node.logs.topics_by_id.get(topic_id))


def _info(topic: Topic | None) -> TopicInfo | None:
    if topic is None:
        return None
    return TopicInfo(name=topic.name, topic_id=topic.id, partitions=len(topic.partitions))
