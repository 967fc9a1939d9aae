"""Writes the markers that end a transaction to its partitions.

Invariants: writing a marker again does no harm. If the partition is gone, or has a newer transaction of the
producer, the marker is not needed. A marker wakes those who wait for committed records, and tells the group
coordinator about offsets in the transaction.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headrace.broker.topic_names import CONSUMER_OFFSETS
from headrace.coordination.transactions.records import TopicPartition
from headrace.log.errors import (
    InvalidProducerEpochError,
    LogError,
    TransactionCoordinatorFencedError,
)
from headrace.log.producers.verification import TransactionEnd
from headrace.wire.control_batches import EndMarker

if TYPE_CHECKING:
    from headrace.broker.node import Node
    from headrace.coordination.transactions.requests import Markers
    from headrace.log.partition.partition_log import PartitionLog

_log = logging.getLogger(__name__)


# Tells the group coordinator that a marker was written to a partition of `__consumer_offsets`: the partition,
# the producer's id, and whether its offsets are committed.
OffsetsEnded = Callable[[int, int, bool], None]


class MarkerWriter:
    """Writes the markers of one broker."""

    def __init__(self, node: Node, offsets_ended: OffsetsEnded) -> None:
        self._node: Final = node
        self._offsets_ended: Final = offsets_ended

    def write(self, markers: Markers, *, coordinator_epoch: int) -> list[asyncio.Future[None]] | None:
        """Write all markers. Returns futures until they are durable, or None if one could not be written."""
        end = TransactionEnd(EndMarker(markers.committed, coordinator_epoch), markers.client_version)
        waiting: list[asyncio.Future[None]] = []
        complete = True
        for topic, partition in sorted(markers.partitions):
            try:
                written = self._write_one(topic, partition, end, markers)
            except LogError as error:
                _log.warning("a marker for %s-%d failed and is tried again: %s", topic, partition, error)
                complete = False
                continue
            if written is not None:
                waiting.append(written)
        return waiting if complete else None

    def _write_one(
        self, topic: str, partition: int, end: TransactionEnd, markers: Markers
    ) -> asyncio.Future[None] | None:
        """Raises LogError."""
        place = TopicPartition(topic, partition)
        log = self._node.partition(self._node.logs.topics.get(topic), partition)
        if log is None:
            return None
        try:
            return self.append(
                place, log, end, producer_id=markers.producer_id, producer_epoch=markers.producer_epoch
            )
        except (InvalidProducerEpochError, TransactionCoordinatorFencedError) as error:
            _log.info("a marker for %s is late: %s", log.name, error)
            return None

    def append(
        self,
        place: TopicPartition,
        log: PartitionLog,
        end: TransactionEnd,
        *,
        producer_id: int,
        producer_epoch: int,
    ) -> asyncio.Future[None] | None:
        """Write one marker. Returns a future until it is durable, or None if it is. Raises LogError."""
        node = self._node
        appended = log.append_marker(
            end, producer_id=producer_id, producer_epoch=producer_epoch, now_ms=node.now_ms()
        )
        if place.topic == CONSUMER_OFFSETS:
            self._offsets_ended(place.partition, producer_id, end.marker.committed)
        return node.appended(log, appended.last_offset)
