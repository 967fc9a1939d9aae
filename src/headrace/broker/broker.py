"""The broker as its APIs see it: the node, its coordinators, and its clients' fetch sessions.

Invariant: coordinators are told here of deleted topics. Never touches a socket.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from headrace.broker.configs.store import ConfigStore
from headrace.broker.fetch_sessions import FetchSessions
from headrace.broker.node import Node
from headrace.broker.topic_names import CONSUMER_OFFSETS
from headrace.log.folder.data_folder import DataFolder

if TYPE_CHECKING:
    from headrace.broker.answers import Answer
    from headrace.broker.coordinators.group_machines import GroupMachines
    from headrace.broker.coordinators.groups import GroupCoordinator
    from headrace.broker.coordinators.shards import Shards
    from headrace.broker.coordinators.transaction_machines import TransactionMachines
    from headrace.broker.coordinators.transactions import TransactionCoordinator
    from headrace.broker.group_commit import GroupCommit
    from headrace.broker.settings import BrokerSettings
    from headrace.coordination.transactions.requests import AddPartitions, AddPartitionsReply


class Broker(Node):
    """One node that leads every partition and coordinates every group and transaction."""

    def __init__(
        self,
        settings: BrokerSettings,
        logs: DataFolder,
        configs: ConfigStore,
        group_commit: GroupCommit,
    ) -> None:
        super().__init__(settings, logs, configs, group_commit)
        self.sessions: Final = FetchSessions(configs.number("max.incremental.fetch.session.cache.slots"))
        self.host = settings.advertised_host or settings.host
        self.port = settings.port
        # The shards of the coordinators that are in use.
        self.shards_in_use: Final[list[Shards[GroupMachines] | Shards[TransactionMachines]]] = []

    @property
    def cluster_id(self) -> str:
        return self.logs.cluster_id

    # The coordinators are imported with the first request for them: most brokers start without one, and
    # importing them would make the start half as long again.

    @functools.cached_property
    def groups(self) -> GroupCoordinator:
        from headrace.broker.coordinators.groups import GroupCoordinator  # noqa: PLC0415

        groups = GroupCoordinator(self, self._add_partitions)
        self.shards_in_use.append(groups.shards)
        return groups

    @functools.cached_property
    def transactions(self) -> TransactionCoordinator:
        from headrace.broker.coordinators.transactions import TransactionCoordinator  # noqa: PLC0415

        transactions = TransactionCoordinator(self, self._offsets_ended)
        self.shards_in_use.append(transactions.shards)
        return transactions

    # How the coordinators reach each other: the other one may not exist yet.

    def _add_partitions(self, request: AddPartitions) -> Answer[AddPartitionsReply]:
        return self.transactions.add_partitions(request)

    def _offsets_ended(self, partition: int, producer_id: int, committed: bool) -> None:
        self.groups.transaction_ended(partition, producer_id, committed=committed)

    def delete_topic(self, name: str) -> None:
        """Raises LogError."""
        super().delete_topic(name)
        for shards in self.shards_in_use:
            if shards.topic == name:
                shards.forget()
        if CONSUMER_OFFSETS in self.logs.topics:
            self.groups.topics_deleted(frozenset({name}))
