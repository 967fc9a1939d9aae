"""Produce (key 0), versions 3 to 13: record sets are appended as they came.

Behaviour: each partition succeeds or fails by itself, with Kafka's code and a message. acks=0 gets no reply;
if something failed the connection is closed, as Kafka does, since there is no other way to tell. With
fsync=always the reply waits for the disk. Transactions are not served: a transactional id is refused.

Version notes: advertised from 0, because old librdkafka asks for it before it compresses (KIP-896), but
served from 3. zstd comes with 7 (KIP-110). See `wire/produce.py` for what each version carries.
"""

from __future__ import annotations

import asyncio
from typing import Final

from kio.schema.errors import ErrorCode

from headrace.broker.api import Api, Context
from headrace.broker.broker import Broker
from headrace.broker.connection import CloseConnectionError
from headrace.broker.errors import ApiError, kafka_code, unknown_partition
from headrace.log.data_folder import Topic
from headrace.log.errors import (
    BatchTooLargeError,
    CorruptRecordError,
    LogError,
    MalformedRecordSetError,
    RecordTooLargeError,
    RefusedRecordsError,
    StorageError,
)
from headrace.log.partition_log import PartitionLog
from headrace.wire.produce import (
    FLEXIBLE_FROM,
    Outcome,
    PartitionData,
    ProduceRequest,
    TopicKey,
    read_request,
    write_reply,
)
from headrace.wire.record_batch import ATTRIBUTES_AT, COMPRESSION_MASK, HEADER_SIZE

_VALID_ACKS: Final = frozenset({-1, 0, 1})
_ZSTD: Final = 4
_ZSTD_FROM: Final = 7
_BEFORE_THE_LOG: Final = (
    BatchTooLargeError,
    CorruptRecordError,
    MalformedRecordSetError,
    RecordTooLargeError,
    StorageError,
)
_Outcomes = list[tuple[TopicKey, list[Outcome]]]


def handle(broker: Broker, body: memoryview, context: Context) -> bytes | asyncio.Task[bytes] | None:
    """Append everything now; the reply may have to wait for the disk."""
    request = read_request(body, context.version)
    produce = _Produce(broker, request, zstd=context.version >= _ZSTD_FROM)
    replies: _Outcomes = []
    failed = False
    for key, partitions in request.topics:
        topic = broker.find_topic(key)
        outcomes: list[Outcome] = []
        for data in partitions:
            outcome = produce.append(key, topic, data, outcomes)
            failed = failed or outcome.error_code != 0
            outcomes.append(outcome)
        replies.append((key, outcomes))
    if request.acks == 0:
        if failed:
            raise CloseConnectionError("records sent with acks=0 could not be appended")
        return None
    if produce.pending:
        return asyncio.get_running_loop().create_task(produce.after_sync(replies, context.version))
    return write_reply(replies, context.version)


class _Produce:
    """One request, while it is being answered."""

    __slots__ = ("_acks", "_broker", "_now_ms", "_refusal", "_zstd", "pending")

    def __init__(self, broker: Broker, request: ProduceRequest, *, zstd: bool) -> None:
        self._broker = broker
        self._zstd = zstd
        self._acks = request.acks
        self._now_ms = broker.now_ms()
        # What has to reach the disk first, with the place of its outcome.
        self.pending: list[tuple[list[Outcome], int, asyncio.Future[None]]] = []
        self._refusal = 0
        if request.acks not in _VALID_ACKS:
            self._refusal = ErrorCode.invalid_required_acks
        elif request.transactional_id is not None:
            self._refusal = ErrorCode.transactional_id_authorization_failed

    def append(
        self, key: TopicKey, topic: Topic | None, data: PartitionData, outcomes: list[Outcome]
    ) -> Outcome:
        partition, records = data
        if self._refusal:
            return Outcome(partition, self._refusal)
        log = self._broker.partition(topic, partition)
        if log is None:
            return Outcome(partition, unknown_partition(key, topic))
        try:
            if records is None:
                raise ApiError(ErrorCode.invalid_record, "A produce request without records.")
            if not self._zstd and _is_zstd(records):
                raise ApiError(
                    ErrorCode.unsupported_compression_type,
                    f"Produce requests use ZStandard compression from version {_ZSTD_FROM} on.",
                )
            appended = log.append(records, now_ms=self._now_ms)
        except (LogError, ApiError) as error:
            return _failure(partition, error, log)
        # A batch that was there already may still be on its way to the disk.
        if not appended.duplicate or appended.last_offset >= log.high_water_mark:
            future = self._broker.group_commit.appended(log, appended.last_offset)
            if future is None:
                self._broker.wake(log, len(records))
            elif self._acks:
                self.pending.append((outcomes, len(outcomes), future))
        return Outcome(
            partition, 0, appended.base_offset, appended.log_append_time, appended.log_start_offset
        )

    async def after_sync(self, replies: _Outcomes, version: int) -> bytes:
        await asyncio.wait([future for _outcomes, _place, future in self.pending])
        for outcomes, place, future in self.pending:
            error = future.exception()
            if isinstance(error, LogError):
                outcomes[place] = _failure(outcomes[place].partition, error)
            elif error is not None:
                raise error
        return write_reply(replies, version)


def _is_zstd(records: memoryview) -> bool:
    return len(records) > HEADER_SIZE and records[ATTRIBUTES_AT + 1] & COMPRESSION_MASK == _ZSTD


def _failure(partition: int, error: LogError | ApiError, log: PartitionLog | None = None) -> Outcome:
    """Where the log itself said no, Kafka tells its start too."""
    start_offset = -1
    if log is not None and isinstance(error, LogError) and not isinstance(error, _BEFORE_THE_LOG):
        start_offset = log.start_offset
    return Outcome(
        partition,
        kafka_code(error),
        log_start_offset=start_offset,
        record_errors=error.records if isinstance(error, RefusedRecordsError) else (),
        error_message=str(error) or None,
    )


API = Api(
    key=0,
    name="Produce",
    versions=(0, 13),
    lowest_served=3,
    handle=handle,
    raw_flexible_from=FLEXIBLE_FROM,
)
