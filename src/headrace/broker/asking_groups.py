"""Shared by the API files for groups and transactions: refusals by the coordinator, times, and who is asking.

Never knows a version.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from kio.schema.errors import ErrorCode

from headrace.broker.answers import Answer
from headrace.broker.api import Context
from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError
from headrace.coordination.requests import OffsetToCommit
from headrace.log.folder.data_folder import Topic

_MILLISECOND: Final = datetime.timedelta(milliseconds=1)
_Reply = TypeVar("_Reply")


def asked(ask: Callable[[], Answer[_Reply]], refused: Callable[[ErrorCode], _Reply]) -> Answer[_Reply]:
    """Ask a coordinator. If it cannot be asked now, `refused` makes the answer from the error."""
    try:
        return ask()
    except ApiError as refusal:
        return refused(refusal.code)


def milliseconds(duration: datetime.timedelta) -> int:
    return duration // _MILLISECOND


def duration(milliseconds: int) -> datetime.timedelta:
    return milliseconds * _MILLISECOND


def client_host(context: Context) -> str:
    """The client's address as Java prints one without a host name; Kafka's tools show it this way."""
    return f"/{context.connection.address}"


def serves_consumer_protocol(broker: Broker) -> bool:
    """Whether `group.coordinator.rebalance.protocols` has the newer protocol (KIP-848)."""
    protocols = broker.configs.broker("group.coordinator.rebalance.protocols")
    return isinstance(protocols, tuple) and "consumer" in protocols


class _Offset(Protocol):
    """An offset in OffsetCommit and in TxnOffsetCommit."""

    @property
    def partition_index(self) -> int: ...
    @property
    def committed_offset(self) -> int: ...
    @property
    def committed_leader_epoch(self) -> int: ...
    @property
    def committed_metadata(self) -> str | None: ...


def offset_to_commit(topic: Topic, offset: _Offset) -> OffsetToCommit:
    return OffsetToCommit(
        topic=topic.name,
        topic_id=topic.id,
        partition=offset.partition_index,
        offset=offset.committed_offset,
        leader_epoch=offset.committed_leader_epoch,
        metadata=offset.committed_metadata,
    )
