"""Creating topics: the checks before it, and the settings of topics that are created automatically.

Invariants: a topic is created only if all checks pass; refusals are ApiErrors with Kafka's code and message.
One node holds and leads every partition, so an assignment can only name this node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from headrace.broker.errors import ApiError
from headrace.broker.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE, check_name, colliding

if TYPE_CHECKING:
    from headrace.broker.node import Node
    from headrace.log.folder.data_folder import Topic

# Kafka's limit for one request; each partition is a folder with files.
MOST_PARTITIONS: Final = 10_000
BY_DEFAULT: Final = -1


def check_replication_factor(factor: int) -> None:
    """Raises ApiError (INVALID_REPLICATION_FACTOR) for anything but one replica."""
    if factor < BY_DEFAULT or factor == 0:
        raise ApiError(
            ErrorCode.invalid_replication_factor,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if factor > 1:
        raise ApiError(
            ErrorCode.invalid_replication_factor,
            f"Unable to replicate the partition {factor} time(s): the embedded broker is one node and keeps "
            "one replica. For more, start Apache Kafka with --engine kafka.",
        )


def check_replicas(node_id: int, replicas: Sequence[int], *, expected: int | None = 1) -> None:
    """Check that a partition can be on these nodes. Raises ApiError (INVALID_REPLICA_ASSIGNMENT)."""
    said = "The manual partition assignment includes"
    wrong: str | None = None
    if not replicas:
        wrong = f"{said} an empty replica list."
    previous: int | None = None
    for replica in sorted(replicas):
        if wrong is None and replica != node_id:
            wrong = f"{said} broker {replica}, but no such broker is registered."
        elif wrong is None and replica == previous:
            wrong = f"{said} the broker {replica} more than once."
        previous = replica
    if wrong is None and expected is not None and len(replicas) != expected:
        wrong = (
            f"{said} a partition with {len(replicas)} replica(s), but this is not consistent with previous "
            f"partitions, which have {expected} replica(s)."
        )
    if wrong is not None:
        raise ApiError(ErrorCode.invalid_replica_assignment, wrong)


def create_automatically(node: Node, name: str) -> Topic:
    """Create a topic on first use. Raises ApiError, LogError."""
    check_name(name)
    if (other := colliding(name, node.logs.topics)) is not None:
        message = f"Topic '{name}' collides with existing topic: {other}"
        raise ApiError(ErrorCode.invalid_topic_exception, message)
    partitions, overrides = _automatic(node, name)
    return node.create_topic(name, partitions, overrides)


def _automatic(node: Node, name: str) -> tuple[int, Mapping[str, str]]:
    configs = node.configs
    if name == CONSUMER_OFFSETS:
        overrides = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(configs.number("offsets.topic.segment.bytes")),
        }
        return configs.number("offsets.topic.num.partitions"), overrides
    if name == TRANSACTION_STATE:
        overrides = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(configs.number("transaction.state.log.min.isr")),
            "segment.bytes": str(configs.number("transaction.state.log.segment.bytes")),
            "unclean.leader.election.enable": "false",
        }
        return configs.number("transaction.state.log.num.partitions"), overrides
    return configs.number("num.partitions"), {}
