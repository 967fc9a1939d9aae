"""The broker configs about groups, their offsets, transactions and idempotent producers.

The coordinators read them through the ConfigStore. Invariants and tests: see `broker_table`.
"""

from __future__ import annotations

from typing import Final

from headrace.broker.configs.definition import BrokerConfig
from headrace.broker.configs.topic_table import DAY_MS, MEBIBYTE, WEEK_MS
from headrace.broker.configs.validators import ListOf, OneNode, OneOfAnyCase, Range, Validator
from headrace.broker.configs.values import ConfigType, ConfigValue

BOOLEAN, STRING, INT, SHORT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.SHORT
LONG, LIST = ConfigType.LONG, ConfigType.LIST
LARGEST_INT: Final = 2**31 - 1


def _config(
    name: str,
    kind: ConfigType,
    default: ConfigValue,
    validator: Validator | None,
    documentation: str,
    *,
    dynamic: bool = False,
    inert: bool = False,
) -> BrokerConfig:
    return BrokerConfig(
        name=name,
        type=kind,
        default=default,
        validator=validator,
        documentation=documentation,
        dynamic=dynamic,
        inert=inert,
    )


_OFFSETS: Final = (
    _config(
        "offsets.topic.num.partitions",
        INT,
        50,
        Range(1),
        "The number of partitions of __consumer_offsets when it is created.",
    ),
    _config("offsets.topic.replication.factor", SHORT, 3, OneNode(), "Replicas of __consumer_offsets: one."),
    _config(
        "offsets.topic.segment.bytes",
        INT,
        100 * MEBIBYTE,
        Range(MEBIBYTE),
        "The segment size of __consumer_offsets; small, so that compaction keeps it small.",
    ),
    _config(
        "offsets.topic.compression.codec",
        INT,
        0,
        None,
        "How records of __consumer_offsets are compressed: 0 not, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        inert=True,
    ),
    _config(
        "offsets.retention.minutes",
        INT,
        7 * 24 * 60,
        Range(1),
        "The time after which offsets of a group without members are deleted.",
    ),
    _config(
        "offsets.retention.check.interval.ms",
        LONG,
        600_000,
        Range(1),
        "How often expired offsets are deleted.",
    ),
    _config(
        "offset.metadata.max.bytes",
        INT,
        4096,
        None,
        "The maximum length of the text committed with an offset.",
    ),
    _config(
        "offsets.commit.timeout.ms",
        INT,
        5_000,
        Range(1),
        "The maximum time until a commit is written.",
        inert=True,
    ),
    _config(
        "offsets.load.buffer.size",
        INT,
        5 * MEBIBYTE,
        Range(1),
        "How much of __consumer_offsets is read at a time when the broker starts.",
        inert=True,
    ),
)

_CLASSIC_GROUPS: Final = (
    _config("group.min.session.timeout.ms", INT, 6_000, None, "The minimum session timeout of a member."),
    _config(
        "group.max.session.timeout.ms",
        INT,
        1_800_000,
        None,
        "The maximum session timeout of a member.",
    ),
    _config(
        "group.initial.rebalance.delay.ms",
        INT,
        3_000,
        None,
        "How long the first rebalance of an empty group waits for more members.",
    ),
    _config("group.max.size", INT, LARGEST_INT, Range(1), "How many members a group may have."),
    _config(
        "group.coordinator.rebalance.protocols",
        LIST,
        ("classic", "consumer", "streams"),
        ListOf(("consumer", "classic", "share", "streams")),
        "The protocols that groups may use.",
    ),
)

