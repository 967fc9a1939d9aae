"""DescribeTransactions (key 65), version 0: the state of transactional ids (KIP-664).

Behaviour: returns state, timeout, start time (-1 without a transaction), producer and partitions. An unknown
id gets TRANSACTIONAL_ID_NOT_FOUND.

Version notes: there is one version.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Final

from kio.schema.describe_transactions.v0 import request as requests
from kio.schema.describe_transactions.v0 import response as responses
from kio.schema.errors import ErrorCode

from headrace.broker.api import Context, Typed
from headrace.broker.asking_groups import duration
from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError
from headrace.coordination.transactions.records import TopicPartition
from headrace.coordination.transactions.requests import DescribedTransaction
from headrace.wire.messages import NO_THROTTLE

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def handle(
    broker: Broker, request: requests.DescribeTransactionsRequest, _context: Context
) -> responses.DescribeTransactionsResponse:
    """One result for each id, in order."""
    return responses.DescribeTransactionsResponse(
        throttle_time=NO_THROTTLE,
        transaction_states=tuple(
            _described(broker, transactional_id) for transactional_id in request.transactional_ids
        ),
    )


def _described(broker: Broker, transactional_id: str) -> responses.TransactionState:
    try:
        found = broker.transactions.describe(transactional_id)
    except ApiError as error:
        found = DescribedTransaction(transactional_id=transactional_id, error=error.code)
    if found.error is not ErrorCode.none:
        # For unknown ids Kafka sends zeros instead of -1.
        found = DescribedTransaction(
            transactional_id=transactional_id,
            error=found.error,
            started_ms=0,
            producer_id=0,
            producer_epoch=0,
        )
    return responses.TransactionState(
        error_code=found.error,
        transactional_id=transactional_id,
        transaction_state=found.state,
        transaction_timeout=duration(found.timeout_ms),
        transaction_start_time=_EPOCH + duration(found.started_ms),
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=_topics(found.partitions),
    )


def _topics(partitions: Iterable[TopicPartition]) -> tuple[responses.TopicData, ...]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return tuple(
        responses.TopicData(topic=topic, partitions=tuple(numbers)) for topic, numbers in by_topic.items()
    )


HANDLER = Typed(requests.DescribeTransactionsRequest, responses.DescribeTransactionsResponse, handle)
