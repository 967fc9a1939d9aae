"""Whether a client knows the leader of a partition as this broker does (KIP-320).

Invariants: answers with Kafka's codes; -1 stands for a client that does not say.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from headrace.broker.errors import ApiError
from headrace.log.partition.partition_log import PartitionLog

UNKNOWN_EPOCH: Final = -1


def check_leader_epoch(log: PartitionLog, claimed: int) -> None:
    """Raises ApiError: FENCED_LEADER_EPOCH for an old epoch, UNKNOWN_LEADER_EPOCH for one to come."""
    if claimed in (UNKNOWN_EPOCH, log.leader_epoch):
        return
    if claimed < log.leader_epoch:
        raise ApiError(ErrorCode.fenced_leader_epoch)
    raise ApiError(ErrorCode.unknown_leader_epoch)
