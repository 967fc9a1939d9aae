"""The coordinator of transactions: the requests of API files, and the completion of transactions.

Once the end of a transaction is decided and written, its markers go to all its partitions. When they are as
durable as promised, a record marks the transaction as complete. With fsync=os or interval, all this happens
right after the reply to EndTxn and before the next request is read: the producer finds its id free, and
readers find what was committed. With fsync=always the reply waits for the disk three times, since each step
must be on disk before the next. After a load, decided transactions are completed.

Invariants: a decided transaction is completed whatever happens to its client; markers that could not be
written are tried again. An id is not free for the next transaction while its markers are being written.
Every method returns a reply or a future of it, and raises ApiError if the shard of the id is not available.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from headrace.broker.answers import Answer
from headrace.broker.coordinators.shard import Carried, Shard, subject
from headrace.broker.coordinators.shards import Shards
from headrace.broker.coordinators.transaction_machines import TransactionMachines, transaction_settings
from headrace.broker.coordinators.transaction_markers import MarkerWriter, OffsetsEnded
from headrace.broker.errors import ApiError
from headrace.broker.topic_names import TRANSACTION_STATE
from headrace.coordination.decision import TimerKey
from headrace.coordination.transactions.requests import (
    AddPartitions,
    AddPartitionsReply,
    DescribedTransaction,
    EndReply,
    EndTransaction,
    InitProducer,
    InitProducerReply,
    ListedTransactions,
    ListTransactions,
)
from headrace.log.errors import LogError

if TYPE_CHECKING:
    from headrace.broker.node import Node

_log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 1.0
_TransactionShard = Shard[TransactionMachines]


class TransactionCoordinator:
    """Coordinates all transactional ids, since there is one node."""

    def __init__(self, node: Node, offsets_ended: OffsetsEnded) -> None:
        self._node: Final = node
        self.markers: Final = MarkerWriter(node, offsets_ended)
        self.shards: Final = Shards(
            node,
            TRANSACTION_STATE,
            lambda number: TransactionMachines(transaction_settings(node.configs), number),
            self._due,
        )
        # Ids whose transactions are being completed.
        self._ending: dict[str, asyncio.Task[None]] = {}

    async def resume(self) -> None:
        """After the load, complete decided transactions. Groups must be loaded, for offsets in them."""
        await self.shards.all_loaded.wait()
        for shard in self.shards:
            for markers in shard.machines.transactions.unfinished():
                self._end(shard, markers.transactional_id, None)

    # Requests.

    def init_producer(self, request: InitProducer) -> Answer[InitProducerReply]:
        """InitProducerId with a transactional id."""
        shard = self.shards.of(request.transactional_id)
        carried, ending = self._init(shard, request)
        if ending is None and _was_in_use(carried):
            # The open transaction is aborted by now, so the client need not ask again.
            carried, _ = self._init(shard, request)
        return _answer(shard, carried, None)

    def _init(
        self, shard: _TransactionShard, request: InitProducer
    ) -> tuple[Carried, asyncio.Task[None] | None]:
        """The result, and a task if aborting an open transaction takes longer."""
        machine = shard.machines.transactions
        new_id = self._new_producer_id() if machine.init_needs_producer_id(request) else None
        decision = machine.decide_init(request, now_ms=self._node.now_ms(), new_producer_id=new_id)
        carried = shard.commit(decision, request.transactional_id)
        return carried, self._end(shard, request.transactional_id, carried.written)

    def add_partitions(self, request: AddPartitions) -> Answer[AddPartitionsReply]:
        """AddPartitionsToTxn, AddOffsetsToTxn, and the same for Produce and TxnOffsetCommit."""
        shard = self.shards.of(request.transactional_id)
        machine = shard.machines.transactions
        decision = machine.decide_add_partitions(request, now_ms=self._node.now_ms())
        carried = shard.commit(decision, request.transactional_id)
        return _answer(shard, carried, None)

    def end(self, request: EndTransaction) -> Answer[EndReply]:
        """EndTxn."""
        shard = self.shards.of(request.transactional_id)
        machine = shard.machines.transactions
        new_id = self._new_producer_id() if machine.end_needs_producer_id(request) else None
        decision = machine.decide_end(request, now_ms=self._node.now_ms(), new_producer_id=new_id)
        carried = shard.commit(decision, request.transactional_id)
        if carried.written is None and not shard.log.durable:
            # This runs after the reply is sent and before the next request is read.
            asyncio.get_running_loop().call_soon(self._end_if_loaded, shard, request.transactional_id)
            return _answer(shard, carried, None)
        return _answer(shard, carried, self._end(shard, request.transactional_id, carried.written))

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """DescribeTransactions of one id."""
        return self.shards.of(transactional_id).machines.transactions.describe(transactional_id)

    def list(self, request: ListTransactions) -> ListedTransactions:
        """ListTransactions. Raises ApiError while transactions are being loaded."""
        if self.shards.loading:
            raise ApiError(ErrorCode.coordinator_load_in_progress)
        now_ms = self._node.now_ms()
        found: ListedTransactions | None = None
        for shard in self.shards:
            listed = shard.machines.transactions.list_transactions(request, now_ms=now_ms)
            found = listed if found is None else found.with_more(listed)
        if found is None:
            # There are no transactions yet, but the request may have errors.
            settings = transaction_settings(self._node.configs)
            found = TransactionMachines(settings, 0).transactions.list_transactions(request, now_ms=now_ms)
        return found

    def _new_producer_id(self) -> int:
        """Raises ApiError."""
        try:
            return self._node.producer_ids.take()
        except LogError as error:
            raise ApiError(ErrorCode.coordinator_not_available, str(error)) from error

    # Completion.

    def _end_if_loaded(self, shard: _TransactionShard, transactional_id: str) -> None:
        """Unless the broker is stopping: then the next load completes it."""
        if shard.loaded:
            self._end(shard, transactional_id, None)

    def _end(
        self, shard: _TransactionShard, transactional_id: str, decided: asyncio.Future[None] | None
    ) -> asyncio.Task[None] | None:
        """Complete a decided transaction, at once if possible. Otherwise returns the task that does."""
        if transactional_id in self._ending:
            return self._ending[transactional_id]
        machine = shard.machines.transactions
        markers = machine.markers(transactional_id)
        if markers is None:
            return None
        if decided is None and not shard.log.durable:
            written = self.markers.write(markers, coordinator_epoch=shard.log.leader_epoch)
            if written == []:
                shard.carry_out(machine.decide_complete(markers, now_ms=self._node.now_ms()))
                if machine.markers(transactional_id) is None:
                    return None
        task = shard.own(self._end_later(shard, transactional_id, decided))
        self._ending[transactional_id] = task
        task.add_done_callback(lambda _task: self._ending.pop(transactional_id, None))
        return task

    async def _end_later(
        self, shard: _TransactionShard, transactional_id: str, decided: asyncio.Future[None] | None
    ) -> None:
        """Complete it step by step, each when the one before is durable. If the disk refuses, try again."""
        machine = shard.machines.transactions
        if decided is not None:
            await asyncio.wait([decided])
        while (markers := machine.markers(transactional_id)) is not None:
            settled = shard.settled()
            if settled is None or await _succeeds(settled):
                written = self.markers.write(markers, coordinator_epoch=shard.log.leader_epoch)
                if written is not None and all([await _succeeds(each) for each in written]):
                    shard.carry_out(machine.decide_complete(markers, now_ms=self._node.now_ms()))
                    if machine.markers(transactional_id) is None:
                        return
            await asyncio.sleep(RETRY_SECONDS)

    def _due(self, shard: _TransactionShard, key: TimerKey, now_ms: int) -> None:
        carried = shard.timed_out(key, now_ms)
        if (transactional_id := subject(key)) is not None:
            self._end(shard, transactional_id, carried.written)


async def _succeeds(written: asyncio.Future[None]) -> bool:
    try:
        await asyncio.shield(written)
    except LogError as error:
        _log.warning("a step of a transaction failed and is tried again: %s", error)
        return False
    return True


def _was_in_use(carried: Carried) -> bool:
    reply = carried.reply
    return isinstance(reply, InitProducerReply) and reply.error is ErrorCode.concurrent_transactions


def _answer(shard: _TransactionShard, carried: Carried, ending: asyncio.Task[None] | None) -> Answer[Any]:
    """The reply, once it is durable and `ending` is done or has to try again."""
    reply, written = carried
    if written is None and ending is None:
        return reply

    async def later() -> Any:
        if written is not None:
            try:
                await asyncio.shield(written)
            except LogError:
                return reply.failed(ErrorCode.coordinator_not_available)
        if ending is not None:
            await asyncio.wait([ending], timeout=RETRY_SECONDS)
        return reply

    return asyncio.shield(shard.own(later()))
