"""Asks the coordinator whether records belong to their transaction, before Produce appends them (KIP-890).

A partition accepts the first records of a transaction only with a guard (`log/producers/verification.py`),
which is valid once the coordinator has added the partition to the transaction. From Produce version 12 on the
broker adds the partition; older clients add it themselves (AddPartitionsToTxn), and the broker only verifies
that. A partition that already has records of the transaction needs no check.

Error codes are translated as in Apache Kafka, to codes that a client of the version knows. While the previous
transaction is still ending, the broker retries for a moment, because that is much cheaper than a client that
sends its records again.

Invariants: the coordinator is asked once for all partitions of a request, so that one record in the
transaction's log adds them all. Never appends, and reads only the headers of batches.
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

# The versions of Produce from which clients know TRANSACTION_ABORTABLE, and from which the broker adds
# partitions.
_ABORTABLE_FROM: Final = 11
_ADDS_PARTITIONS_FROM: Final = 12
# The defaults of Kafka's add.partitions.to.txn.retry.backoff.ms and .max.ms.
_AGAIN_SECONDS: Final = 0.02
_LONGEST_SECONDS: Final = 0.1
# Old clients do not retry after these errors, but they do after NOT_ENOUGH_REPLICAS.
_PASSING: Final = frozenset(
    {
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)


class Refusal(NamedTuple):
    """Why records are refused, with Kafka's message if it has one."""

    code: ErrorCode
    message: str = ""


# By partition. Records of other partitions are appended without a guard.
Verdicts = dict[TopicPartition, Guard | Refusal]


class SeveralProducersError(Exception):
    """The transactional records of one request come from several producers: all are refused."""


def admit(broker: Broker, request: ProduceRequest, version: int) -> Verdicts | asyncio.Task[Verdicts]:
    """A verdict on each partition's records, or a task if it takes longer.

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
                # Not awaited directly: cancelling this must not cancel the coordinator's work.
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
    """Transactional batches that Produce would append. The log refuses those whose header cannot be read."""
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
