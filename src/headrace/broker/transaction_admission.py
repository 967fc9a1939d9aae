"""Whether records may go into their transaction: what Produce asks the coordinator first (KIP-890).

A partition takes the first records of a transaction only with a guard (`log.verification`), and the guard is
good once the coordinator has the partition in the transaction. Clients from Produce version 12 on leave it to
the broker to add the partition; older ones have added it themselves (AddPartitionsToTxn), and it is only
looked for. A partition that has records of the transaction already needs nobody's leave.

Refusals are translated as Apache Kafka does, by what a client of the version knows. While the transaction
before is still being ended, the coordinator is asked again for a moment, for that costs a client far less
than sending its records a second time.

Invariants: the coordinator is asked once for all partitions of a request, so that one record of the
transaction's state adds them all. Never appends, never looks at more than the headers of batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError, kafka_code
from headrace.broker.topic_names import is_internal
from headrace.coordination.transactions.records import TopicPartition
from headrace.coordination.transactions.requests import AddPartitions, AddPartitionsReply
from headrace.coordination.transactions.states import EPOCH_BUMP_VERSION
from headrace.log.errors import LogError
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.producers.verification import Guard
from headrace.wire.errors import WireError
from headrace.wire.produce import ProduceRequest
from headrace.wire.record_batch import BatchHeader, read_header

# From these versions of Produce on: TRANSACTION_ABORTABLE is known, and partitions are added by the broker.
_ABORTABLE_FROM: Final = 11
_ADDS_PARTITIONS_FROM: Final = 12
# As Kafka's add.partitions.to.txn.retry.backoff.ms and .max.ms.
_AGAIN_SECONDS: Final = 0.02
_LONGEST_SECONDS: Final = 0.1
# Old clients would not repeat a request that is refused like this; NOT_ENOUGH_REPLICAS they do.
_PASSING: Final = frozenset(
    {
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)


class Refusal(NamedTuple):
    """Why records are not taken, with Kafka's words where it has any."""

    code: ErrorCode
    message: str = ""


# By partition; records of partitions that are not named are appended like any others.
Verdicts = dict[TopicPartition, Guard | Refusal]


class SeveralProducersError(Exception):
    """The transactional records of one request are of several producers: nothing of it is taken."""


def admit(broker: Broker, request: ProduceRequest, version: int) -> Verdicts | asyncio.Task[Verdicts]:
    """What becomes of each partition's records; a task if the answer takes longer.

    Raises SeveralProducersError.
    """
    return _Admission(broker, request, version).ask()


class _Batch(NamedTuple):
    place: TopicPartition
    log: PartitionLog
    header: BatchHeader


class _Admission:
    """One request."""

    def __init__(self, broker: Broker, request: ProduceRequest, version: int) -> None:
        self._broker = broker
        self._transactional_id = request.transactional_id or ""
        self._adds = version >= _ADDS_PARTITIONS_FROM
        self._knows_abortable = version >= _ABORTABLE_FROM
        self._batches = list(_transactional_batches(broker, request))
        producers = {(each.header.producer_id, each.header.producer_epoch) for each in self._batches}
        if len(producers) > 1:
            raise SeveralProducersError
        self._verdicts: Verdicts = {}

    def ask(self) -> Verdicts | asyncio.Task[Verdicts]:
        reply = self._ask_coordinator()
        if not isinstance(reply, asyncio.Future):
            self._translate(reply)
            if not self._is_to_be_asked_again():
                return self._verdicts
        return asyncio.get_running_loop().create_task(self._ask_later(reply))

    async def _ask_later(self, reply: AddPartitionsReply | asyncio.Future[AddPartitionsReply]) -> Verdicts:
        loop = asyncio.get_running_loop()
        until = loop.time() + _LONGEST_SECONDS
        while True:
            if isinstance(reply, asyncio.Future):
                # Not awaited itself: what the coordinator does must not end with this connection.
                await asyncio.wait([reply])
                self._translate(reply.result())
            if not self._is_to_be_asked_again() or loop.time() >= until:
                return self._verdicts
            await asyncio.sleep(_AGAIN_SECONDS)
            reply = self._ask_coordinator()
            if not isinstance(reply, asyncio.Future):
                self._translate(reply)

    def _ask_coordinator(self) -> AddPartitionsReply | asyncio.Future[AddPartitionsReply]:
        now_ms = self._broker.now_ms()
        verdicts = self._verdicts = {}
        unknown = []
        for place, log, header in self._batches:
            try:
                guard = log.begin_verification(
                    header.producer_id,
                    header.base_sequence,
                    header.producer_epoch,
                    epoch_bump=self._adds,
                    now_ms=now_ms,
                )
            except LogError as error:
                verdicts[place] = Refusal(kafka_code(error), str(error))
                continue
            if guard is not None:
                verdicts[place] = guard
                unknown.append(place)
        if not unknown:
            return AddPartitionsReply(partitions=())
        producer = self._batches[0].header
        try:
            return self._broker.transactions.add_partitions(
                AddPartitions(
                    transactional_id=self._transactional_id,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    partitions=frozenset(unknown),
                    verify_only=not self._adds,
                    client_version=EPOCH_BUMP_VERSION if self._adds else 0,
                )
            )
        except ApiError as error:
            return AddPartitionsReply(partitions=tuple((place, error.code) for place in unknown))

    def _translate(self, reply: AddPartitionsReply) -> None:
        for place, error in reply.partitions:
            if error is not ErrorCode.none:
                self._verdicts[place] = self._refusal(error)

    def _refusal(self, error: ErrorCode) -> Refusal:
        if error is ErrorCode.producer_fenced:
            return Refusal(ErrorCode.invalid_producer_epoch)
        if error is ErrorCode.transaction_abortable and not self._knows_abortable:
            error = ErrorCode.invalid_txn_state
        if error is ErrorCode.invalid_txn_state:
            return Refusal(error, "Partition was not added to the transaction")
        if error in _PASSING or (error is ErrorCode.concurrent_transactions and not self._adds):
            return Refusal(
                ErrorCode.not_enough_replicas,
                "Unable to verify the partition has been added to the transaction. "
                f"Underlying error: {error.name.upper()}",
            )
        return Refusal(error)

    def _is_to_be_asked_again(self) -> bool:
        return self._adds and any(
            isinstance(verdict, Refusal) and verdict.code is ErrorCode.concurrent_transactions
            for verdict in self._verdicts.values()
        )


def _transactional_batches(broker: Broker, request: ProduceRequest) -> Iterable[_Batch]:
    """Those that Produce would append, as far as their header can be read: the rest is the log's to say."""
    for key, partitions in request.topics:
        topic = broker.find_topic(key)
        if topic is None or is_internal(topic.name):
            continue
        for index, records in partitions:
            log = broker.partition(topic, index)
            if log is None or records is None:
                continue
            try:
                header = read_header(records)
            except WireError:
                continue
            if header.transactional and header.producer_id >= 0:
                yield _Batch(TopicPartition(topic.name, index), log, header)
