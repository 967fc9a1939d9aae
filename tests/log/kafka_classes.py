"""The classes of Apache Kafka that do what `log.append_rules` and `log.producer_state` do, called directly.

They run in the JVM of the tests' Java tools, without a broker: `LogValidator` for what a topic asks of a
batch, `ProducerStateManager` for idempotent producers, `MemoryRecordsBuilder` for batches as Java's producer
writes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.java_gateway import get_field
from py4j.protocol import Py4JJavaError

from headrace.log.config import LogConfig
from headrace.wire.records import Record
from tests.conformance.java_tools import JavaTools

CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Kafka's verdict on a batch: the batch as written, or the name of the error with its texts."""

    batch: bytes | None = None
    refusal: str = ""
    message: str = ""
    records: tuple[tuple[int, str], ...] = ()


class _StoppedClock:
    """Java's `Time`, standing still. Numbers are too large for an int on purpose: Java casts them to long."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def milliseconds(self) -> int:
        return self._now_ms

    def nanoseconds(self) -> int:
        return self._now_ms * 1_000_000

    def hiResClockMs(self) -> int:  # noqa: N802 - Java's name
        return self._now_ms

    class Java:
        implements = ("org.apache.kafka.common.utils.Time",)


class _NoMetrics:
    """Java's `LogValidator.MetricsRecorder`."""

    def recordInvalidMagic(self) -> None: ...  # noqa: N802
    def recordInvalidOffset(self) -> None: ...  # noqa: N802
    def recordInvalidSequence(self) -> None: ...  # noqa: N802
    def recordInvalidChecksums(self) -> None: ...  # noqa: N802
    def recordNoKeyCompactedTopic(self) -> None: ...  # noqa: N802

    class Java:
        implements = ("org.apache.kafka.storage.internals.log.LogValidator$MetricsRecorder",)


