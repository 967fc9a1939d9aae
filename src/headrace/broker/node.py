"""The node as its coordinators see it: logs, configs, durability, and waiting fetches.

Invariants: everything here runs on one event loop; topics change through this class only, so that waiting
fetches learn of it. Never touches a socket, and knows no coordinator: `broker.py` adds them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from headrace.broker.configs.store import ConfigStore
from headrace.broker.producer_ids import ProducerIds
from headrace.broker.waiting_fetches import WaitingFetches
from headrace.log.folder.data_folder import DataFolder, Topic
from headrace.log.partition.partition_log import PartitionLog
from headrace.wire.produce import TopicKey

if TYPE_CHECKING:
    from headrace.broker.group_commit import GroupCommit
    from headrace.broker.settings import BrokerSettings


class Node:
    """Leads every partition of its data folder."""

    def __init__(
        self,
        settings: BrokerSettings,
        logs: DataFolder,
        configs: ConfigStore,
        group_commit: GroupCommit,
    ) -> None:
        self.settings: Final = settings
        self.logs: Final = logs
        self.configs: Final = configs
        self.group_commit: Final = group_commit
        self.waiting: Final = WaitingFetches()
        self.producer_ids: Final = ProducerIds(logs)
        self.node_id: Final = settings.node_id
        self.topic_changes = 0
        """Counts changes of topics: created, grown, deleted."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def wake(self, log: PartitionLog, appended_bytes: int = 0) -> None:
        """Tell waiting fetches that a partition has more to read, or that something else happened to it."""
        self.waiting.wake(log, appended_bytes)

    def appended(self, log: PartitionLog, last_offset: int, size: int = 0) -> asyncio.Future[None] | None:
        """Records were appended. Wakes readers, or returns a future if the records must be synced first."""
        written = self.group_commit.appended(log, last_offset)
        if written is None:
            self.wake(log, size)
        return written

    def create_topic(self, name: str, partitions: int, overrides: Mapping[str, str]) -> Topic:
        """Create a topic. The caller checks name, count and configs. Raises LogError."""
        config = self.configs.log_config(overrides)
        topic = self.logs.create_topic(name, partitions, dict(overrides), config)
        self.topic_changes += 1
        self.configs.adopt(topic)
        return topic

    def add_partitions(self, name: str, total: int) -> Topic:
        """Raises LogError."""
        self.logs.add_partitions(name, total)
        self.topic_changes += 1
        topic = self.logs.topics[name]
        self.configs.adopt(topic)
        return topic

    def delete_topic(self, name: str) -> None:
        """Raises LogError."""
        partitions = self.logs.topics[name].partitions
        self.logs.delete_topic(name)
        self.topic_changes += 1
        for log in partitions:
            self.wake(log)

    def find_topic(self, key: TopicKey) -> Topic | None:
        """By name, or by id in newer versions of the protocol (KIP-516)."""
        return self.logs.topics.get(key) if isinstance(key, str) else self.logs.topics_by_id.get(key)

    def partition(self, topic: Topic | None, index: int) -> PartitionLog | None:
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]
