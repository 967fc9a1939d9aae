"""Apache Kafka's own log cleaner, called directly on the folder of a partition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.log.config import LogConfig
from tests.conformance.java_tools import JavaTools

_MEMORY = 1 << 20


class _NeverDone:
    """Java's `Consumer<TopicPartition>`, which could stop a cleaning by raising; this one never does."""

    def accept(self, partition: Any) -> None: ...

    class Java:
        implements = ("java.util.function.Consumer",)


class KafkaCleaner:
    """`Cleaner` and the logs that it cleans, in one JVM."""

    def __init__(self, tools: JavaTools) -> None:
        self._jvm = tools.jvm
        self._kafka = tools.jvm.org.apache.kafka
        self._log = self._kafka.storage.internals.log

    def clean(
        self, folder: Path, config: LogConfig, *, first_dirty: int, end_offset: int, now_ms: int
    ) -> int:
        """Clean a log that nobody has open. Return the offset before which it is clean."""
        log = self._open(folder, config)
        time = self._kafka.common.utils.Time.SYSTEM
        throttler = self._kafka.storage.internals.utils.Throttler(1e300, 300, "cleaner-io", "bytes", time)
        cleaner = self._log.Cleaner(
            0, self._log.SkimpyOffsetMap(_MEMORY), 1 << 16, 1 << 20, 0.9, throttler, time, _NeverDone()
        )
        try:
            to_clean = self._log.LogToClean(log, first_dirty, end_offset, False)
            cleaned: int = cleaner.doClean(to_clean, now_ms).getKey()
            return cleaned
        finally:
            log.close()

    def _open(self, folder: Path, config: LogConfig) -> Any:
        properties = self._jvm.java.util.HashMap()
        for name, value in {
            "cleanup.policy": "compact",
            "segment.bytes": config.segment_bytes,
            "index.interval.bytes": config.index_interval_bytes,
            "delete.retention.ms": config.delete_retention_ms,
            "file.delete.delay.ms": 0,
        }.items():
            properties.put(name, str(value))
        time = self._kafka.common.utils.Time.SYSTEM
        return self._log.UnifiedLog.create(
            self._jvm.java.io.File(str(folder)),
            self._log.LogConfig(properties),
            0,
            0,
            self._kafka.server.util.KafkaScheduler(1),
            self._kafka.storage.log.metrics.BrokerTopicStats(False),
            time,
            900_000,
            self._log.ProducerStateManagerConfig(2**31 - 1, False),
            600_000,
            self._log.LogDirFailureChannel(1),
            True,
            self._jvm.java.util.Optional.empty(),
        )
