"""A runtime for the machine of transactions: it keeps records, timers and time, and can load again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from kio.schema.errors import ErrorCode

from headrace.coordination.decision import Decision, Record, Reply, TimerKey
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

Said = TypeVar("Said", bound=Reply)

TIMEOUT_MS = 60_000
P0 = TopicPartition("events", 0)
P1 = TopicPartition("events", 1)
OFFSETS = TopicPartition("__consumer_offsets", 3)


class Runtime:
    """One coordinator. `log` is what it has written; markers are written when `finish` is called."""

    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.settings = settings
        self.machine = Transactions(settings)
        self.log: list[Record] = []
        self.timers: dict[TimerKey, int] = {}
        self.now_ms = 1_000_000
        self.ids = 1000

    def new_id(self) -> int:
        self.ids += 1
        return self.ids

    def apply(self, decision: Decision[Said]) -> Said:
        for record in decision.records:
            self.log.append(record)
            self.machine.replay(record.key, record.value)
        for timer in decision.timers:
            if timer.at_ms is None:
                self.timers.pop(timer.key, None)
            else:
                self.timers[timer.key] = timer.at_ms
        assert decision.reply is not None
        return decision.reply

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
        return self.apply(self.machine.decide_init(request, now_ms=self.now_ms, new_producer_id=new_id))

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
        return self.apply(self.machine.decide_add_partitions(request, now_ms=self.now_ms))

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
        return self.apply(self.machine.decide_end(request, now_ms=self.now_ms, new_producer_id=new_id))

    def finish(self, transactional_id: str = "t") -> Markers | None:
        """The markers are written."""
        markers = self.machine.markers(transactional_id)
        if markers is not None:
            self.apply(self.machine.decide_complete(markers, now_ms=self.now_ms))
        return markers

    def pass_time(self, milliseconds: int) -> None:
        """Turn the clock, and tell the machine of the timers that are due."""
        until = self.now_ms + milliseconds
        while self.timers and min(self.timers.values()) <= until:
            key = min(self.timers, key=lambda each: self.timers[each])
            self.now_ms = max(self.now_ms, self.timers.pop(key))
            self.apply(self.machine.timed_out(key, self.now_ms))
        self.now_ms = until

    def reload(self) -> None:
        """Stop, and load what was written."""
        before = {record.key: self.of(record) for record in self.log}
        self.machine = Transactions(self.settings)
        self.timers.clear()
        for record in self.log:
            self.machine.replay(record.key, record.value)
        assert {record.key: self.of(record) for record in self.log} == before
        self.apply(self.machine.loaded(self.now_ms))

    def of(self, record: Record) -> Transaction | None:
        return self.machine.get(record.key[4:].decode())

    def state(self, transactional_id: str = "t") -> str:
        return self.machine.describe(transactional_id).state


def producer_of(reply: InitProducerReply | EndReply) -> tuple[int, int]:
    assert reply.error is ErrorCode.none
    return reply.producer_id, reply.producer_epoch
