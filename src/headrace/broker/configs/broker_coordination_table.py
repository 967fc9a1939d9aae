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
        "How many partitions __consumer_offsets is made with.",
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
        "Offsets go this long after their group lost its last member.",
    ),
    _config(
        "offsets.retention.check.interval.ms",
        LONG,
        600_000,
        Range(1),
        "How often offsets that have expired go.",
    ),
    _config(
        "offset.metadata.max.bytes", INT, 4096, None, "The longest text that may be committed with an offset."
    ),
    _config(
        "offsets.commit.timeout.ms",
        INT,
        5_000,
        Range(1),
        "How long a commit may take until it is written.",
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
    _config(
        "group.min.session.timeout.ms", INT, 6_000, None, "The shortest session timeout a member may ask for."
    ),
    _config(
        "group.max.session.timeout.ms",
        INT,
        1_800_000,
        None,
        "The longest session timeout a member may ask for.",
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
        "When a member that does not send heartbeats is taken out of its group (KIP-848).",
    ),
    _config(
        "group.consumer.min.session.timeout.ms",
        INT,
        45_000,
        Range(1),
        "The shortest session timeout.",
        inert=True,
    ),
    _config(
        "group.consumer.max.session.timeout.ms",
        INT,
        60_000,
        Range(1),
        "The longest session timeout.",
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
        "The shortest heartbeat interval.",
        inert=True,
    ),
    _config(
        "group.consumer.max.heartbeat.interval.ms",
        INT,
        15_000,
        Range(1),
        "The longest heartbeat interval.",
        inert=True,
    ),
    _config("group.consumer.max.size", INT, LARGEST_INT, Range(1), "How many members a group may have."),
    _config(
        "group.consumer.assignors",
        LIST,
        ("uniform", "range"),
        ListOf(),
        "How the broker divides partitions among members; the first is the default.",
    ),
    _config(
        "group.consumer.migration.policy",
        STRING,
        "bidirectional",
        OneOfAnyCase(("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL")),
        "Whether a group may change between the classic protocol and the newer one while it is in use.",
    ),
    _config(
        "group.consumer.assignment.interval.ms",
        INT,
        1_000,
        Range(0),
        "How long assignments of a group stay before they are computed anew.",
        dynamic=True,
        inert=True,
    ),
    _config(
        "group.consumer.min.assignment.interval.ms",
        INT,
        0,
        Range(0),
        "The shortest assignment interval.",
        inert=True,
    ),
    _config(
        "group.consumer.max.assignment.interval.ms",
        INT,
        15_000,
        Range(0),
        "The longest assignment interval.",
        inert=True,
    ),
)

_TRANSACTIONS: Final = (
    _config(
        "transaction.state.log.num.partitions",
        INT,
        50,
        Range(1),
        "How many partitions __transaction_state is made with.",
    ),
    _config(
        "transaction.state.log.replication.factor",
        SHORT,
        3,
        OneNode(),
        "Replicas of __transaction_state: one.",
    ),
    _config("transaction.state.log.min.isr", INT, 2, Range(1), "min.insync.replicas of __transaction_state."),
    _config(
        "transaction.state.log.segment.bytes",
        INT,
        100 * MEBIBYTE,
        Range(MEBIBYTE),
        "Segment size of __transaction_state.",
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
        "The longest transaction a producer may ask for.",
    ),
    _config(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10_000,
        Range(1),
        "How often transactions that ran out of time are aborted.",
    ),
    _config(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        3_600_000,
        Range(1),
        "How often transactional ids that have expired go.",
    ),
    _config(
        "transactional.id.expiration.ms",
        INT,
        WEEK_MS,
        Range(1),
        "An unused transactional id is forgotten after this.",
    ),
    _config(
        "transaction.partition.verification.enable",
        BOOLEAN,
        True,
        None,
        "Whether a partition checks that a transaction knows of it before it takes its records (KIP-890).",
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
        "What a partition knows of an idempotent producer goes this long after its last record.",
        dynamic=True,
    ),
)

COORDINATION_CONFIGS: Final = (*_OFFSETS, *_CLASSIC_GROUPS, *_CONSUMER_GROUPS, *_TRANSACTIONS)
