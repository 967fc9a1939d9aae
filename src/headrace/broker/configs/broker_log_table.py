"""The broker configs about logs: defaults for topics, folders, checkpoints and compaction.

Configs that `topic_table` names as synonyms are defaults for topics without their own value; altering one
affects such topics at once. Invariants and tests: see `broker_table`.
"""

from __future__ import annotations

from typing import Final

from headrace.broker.configs.definition import HOUR_MS, BrokerConfig
from headrace.broker.configs.topic_table import (
    CLEANUP_POLICIES,
    COMPRESSION_TYPES,
    DAY_MS,
    LZ4_LEVELS,
    MEBIBYTE,
    SMALLEST_SEGMENT,
    TIMESTAMP_TYPES,
    TOPIC_CONFIGS,
    ZSTD_LEVELS,
)
from headrace.broker.configs.validators import GzipLevel, ListOf, Range, Validator
from headrace.broker.configs.values import LONGEST, ConfigType, ConfigValue

BOOLEAN, STRING, INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
LONG, DOUBLE, LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST
HOURS_OF_A_WEEK: Final = 168


def _topic_default(
    name: str, kind: ConfigType, default: ConfigValue, topic_config: str, validator: Validator | None = None
) -> BrokerConfig:
    return BrokerConfig(
        name=name,
        type=kind,
        default=default,
        validator=validator,
        dynamic=True,
        inert=TOPIC_CONFIGS[topic_config].inert,
        documentation=f"Default {topic_config} for topics without their own.",
    )


def _in_larger_unit(
    name: str, default: int | None, topic_config: str, validator: Validator | None = None
) -> BrokerConfig:
    unit = name.rpartition(".")[2]
    return BrokerConfig(
        name=name,
        type=INT,
        default=default,
        validator=validator,
        documentation=f"Default {topic_config} for topics without their own, in {unit}; the config of the "
        "same name in a smaller unit takes precedence.",
    )