_CONSUMER_GROUPS: Final = (
    _config(
        "group.consumer.session.timeout.ms",
        INT,
        45_000,
        Range(1),
        "The time after which a member without heartbeats is removed from its group (KIP-848).",
    ),
    _config(
        "group.consumer.min.session.timeout.ms",
        INT,
        45_000,
        Range(1),
        "The minimum session timeout.",
        inert=True,
    ),
    _config(
        "group.consumer.max.session.timeout.ms",
        INT,
        60_000,
        Range(1),
        "The maximum session timeout.",
        inert=True,
    ),
    _config(
        "group.consumer.heartbeat.interval.ms",
        INT,
        5_000,
        Range(1),
        "How often members are told to send heartbeats.",
    ),
    _config(
        "group.consumer.min.heartbeat.interval.ms",
        INT,
        5_000,
        Range(1),
        "The minimum heartbeat interval.",
        inert=True,
    ),
    _config(
        "group.consumer.max.heartbeat.interval.ms",
        INT,
        15_000,
        Range(1),
        "The maximum heartbeat interval.",
        inert=True,
    ),
    _config("group.consumer.max.size", INT, LARGEST_INT, Range(1), "How many members a group may have."),
    _config(
        "group.consumer.assignors",
        LIST,
        ("uniform", "range"),
        ListOf(),
        "The strategies for assigning partitions to members; the first is the default.",
    ),
    _config(
        "group.consumer.migration.policy",
        STRING,
        "bidirectional",
        OneOfAnyCase(("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL")),
        "Whether a group may change between the classic and the consumer protocol while it is in use.",
    ),
    _config(
        "group.consumer.assignment.interval.ms",
        INT,
        1_000,
        Range(0),
        "The minimum time between two assignments of a group.",
        dynamic=True,
        inert=True,
    ),
    _config(
        "group.consumer.min.assignment.interval.ms",
        INT,
        0,
        Range(0),
        "The minimum assignment interval.",
        inert=True,
    ),
    _config(
        "group.consumer.max.assignment.interval.ms",
        INT,
        15_000,
        Range(0),
        "The maximum assignment interval.",
        inert=True,
    ),
)

_TRANSACTIONS: Final = (
    _config(
        "transaction.state.log.num.partitions",
        INT,
        50,
        Range(1),
        "The number of partitions of __transaction_state when it is created.",
    ),
    _config(
        "transaction.state.log.replication.factor",
        SHORT,
        3,
        OneNode(),
        "The number of replicas of __transaction_state: one.",
    ),
    _config("transaction.state.log.min.isr", INT, 2, Range(1), "min.insync.replicas of __transaction_state."),
    _config(
        "transaction.state.log.segment.bytes",
        INT,
        100 * MEBIBYTE,
        Range(MEBIBYTE),
        "The segment size of __transaction_state.",
    ),
    _config(
        "transaction.state.log.load.buffer.size",
        INT,
        5 * MEBIBYTE,
        Range(1),
        "How much of __transaction_state is read at a time when the broker starts.",
    ),
    _config(
        "transaction.max.timeout.ms",
        INT,
        900_000,
        Range(1),
        "The maximum transaction timeout of a producer.",
    ),
    _config(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10_000,
        Range(1),
        "How often timed-out transactions are aborted.",
    ),
    _config(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        3_600_000,
        Range(1),
        "How often expired transactional ids are deleted.",
    ),
    _config(
        "transactional.id.expiration.ms",
        INT,
        WEEK_MS,
        Range(1),
        "The time after which an unused transactional id expires.",
    ),
    _config(
        "transaction.partition.verification.enable",
        BOOLEAN,
        True,
        None,
        "Whether a partition verifies that it is part of a transaction before it accepts records (KIP-890).",
        dynamic=True,
    ),
    _config(
        "transaction.two.phase.commit.enable",
        BOOLEAN,
        False,
        None,
        "Whether producers may take part in two-phase commits (KIP-939).",
    ),
    _config(
        "producer.id.expiration.ms",
        INT,
        DAY_MS,
        Range(1),
        "The time after which a partition forgets an idle idempotent producer.",
        dynamic=True,
    ),
)

COORDINATION_CONFIGS: Final = (*_OFFSETS, *_CLASSIC_GROUPS, *_CONSUMER_GROUPS, *_TRANSACTIONS)
