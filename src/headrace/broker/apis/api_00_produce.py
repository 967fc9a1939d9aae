"""Produce (key 0), versions 3 to 13: record sets are appended as they came.

Behaviour: each partition succeeds or fails on its own, with Kafka's code and a message. acks=0 gets no reply;
if something failed, the broker closes the connection, as Kafka does, because there is no other way to report
it. With fsync=always the reply waits for the disk, and so do the first records of a partition, for which
offsets must be reserved; until then nobody reads them, also with acks=0. The first records of a transaction
in a partition are accepted only if the coordinator has added the partition to the transaction
(`broker/transaction_admission.py`, KIP-890). Transactional records without a transactional id are refused
with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, records for internal topics with INVALID_TOPIC_EXCEPTION.

Version notes: advertised from version 0, because old librdkafka requires that before it compresses (KIP-896),
but served from 3. 7 allows zstd (KIP-110). 11 may return TRANSACTION_ABORTABLE; from 12 on the broker adds a
partition to its transaction (KIP-890). See `wire/produce.py` for the fields of each version.
"""

from __future__ import annotations

import asyncio
from typing import Final

from kio.schema.errors import ErrorCode

from headrace.broker.api import Context, Raw
from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError, CloseConnectionError, kafka_code, unknown_partition
from headrace.broker.topic_names import is_internal
from headrace.broker.transaction_admission import Refusal, SeveralProducersError, Verdicts, admit
from headrace.coordination.transactions.records import TopicPartition
from headrace.log.errors import (
    BatchTooLargeError,
    CorruptRecordError,
    LogError,
    MalformedRecordSetError,
    RecordTooLargeError,
    RefusedRecordsError,
    StorageError,
)
from headrace.log.folder.data_folder import Topic
from headrace.log.partition.partition_log import Appended, PartitionLog
from headrace.wire.produce import (
    FLEXIBLE_FROM,
    Outcome,
    PartitionData,
    ProduceRequest,
    TopicData,
    TopicKey,
    read_request,
    write_reply,
)
from headrace.wire.record_batch import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    HEADER_SIZE,
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL,
)

_VALID_ACKS: Final = frozenset({-1, 0, 1})
_ZSTD: Final = 4
_ZSTD_FROM: Final = 7
_FLAGS_AT: Final = ATTRIBUTES_AT + 1
_BEFORE_THE_LOG: Final = (
    BatchTooLargeError,
    CorruptRecordError,
    MalformedRecordSetError,
    RecordTooLargeError,
    StorageError,
)
_Outcomes = list[tuple[TopicKey, list[Outcome]]]
_Reply = bytes | asyncio.Task[bytes] | None


def handle(broker: Broker, body: memoryview, context: Context) -> _Reply | asyncio.Task[bytes | None]:
    """Append everything now; the reply may have to wait for the disk."""
    request = read_request(body, context.version)
    produce = _Produce(broker, request, context.version)
    if request.transactional_id is None:
        return produce.answer(request)
    return _in_transaction(broker, request, context, produce)


def _in_transaction(
    broker: Broker, request: ProduceRequest, context: Context, produce: _Produce
) -> _Reply | asyncio.Task[bytes | None]:
    try:
        verdicts = admit(broker, request, context.version)
    except SeveralProducersError:
        produce.refusal = Refusal(
            ErrorCode.invalid_producer_id_mapping, "Transactional records contained more than one producer ID"
        )
        verdicts = {}
    if not isinstance(verdicts, asyncio.Task):
        produce.verdicts = verdicts
        return produce.answer(request)
    loop = asyncio.get_running_loop()
    appended: asyncio.Future[None] = loop.create_future()
    context.connection.hold_until(appended)
    return loop.create_task(_answer_later(produce, _copy_of(request), verdicts, appended))


async def _answer_later(
    produce: _Produce,
    request: ProduceRequest,
    verdicts: asyncio.Task[Verdicts],
    appended: asyncio.Future[None],
) -> bytes | None:
    try:
        produce.verdicts = await verdicts
        reply = produce.answer(request)
    finally:
        appended.set_result(None)
    return await reply if isinstance(reply, asyncio.Task) else reply


def _copy_of(request: ProduceRequest) -> ProduceRequest:
    """A copy for later: the bytes of a request are valid only until its handler returns."""
    topics = [
        TopicData(
            key,
            [
                PartitionData(index, None if records is None else memoryview(bytearray(records)))
                for index, records in partitions
            ],
        )
        for key, partitions in request.topics
    ]
    return request._replace(topics=topics)


