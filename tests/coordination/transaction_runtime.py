"""Requests about transactions to a shard of the broker."""

from __future__ import annotations

from collections.abc import Iterable

from kio.schema.errors import ErrorCode

from headrace.broker.coordinators.transaction_machines import TransactionMachines
from headrace.coordination.transactions.machine import Transactions, TransactionSettings
from headrace.coordination.transactions.records import TopicPartition, Transaction
from headrace.coordination.transactions.requests import (
    AddPartitions,
    AddPartitionsReply,
    EndReply,
    EndTransaction,
    InitProducer,
    InitProducerReply,
    Markers,
)
from tests.coordination.memory_shard import ShardRuntime

TIMEOUT_MS = 60_000
P0 = TopicPartition("events", 0)
P1 = TopicPartition("events", 1)
OFFSETS = TopicPartition("__consumer_offsets", 3)


class Runtime(ShardRuntime[TransactionMachines]):
    """One shard of transactions. Markers are written when `finish` is called."""

    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.ids = 1000
        super().__init__(lambda: TransactionMachines(settings or TransactionSettings(), 0), now_ms=1_000_000)

    @property
    def machine(self) -> Transactions:
        return self.machines.transactions

    def new_id(self) -> int:
        self.ids += 1
        return self.ids

    def init(
        self,
        transactional_id: str = "t",
        *,
        timeout_ms: int = TIMEOUT_MS,
        producer: tuple[int, int] = (-1, -1),
    ) -> InitProducerReply:
        request = InitProducer(
            transactional_id=transactional_id,
            timeout_ms=timeout_ms,
            producer_id=producer[0],
            producer_epoch=producer[1],
        )
        new_id = self.new_id() if self.machine.init_needs_producer_id(request) else None
        decision = self.machine.decide_init(request, now_ms=self.now_ms, new_producer_id=new_id)
        return self.apply(decision, transactional_id)

    def add(
        self,
        producer: tuple[int, int],
        partitions: Iterable[TopicPartition] = (P0,),
        *,
        transactional_id: str = "t",
        verify_only: bool = False,
        version: int = 2,
    ) -> AddPartitionsReply:
        request = AddPartitions(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            partitions=frozenset(partitions),
            verify_only=verify_only,
            client_version=version,
        )
        decision = self.machine.decide_add_partitions(request, now_ms=self.now_ms)
        return self.apply(decision, transactional_id)

    def end(
        self, producer: tuple[int, int], *, committed: bool, transactional_id: str = "t", version: int = 2
    ) -> EndReply:
        request = EndTransaction(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=committed,
            client_version=version,
        )
        new_id = self.new_id() if self.machine.end_needs_producer_id(request) else None
        decision = self.machine.decide_end(request, now_ms=self.now_ms, new_producer_id=new_id)
        return self.apply(decision, transactional_id)

    def finish(self, transactional_id: str = "t") -> Markers | None:
        """The markers are written."""
        markers = self.machine.markers(transactional_id)
        if markers is not None:
            self.apply(self.machine.decide_complete(markers, now_ms=self.now_ms))
        return markers

    def reload(self) -> None:
        before = self._transactions()
        super().reload()
        assert self._transactions() == before

    def _transactions(self) -> dict[bytes, Transaction | None]:
        return {record.key: self.machine.get(record.key[4:].decode()) for record in self.log.records()}

    def state(self, transactional_id: str = "t") -> str:
        return self.machine.describe(transactional_id).state


def producer_of(reply: InitProducerReply | EndReply) -> tuple[int, int]:
    assert reply.error is ErrorCode.none
    return reply.producer_id, reply.producer_epoch