LOG_CONFIGS: Final = (
    _topic_default("log.segment.bytes", INT, 1024 * MEBIBYTE, "segment.bytes", SMALLEST_SEGMENT),
    _topic_default("log.roll.ms", LONG, None, "segment.ms"),
    _in_larger_unit("log.roll.hours", HOURS_OF_A_WEEK, "segment.ms", Range(1)),
    _topic_default("log.roll.jitter.ms", LONG, None, "segment.jitter.ms"),
    _in_larger_unit("log.roll.jitter.hours", 0, "segment.jitter.ms", Range(0)),
    _topic_default("log.retention.ms", LONG, None, "retention.ms"),
    _in_larger_unit("log.retention.minutes", None, "retention.ms"),
    _in_larger_unit("log.retention.hours", HOURS_OF_A_WEEK, "retention.ms"),
    _topic_default("log.retention.bytes", LONG, -1, "retention.bytes"),
    _topic_default("log.index.size.max.bytes", INT, 10 * MEBIBYTE, "segment.index.bytes", Range(4)),
    _topic_default("log.index.interval.bytes", INT, 4096, "index.interval.bytes", Range(0)),
    _topic_default("log.flush.interval.messages", LONG, LONGEST, "flush.messages", Range(1)),
    _topic_default("log.flush.interval.ms", LONG, None, "flush.ms"),
    _topic_default("log.segment.delete.delay.ms", LONG, 60_000, "file.delete.delay.ms", Range(0)),
    _topic_default("log.cleanup.policy", LIST, ("delete",), "cleanup.policy", CLEANUP_POLICIES),
    _topic_default("log.preallocate", BOOLEAN, False, "preallocate"),
    _topic_default(
        "log.message.timestamp.type", STRING, "CreateTime", "message.timestamp.type", TIMESTAMP_TYPES
    ),
    _topic_default(
        "log.message.timestamp.before.max.ms", LONG, LONGEST, "message.timestamp.before.max.ms", Range(0)
    ),
    _topic_default(
        "log.message.timestamp.after.max.ms", LONG, HOUR_MS, "message.timestamp.after.max.ms", Range(0)
    ),
    _topic_default("log.cleaner.delete.retention.ms", LONG, DAY_MS, "delete.retention.ms", Range(0)),
    _topic_default("log.cleaner.min.compaction.lag.ms", LONG, 0, "min.compaction.lag.ms", Range(0)),
    _topic_default("log.cleaner.max.compaction.lag.ms", LONG, LONGEST, "max.compaction.lag.ms", Range(1)),
    _topic_default("log.cleaner.min.cleanable.ratio", DOUBLE, 0.5, "min.cleanable.dirty.ratio", Range(0, 1)),
    _topic_default("log.local.retention.ms", LONG, -2, "local.retention.ms", Range(-2)),
    _topic_default("log.local.retention.bytes", LONG, -2, "local.retention.bytes", Range(-2)),
    _topic_default("message.max.bytes", INT, MEBIBYTE + 12, "max.message.bytes", Range(0)),
    _topic_default("min.insync.replicas", INT, 1, "min.insync.replicas", Range(1)),
    _topic_default("unclean.leader.election.enable", BOOLEAN, False, "unclean.leader.election.enable"),
    _topic_default("compression.type", STRING, "producer", "compression.type", COMPRESSION_TYPES),
    _topic_default("compression.gzip.level", INT, -1, "compression.gzip.level", GzipLevel()),
    _topic_default("compression.lz4.level", INT, 9, "compression.lz4.level", LZ4_LEVELS),
    _topic_default("compression.zstd.level", INT, 3, "compression.zstd.level", ZSTD_LEVELS),
    BrokerConfig(
        name="log.flush.scheduler.interval.ms",
        type=LONG,
        default=LONGEST,
        documentation="Default flush.ms for topics without their own, unless log.flush.interval.ms is set.",
    ),
    BrokerConfig(
        name="log.dir",
        type=LIST,
        default=("/tmp/kafka-logs",),
        validator=ListOf(),
        inert=True,
        documentation="The folder of the logs if log.dirs is not set; here it always is.",
    ),
    BrokerConfig(
        name="log.dirs",
        type=LIST,
        default=None,
        validator=ListOf(),
        documentation="The folder of the logs: the data folder that the broker was started with.",
    ),
    BrokerConfig(
        name="log.retention.check.interval.ms",
        type=LONG,
        default=300_000,
        validator=Range(1),
        documentation="How often logs are checked for segments that retention deletes.",
    ),
    BrokerConfig(
        name="log.flush.offset.checkpoint.interval.ms",
        type=INT,
        default=60_000,
        validator=Range(0),
        inert=True,
        documentation="How often the recovery point of a log is written. Here every few seconds, for logs "
        "that changed.",
    ),
    BrokerConfig(
        name="log.flush.start.offset.checkpoint.interval.ms",
        type=INT,
        default=60_000,
        validator=Range(0),
        inert=True,
        documentation="How often the first offset of a log is written. Here whenever it changes.",
    ),
    BrokerConfig(
        name="log.dir.failure.timeout.ms",
        type=LONG,
        default=30_000,
        validator=Range(1),
        inert=True,
        documentation="How long the broker waits for a failed folder. Here a log that cannot be written "
        "refuses writes until it can be written again.",
    ),
    BrokerConfig(
        name="log.cleaner.enable",
        type=BOOLEAN,
        default=True,
        documentation="Whether logs with cleanup.policy compact are compacted.",
    ),
    BrokerConfig(
        name="log.cleaner.backoff.ms",
        type=LONG,
        default=15_000,
        validator=Range(0),
        dynamic=True,
        documentation="How long compaction pauses when there is nothing to compact.",
    ),
    BrokerConfig(
        name="log.cleaner.threads",
        type=INT,
        default=1,
        validator=Range(0),
        dynamic=True,
        inert=True,
        documentation="The number of threads that compact. Here it is always one.",
    ),
    BrokerConfig(
        name="log.cleaner.dedupe.buffer.size",
        type=LONG,
        default=128 * MEBIBYTE,
        dynamic=True,
        documentation="The memory that compaction may use for the keys of a log.",
    ),
    BrokerConfig(
        name="log.cleaner.io.buffer.size",
        type=INT,
        default=MEBIBYTE // 2,
        validator=Range(0),
        dynamic=True,
        inert=True,
        documentation="The memory that Apache Kafka's compaction uses to read and write.",
    ),
    BrokerConfig(
        name="log.cleaner.io.buffer.load.factor",
        type=DOUBLE,
        default=0.9,
        dynamic=True,
        inert=True,
        documentation="The maximum load of the key table of Apache Kafka's compaction.",
    ),
    BrokerConfig(
        name="log.cleaner.io.max.bytes.per.second",
        type=DOUBLE,
        default=1.7976931348623157e308,
        dynamic=True,
        documentation="The maximum that compaction reads and writes per second.",
    ),
)