class _Produce:
    """One request, while it is being answered."""

    __slots__ = ("_acks", "_broker", "_now_ms", "_pending", "_version", "refusal", "verdicts")

    def __init__(self, broker: Broker, request: ProduceRequest, version: int) -> None:
        self._broker = broker
        self._version = version
        self._acks = request.acks
        self._now_ms = broker.now_ms()
        # Futures for records that must be synced first, each with the place of its outcome.
        self._pending: list[tuple[list[Outcome], int, asyncio.Future[None]]] = []
        # Refuses all partitions, because of the request itself.
        self.refusal = None if request.acks in _VALID_ACKS else Refusal(ErrorCode.invalid_required_acks)
        # Set for a request with a transactional id.
        self.verdicts: Verdicts | None = None

    def answer(self, request: ProduceRequest) -> _Reply:
        """Append all record sets and make the reply. Raises CloseConnectionError."""
        replies: _Outcomes = []
        failed = False
        for key, partitions in request.topics:
            topic = self._broker.find_topic(key)
            refusal = self.refusal or _refusal_of(topic)
            outcomes: list[Outcome] = []
            for data in partitions:
                if refusal is not None:
                    outcome = _failure(data.partition, ApiError(*refusal))
                else:
                    outcome = self._append(key, topic, data, outcomes)
                failed = failed or outcome.error_code != 0
                outcomes.append(outcome)
            replies.append((key, outcomes))
        if request.acks == 0:
            if failed:
                raise CloseConnectionError("records sent with acks=0 could not be appended")
            return None
        if self._pending:
            return asyncio.get_running_loop().create_task(self._after_sync(replies))
        return write_reply(replies, self._version)

    def _append(
        self, key: TopicKey, topic: Topic | None, data: PartitionData, outcomes: list[Outcome]
    ) -> Outcome:
        partition, records = data
        log = self._broker.partition(topic, partition)
        if log is None or topic is None:
            return Outcome(partition, unknown_partition(key, topic))
        try:
            if records is None:
                raise ApiError(ErrorCode.invalid_record, "A produce request without records.")
            if self._version < _ZSTD_FROM and _is_zstd(records):
                raise ApiError(
                    ErrorCode.unsupported_compression_type,
                    f"Produce requests use ZStandard compression from version {_ZSTD_FROM} on.",
                )
            if self.verdicts is not None:
                appended = self._append_admitted(topic, partition, log, records, self.verdicts)
            elif len(records) >= HEADER_SIZE and records[_FLAGS_AT] & TRANSACTIONAL and _is_batch(records):
                raise ApiError(ErrorCode.transactional_id_authorization_failed)
            else:
                appended = log.append(records, now_ms=self._now_ms)
        except (LogError, ApiError) as error:
            return _failure(partition, error, log)
        # A duplicate batch may not be synced yet.
        if not appended.duplicate or appended.last_offset >= log.high_water_mark:
            future = self._broker.group_commit.appended(log, appended.last_offset)
            if future is None:
                self._broker.wake(log, len(records))
            elif self._acks:
                self._pending.append((outcomes, len(outcomes), future))
        return Outcome(
            partition, 0, appended.base_offset, appended.log_append_time, appended.log_start_offset
        )

    def _append_admitted(
        self, topic: Topic, partition: int, log: PartitionLog, records: memoryview, verdicts: Verdicts
    ) -> Appended:
        """Raises LogError, ApiError."""
        verdict = verdicts.get(TopicPartition(topic.name, partition))
        if isinstance(verdict, Refusal):
            raise ApiError(*verdict)
        return log.append(records, now_ms=self._now_ms, permission=verdict)

    async def _after_sync(self, replies: _Outcomes) -> bytes:
        await asyncio.wait([future for _outcomes, _place, future in self._pending])
        for outcomes, place, future in self._pending:
            error = future.exception()
            if isinstance(error, LogError):
                outcomes[place] = _failure(outcomes[place].partition, error)
            elif error is not None:
                raise error
        return write_reply(replies, self._version)


def _refusal_of(topic: Topic | None) -> Refusal | None:
    """Only coordinators write to internal topics."""
    if topic is None or not is_internal(topic.name):
        return None
    return Refusal(ErrorCode.invalid_topic_exception, f"Cannot append to internal topic {topic.name}")


def _is_batch(records: memoryview) -> bool:
    """False for messages of older formats, whose attributes are elsewhere."""
    return records[MAGIC_AT] == MAGIC


def _is_zstd(records: memoryview) -> bool:
    return len(records) > HEADER_SIZE and records[_FLAGS_AT] & COMPRESSION_MASK == _ZSTD


def _failure(partition: int, error: LogError | ApiError, log: PartitionLog | None = None) -> Outcome:
    """If the log itself refused, the outcome has the log start offset, as in Kafka."""
    start_offset = -1
    if log is not None and isinstance(error, LogError) and not isinstance(error, _BEFORE_THE_LOG):
        start_offset = log.start_offset
    return Outcome(
        partition,
        kafka_code(error),
        log_start_offset=start_offset,
        record_errors=error.records if isinstance(error, RefusedRecordsError) else (),
        error_message=(error.message if isinstance(error, ApiError) else str(error)) or None,
    )


HANDLER = Raw(FLEXIBLE_FROM, handle)
