"""The broker as its APIs see it: the logs, the configs, who waits for records, and who it is itself.

Invariants: everything here runs on one event loop; a change of topics goes through this class, so that
waiting fetches learn of it. Never touches a socket.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from headrace.broker.configs.store import ConfigStore
from headrace.broker.fetch_sessions import FetchSessions
from headrace.broker.producer_ids import ProducerIds
from headrace.broker.topic_names import CONSUMER_OFFSETS
from headrace.broker.waiting_fetches import WaitingFetches
from headrace.log.folder.data_folder import DataFolder, Topic
from headrace.log.partition.partition_log import PartitionLog
from headrace.wire.produce import TopicKey

if TYPE_CHECKING:
    from headrace.broker.coordinators.groups import GroupCoordinator
    from headrace.broker.coordinators.shards import Shards
    from headrace.broker.coordinators.transactions import TransactionCoordinator
    from headrace.broker.group_commit import GroupCommit
    from headrace.broker.settings import BrokerSettings


class Broker:
    """One node that leads every partition of its data folder."""

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
        self.sessions: Final = FetchSessions(configs.number("max.incremental.fetch.session.cache.slots"))
        self.waiting: Final = WaitingFetches()
        self.producer_ids: Final = ProducerIds(logs)
        self.node_id: Final = settings.node_id
        self.host = settings.advertised_host or settings.host
        self.port = settings.port
        self.topic_changes = 0
        """Counts topics made, grown and deleted: who has seen a number has seen all before it."""

    # The coordinators are imported with the first request for them: most brokers start without one, and
    # starting would take half as long again.

    @functools.cached_property
    def groups(self) -> GroupCoordinator:
        from headrace.broker.coordinators.groups import GroupCoordinator  # noqa: PLC0415

        return GroupCoordinator(self)

    @functools.cached_property
    def transactions(self) -> TransactionCoordinator:
        from headrace.broker.coordinators.transactions import TransactionCoordinator  # noqa: PLC0415

        return TransactionCoordinator(self)

    def coordinators_in_use(self) -> tuple[Shards[Any], ...]:
        """What has been asked for so far."""
        return tuple(
            self.__dict__[name].shards for name in ("groups", "transactions") if name in self.__dict__
        )

    @property
    def cluster_id(self) -> str:
        return self.logs.cluster_id

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def wake(self, log: PartitionLog, appended_bytes: int = 0) -> None:
        """Say that there is more to read, or something else to know, in a partition."""
        self.waiting.wake(log, appended_bytes)

    def appended(self, log: PartitionLog, last_offset: int, size: int = 0) -> asyncio.Future[None] | None:
        """Records were appended: a future if they must reach the disk first, or None and they can be read."""
        written = self.group_commit.appended(log, last_offset)
        if written is None:
            self.wake(log, size)
        return written

    def create_topic(self, name: str, partitions: int, overrides: Mapping[str, str]) -> Topic:
        """Make a topic. Names, counts and configs are the caller's to check. Raises LogError."""
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
        for shards in self.coordinators_in_use():
            if shards.topic == name:
                shards.forget()
        if CONSUMER_OFFSETS in self.logs.topics:
            self.groups.topics_deleted(frozenset({name}))

    def find_topic(self, key: TopicKey) -> Topic | None:
        """By name, or by id in newer versions of the protocol (KIP-516)."""
        return self.logs.topics.get(key) if isinstance(key, str) else self.logs.topics_by_id.get(key)

    def partition(self, topic: Topic | None, index: int) -> PartitionLog | None:
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]