class KafkaClasses:
    """These classes in one JVM, for the partition `events-0`."""

    def __init__(self, tools: JavaTools) -> None:
        self.tools = tools
        jvm = tools.jvm
        self._kafka = jvm.org.apache.kafka
        self._java = jvm.java
        self._partition = self._kafka.common.TopicPartition("events", 0)

    def build_batch(self, records: Sequence[Record], compression: int, base_timestamp: int) -> bytes:
        """The batch that Java's producer would send."""
        internal = self._kafka.common.record.internal
        buffer = self._java.nio.ByteBuffer.allocate(1 << 20)
        builder = internal.MemoryRecords.builder(
            buffer, self._codec(compression), self._kafka.common.record.TimestampType.CREATE_TIME, 0
        )
        for record in records:
            headers = [
                self._kafka.common.header.internals.RecordHeader(key.decode(), value)
                for key, value in record.headers
            ]
            array = self.tools.jvm.java.lang.reflect.Array.newInstance(
                self._java.lang.Class.forName("org.apache.kafka.common.header.Header"), len(headers)
            )
            for index, header in enumerate(headers):
                array[index] = header
            key = None if record.key is None else self._java.nio.ByteBuffer.wrap(record.key)
            value = None if record.value is None else self._java.nio.ByteBuffer.wrap(record.value)
            builder.append(base_timestamp + record.timestamp_delta, key, value, array)
        return self._bytes(builder.build().buffer())

    def values_in(self, batch: bytes) -> list[bytes | None]:
        """The values of the records in a record set, decompressed by Java."""
        values = []
        records = self._records(batch).records().iterator()
        while records.hasNext():
            record = records.next()
            values.append(self._bytes(record.value()) if record.hasValue() else None)
        return values

    def validate(self, batch: bytes, config: LogConfig, now_ms: int) -> Verdict:
        """`LogValidator`'s result for a client's batch, on a topic with these settings."""
        records = self._records(batch)
        internal = self._kafka.common.record.internal
        source = internal.CompressionType.forId(batch[22] & 7)
        wanted = config.compression_type
        if wanted == "producer":
            target = self._kafka.common.compress.Compression.of(source).build()
        else:
            target = self._codec(0 if wanted == "uncompressed" else CODEC_NAMES.index(wanted))
        timestamp_types = self._kafka.common.record.TimestampType
        validator = self._kafka.storage.internals.log.LogValidator(
            records,
            self._partition,
            _StoppedClock(now_ms),
            source,
            target,
            "compact" in config.cleanup_policy,
            2,
            timestamp_types.forName(config.timestamp_type),
            config.timestamp_before_max_ms,
            config.timestamp_after_max_ms,
            -1,
            self._kafka.storage.internals.log.AppendOrigin.CLIENT,
        )
        try:
            result = validator.validateMessagesAndAssignOffsets(
                self._kafka.common.utils.PrimitiveRef.ofLong(0),
                _NoMetrics(),
                self._kafka.common.utils.BufferSupplier.NO_CACHING,
            )
        except Py4JJavaError as error:
            return _refusal(error.java_exception)
        return Verdict(batch=self._bytes(result.validatedRecords().buffer()))

    def producers(self, folder: Path) -> KafkaProducers:
        return KafkaProducers(self, folder)

    def batch(self, batch: bytes) -> Any:
        return self._records(batch).batches().iterator().next()

    def producer_state_manager(self, folder: Path) -> Any:
        storage = self._kafka.storage.internals.log
        return storage.ProducerStateManager(
            self._partition,
            self._java.io.File(str(folder)),
            900_000,
            storage.ProducerStateManagerConfig(86_400_000, False),
            self._kafka.common.utils.Time.SYSTEM,
        )

    @property
    def client_origin(self) -> Any:
        return self._kafka.storage.internals.log.AppendOrigin.CLIENT

    @property
    def nothing(self) -> Any:
        return self._java.util.Optional.empty()

    def duplicate(self, entry: Any, batch: Any) -> tuple[int, int, int] | None:
        """`findDuplicateBatch` is not public."""
        kind = self._java.lang.Class.forName("org.apache.kafka.common.record.internal.RecordBatch")
        parameters = self._java.lang.reflect.Array.newInstance(
            self._java.lang.Class.forName("java.lang.Class"), 1
        )
        parameters[0] = kind
        method = entry.getClass().getDeclaredMethod("findDuplicateBatch", parameters)
        method.setAccessible(True)
        arguments = self._java.lang.reflect.Array.newInstance(
            self._java.lang.Class.forName("java.lang.Object"), 1
        )
        arguments[0] = batch
        found = method.invoke(entry, arguments)
        if not found.isPresent():
            return None
        metadata = found.get()
        return metadata.firstOffset(), metadata.lastOffset(), metadata.timestamp()

    def _records(self, batch: bytes) -> Any:
        buffer = self._java.nio.ByteBuffer.wrap(bytearray(batch))
        return self._kafka.common.record.internal.MemoryRecords.readableRecords(buffer)

    def _codec(self, compression: int) -> Any:
        return self._kafka.common.compress.Compression.of(CODEC_NAMES[compression]).build()

    def _bytes(self, buffer: Any) -> bytes:
        return bytes(self._kafka.common.utils.Utils.toArray(buffer))


class KafkaProducers:
    """Kafka's producer state of one partition, with the checks of Kafka's log around it."""

    def __init__(self, classes: KafkaClasses, folder: Path) -> None:
        self._classes = classes
        self._manager = classes.producer_state_manager(folder)

    def append(self, batch: bytes) -> str | tuple[int, int, int]:
        """`new`, the place of the same batch, or the error; new batches are remembered."""
        java_batch = self._classes.batch(batch)
        known = self._manager.lastEntry(java_batch.producerId())
        if known.isPresent():
            duplicate = self._classes.duplicate(known.get(), java_batch)
            if duplicate is not None:
                return duplicate
        update = self._manager.prepareUpdate(java_batch.producerId(), self._classes.client_origin)
        try:
            update.append(java_batch, self._classes.nothing)
        except Py4JJavaError as error:
            refusal = _refusal(error.java_exception)
            return f"{refusal.refusal}: {refusal.message}"
        self._manager.update(update)
        self._manager.updateMapEndOffset(java_batch.lastOffset() + 1)
        return "new"

    def take_snapshot(self) -> None:
        self._manager.takeSnapshot()


def _refusal(error: Any) -> Verdict:
    name = error.getClass().getSimpleName()
    if name != "RecordValidationException":
        return Verdict(refusal=name, message=error.getMessage())
    cause = error.invalidException()
    return Verdict(
        refusal=cause.getClass().getSimpleName(),
        message=cause.getMessage(),
        records=tuple(
            (get_field(each, "batchIndex"), get_field(each, "message")) for each in error.recordErrors()
        ),
    )
