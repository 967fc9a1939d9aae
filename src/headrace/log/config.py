"""The settings of one partition log, combined from the topic's own settings and the broker's defaults.

Invariants: frozen; the defaults are those of Apache Kafka 4.3. Times are in milliseconds, sizes in bytes; -1
means "no limit" where Kafka uses it. Never parses or checks text: the broker's settings table does that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FOREVER: Final = 2**63 - 1
_DAY_MS: Final = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """One field for each topic setting that has a meaning on a single node, with Kafka's name."""

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    retention_ms: int = 7 * _DAY_MS
    retention_bytes: int = -1
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1048588
    timestamp_type: str = "CreateTime"
    timestamp_before_max_ms: int = FOREVER
    timestamp_after_max_ms: int = 60 * 60 * 1000
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    flush_messages: int = FOREVER
    flush_ms: int = FOREVER
    file_delete_delay_ms: int = 60_000
    preallocate: bool = False
    min_insync_replicas: int = 1
    delete_retention_ms: int = _DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = FOREVER
    min_cleanable_dirty_ratio: float = 0.5

    @property
    def compact(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        return "delete" in self.cleanup_policy


DEFAULT_CONFIG: Final = LogConfig()
