"""Every topic config of Apache Kafka 4.3.1, in the order in which Kafka checks them.

Invariants: `tests/broker/test_configs_against_kafka.py` compares names, types, defaults, checks and synonyms
with a live Apache Kafka. A config that fills a field of LogConfig acts; the others are `inert`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from headrace.broker.configs.definition import HOUR_MS, MINUTE_MS, Synonym, TopicConfig
from headrace.broker.configs.validators import GzipLevel, ListOf, OneOf, Range, ThrottledReplicas
from headrace.broker.configs.values import LONGEST, ConfigType

BOOLEAN, STRING, INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
LONG, DOUBLE, LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST

DAY_MS: Final = 24 * HOUR_MS
WEEK_MS: Final = 7 * DAY_MS
MEBIBYTE: Final = 1024 * 1024

TIMESTAMP_TYPES: Final = OneOf(("CreateTime", "LogAppendTime"))
COMPRESSION_TYPES: Final = OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"))
CLEANUP_POLICIES: Final = ListOf(("compact", "delete"))
LZ4_LEVELS: Final = Range(1, 17)
ZSTD_LEVELS: Final = Range(-131072, 22)
# Smaller segments would make too many files (KIP-1030).
SMALLEST_SEGMENT: Final = Range(MEBIBYTE)


def _same(name: str) -> tuple[Synonym, ...]:
    return (Synonym(name=name),)


_ALL: Final = (
    TopicConfig(
        name="segment.bytes",
        type=INT,
        default=1024 * MEBIBYTE,
        validator=SMALLEST_SEGMENT,
        synonyms=_same("log.segment.bytes"),
        field="segment_bytes",
        documentation="The maximum size of a segment file. When it is full, a new segment begins. "
        "Retention and compaction work on closed segments.",
    ),
    TopicConfig(
        name="segment.ms",
        type=LONG,
        default=WEEK_MS,
        validator=Range(1),
        synonyms=(Synonym(name="log.roll.ms"), Synonym(name="log.roll.hours", factor=HOUR_MS)),
        field="segment_ms",
        documentation="The time after which a segment is closed even if it is not full, so that retention "
        "and compaction can work on it.",
    ),
    TopicConfig(
        name="segment.jitter.ms",
        type=LONG,
        default=0,
        validator=Range(0),
        synonyms=(
            Synonym(name="log.roll.jitter.ms"),
            Synonym(name="log.roll.jitter.hours", factor=HOUR_MS),
        ),
        field="segment_jitter_ms",
        documentation="The maximum random time by which segment.ms is shortened, so that partitions do not "
        "all begin new segments at the same moment.",
    ),
    TopicConfig(
        name="segment.index.bytes",
        type=INT,
        default=10 * MEBIBYTE,
        validator=Range(4),
        synonyms=_same("log.index.size.max.bytes"),
        field="segment_index_bytes",
        documentation="The maximum size of a segment's index. When it is full, a new segment begins.",
    ),
    TopicConfig(
        name="flush.messages",
        type=LONG,
        default=LONGEST,
        validator=Range(1),
        synonyms=_same("log.flush.interval.messages"),
        field="flush_messages",
        documentation="The number of records after which the log is synced to disk. By default the "
        "operating system and the broker's fsync setting decide.",
    ),
    TopicConfig(
        name="flush.ms",
        type=LONG,
        default=LONGEST,
        validator=Range(0),
        synonyms=(Synonym(name="log.flush.interval.ms"), Synonym(name="log.flush.scheduler.interval.ms")),
        field="flush_ms",
        documentation="The time after which new records are synced to disk. By default the operating "
        "system and the broker's fsync setting decide.",
    ),
    TopicConfig(
        name="retention.bytes",
        type=LONG,
        default=-1,
        synonyms=_same("log.retention.bytes"),
        field="retention_bytes",
        documentation="With cleanup.policy delete: the oldest segments of a partition are deleted while "
        "the rest still has this many bytes. Negative: no limit. It applies to each "
        "partition.",
    ),
    TopicConfig(
        name="retention.ms",
        type=LONG,
        default=WEEK_MS,
        validator=Range(-1),
        synonyms=(
            Synonym(name="log.retention.ms"),
            Synonym(name="log.retention.minutes", factor=MINUTE_MS),
            Synonym(name="log.retention.hours", factor=HOUR_MS),
        ),
        field="retention_ms",
        documentation="With cleanup.policy delete: a segment whose newest record is older than this is "
        "deleted. -1: no limit.",
    ),
    TopicConfig(
        name="max.message.bytes",
        type=INT,
        default=MEBIBYTE + 12,
        validator=Range(0),
        synonyms=_same("message.max.bytes"),
        field="max_message_bytes",
        documentation="The maximum size of a batch of records, after compression, that a partition accepts.",
    ),
    TopicConfig(
        name="index.interval.bytes",
        type=INT,
        default=4096,
        validator=Range(0),
        synonyms=_same("log.index.interval.bytes"),
        field="index_interval_bytes",
        documentation="The index gets an entry about every this many bytes of the log. A smaller value "
        "finds records faster and makes the index larger.",
    ),
    TopicConfig(
        name="delete.retention.ms",
        type=LONG,
        default=DAY_MS,
        validator=Range(0),
        synonyms=_same("log.cleaner.delete.retention.ms"),
        field="delete_retention_ms",
        documentation="With cleanup.policy compact: how long a tombstone is kept for consumers that read "
        "from the beginning.",
    ),
    TopicConfig(
        name="min.compaction.lag.ms",
        type=LONG,
        default=0,
        validator=Range(0),
        synonyms=_same("log.cleaner.min.compaction.lag.ms"),
        field="min_compaction_lag_ms",
        documentation="With cleanup.policy compact: the minimum time that a record is kept.",
    ),
    TopicConfig(
        name="max.compaction.lag.ms",
        type=LONG,
        default=LONGEST,
        validator=Range(1),
        synonyms=_same("log.cleaner.max.compaction.lag.ms"),
        field="max_compaction_lag_ms",
        documentation="With cleanup.policy compact: the maximum time until a record can be compacted.",
    ),
    TopicConfig(
        name="file.delete.delay.ms",
        type=LONG,
        default=60_000,
        validator=Range(0),
        synonyms=_same("log.segment.delete.delay.ms"),
        field="file_delete_delay_ms",
        documentation="Files that are no longer needed are renamed first and deleted after this time.",
    ),
    TopicConfig(
        name="min.cleanable.dirty.ratio",
        type=DOUBLE,
        default=0.5,
        validator=Range(0, 1),
        synonyms=_same("log.cleaner.min.cleanable.ratio"),
        field="min_cleanable_dirty_ratio",
        documentation="With cleanup.policy compact: a log is compacted when at least this fraction of it "
        "has not been compacted yet. A smaller value saves space and costs more work.",
    ),
    TopicConfig(
        name="cleanup.policy",
        type=LIST,
        default=("delete",),
        validator=CLEANUP_POLICIES,
        synonyms=_same("log.cleanup.policy"),
        field="cleanup_policy",
        documentation="What happens to old records: delete removes old segments by time and size, compact "
        "keeps the newest record of each key; both can be combined. Empty keeps everything "
        "(KIP-1161).",
    ),
    TopicConfig(
        name="unclean.leader.election.enable",
        type=BOOLEAN,
        default=False,
        synonyms=_same("unclean.leader.election.enable"),
        inert=True,
        documentation="Whether a replica that lags behind may become the leader, which loses records. One "
        "node has one replica, so there is nothing to elect.",
    ),
    TopicConfig(
        name="min.insync.replicas",
        type=INT,
        default=1,
        validator=Range(1),
        synonyms=_same("min.insync.replicas"),
        field="min_insync_replicas",
        inert=True,
        documentation="The number of replicas that must have a record before it counts as written with "
        "acks=all; on one node that is one.",
    ),
    TopicConfig(
        name="compression.type",
        type=STRING,
        default="producer",
        validator=COMPRESSION_TYPES,
        synonyms=_same("compression.type"),
        field="compression_type",
        documentation="How batches are stored: producer keeps the producer's compression, uncompressed "
        "removes it, gzip, snappy, lz4 and zstd recompress batches that use another codec.",
    ),
    TopicConfig(
        name="compression.gzip.level",
        type=INT,
        default=-1,
        validator=GzipLevel(),
        synonyms=_same("compression.gzip.level"),
        field="compression_gzip_level",
        documentation="The level when the broker compresses with gzip (KIP-390).",
    ),
    TopicConfig(
        name="compression.lz4.level",
        type=INT,
        default=9,
        validator=LZ4_LEVELS,
        synonyms=_same("compression.lz4.level"),
        field="compression_lz4_level",
        documentation="The level when the broker compresses with lz4 (KIP-390).",
    ),
    TopicConfig(
        name="compression.zstd.level",
        type=INT,
        default=3,
        validator=ZSTD_LEVELS,
        synonyms=_same("compression.zstd.level"),
        field="compression_zstd_level",
        documentation="The level when the broker compresses with zstd (KIP-390).",
    ),
    TopicConfig(
        name="preallocate",
        type=BOOLEAN,
        default=False,
        synonyms=_same("log.preallocate"),
        field="preallocate",
        inert=True,
        documentation="Whether a new segment takes its full size on disk at once. Here segments always grow.",
    ),
    TopicConfig(
        name="message.timestamp.type",
        type=STRING,
        default="CreateTime",
        validator=TIMESTAMP_TYPES,
        synonyms=_same("log.message.timestamp.type"),
        field="timestamp_type",
        documentation="CreateTime keeps the producer's timestamps, LogAppendTime replaces them with the "
        "time at which the broker wrote the batch.",
    ),
    TopicConfig(
        name="message.timestamp.before.max.ms",
        type=LONG,
        default=LONGEST,
        validator=Range(0),
        synonyms=_same("log.message.timestamp.before.max.ms"),
        field="timestamp_before_max_ms",
        documentation="With CreateTime: records with a timestamp further in the past are refused (KIP-937).",
    ),
    TopicConfig(
        name="message.timestamp.after.max.ms",
        type=LONG,
        default=HOUR_MS,
        validator=Range(0),
        synonyms=_same("log.message.timestamp.after.max.ms"),
        field="timestamp_after_max_ms",
        documentation="With CreateTime: records with a timestamp further in the future are refused "
        "(KIP-937).",
    ),
    TopicConfig(
        name="leader.replication.throttled.replicas",
        type=LIST,
        default=(),
        validator=ThrottledReplicas(),
        inert=True,
        documentation="Replicas whose replication is throttled at the leader. One node replicates nothing.",
    ),
    TopicConfig(
        name="follower.replication.throttled.replicas",
        type=LIST,
        default=(),
        validator=ThrottledReplicas(),
        inert=True,
        documentation="Replicas whose replication is throttled at the follower. One node replicates nothing.",
    ),
    TopicConfig(
        name="remote.storage.enable",
        type=BOOLEAN,
        default=False,
        inert=True,
        documentation="Whether closed segments move to remote storage (KIP-405). Refused here, as in "
        "Apache Kafka without tiered storage.",
    ),
    TopicConfig(
        name="local.retention.ms",
        type=LONG,
        default=-2,
        validator=Range(-2),
        synonyms=_same("log.local.retention.ms"),
        inert=True,
        documentation="How long segments that are also in remote storage are kept. There is no remote "
        "storage.",
    ),
    TopicConfig(
        name="local.retention.bytes",
        type=LONG,
        default=-2,
        validator=Range(-2),
        synonyms=_same("log.local.retention.bytes"),
        inert=True,
        documentation="How many bytes that are also in remote storage are kept. There is no remote storage.",
    ),
    TopicConfig(
        name="remote.log.copy.disable",
        type=BOOLEAN,
        default=False,
        inert=True,
        documentation="Whether copying to remote storage stops. There is no remote storage.",
    ),
    TopicConfig(
        name="remote.log.delete.on.disable",
        type=BOOLEAN,
        default=False,
        inert=True,
        documentation="Whether turning remote storage off deletes its contents. There is no remote storage.",
    ),
    TopicConfig(
        name="internal.segment.bytes",
        type=INT,
        default=None,
        validator=Range(1),
        internal=True,
        field="segment_bytes",
        documentation="Replaces segment.bytes, without its lower limit. For tests.",
    ),
)

TOPIC_CONFIGS: Final[Mapping[str, TopicConfig]] = MappingProxyType({each.name: each for each in _ALL})
