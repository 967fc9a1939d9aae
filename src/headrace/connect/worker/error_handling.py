"""What happens to a record that cannot be converted or taken: the task fails, or the record is skipped and,
for a sink, becomes a dead letter.

Dead letters are the original bytes, with Kafka Connect's headers `__connect.errors.…` if the connector asks
for them. Invariant: a dead letter is acknowledged by the log before anything commits the offset of its
record.
"""

from __future__ import annotations

import logging
import traceback
from typing import Final, Literal

from headrace.client.cluster import Cluster
from headrace.client.reading import Record
from headrace.client.writing import Outgoing, RecordWriter
from headrace.connect.plugins import Config

Stage = Literal["KEY_CONVERTER", "VALUE_CONVERTER", "HEADER_CONVERTER", "TASK_PUT", "KAFKA_PRODUCE"]

_PREFIX: Final = "__connect.errors."
_WRITE_SECONDS: Final = 30.0
_DEFAULT_REPLICAS: Final = 3
_MOST_LOGGED: Final = 1000

_log = logging.getLogger(__name__)


class ToleranceExceededError(Exception):
    """A record failed, and the connector tolerates no errors."""


class ErrorHandling:
    """Belongs to one task. `tolerate` returns if the record may be skipped."""

    def __init__(self, bootstrap: str, *, connector: str, task: int, config: Config) -> None:
        self._bootstrap = bootstrap
        self._connector = connector
        self._task = task
        self._tolerates = config.get("errors.tolerance", "none").strip().lower() == "all"
        self._logs = _is_true(config, "errors.log.enable")
        self._logs_records = _is_true(config, "errors.log.include.messages")
        self._topic = config.get("errors.deadletterqueue.topic.name", "").strip()
        self._with_context = _is_true(config, "errors.deadletterqueue.context.headers.enable")
        self._replicas = int(config.get("errors.deadletterqueue.topic.replication.factor", _DEFAULT_REPLICAS))
        self._writer: RecordWriter | None = None

    def tolerate(
        self, error: Exception, *, stage: Stage, class_name: str, record: Record | None = None
    ) -> None:
        """Raises ToleranceExceededError; log_unavailable or NotAcknowledgedError without a dead letter."""
        if self._logs:
            self._log_error(error, stage, record)
        if record is not None and self._topic:
            self._send(record, error, stage, class_name)
        if not self._tolerates:
            raise ToleranceExceededError("Tolerance exceeded in error handler") from error

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _send(self, record: Record, error: Exception, stage: Stage, class_name: str) -> None:
        if self._writer is None:
            cluster = Cluster(self._bootstrap)
            try:
                if cluster.topic(self._topic) is None:
                    replicas = min(self._replicas, len(cluster.brokers()))
                    cluster.create_topic(self._topic, partitions=1, replicas=replicas)
            finally:
                cluster.close()
            self._writer = RecordWriter(self._bootstrap, timeout_seconds=_WRITE_SECONDS)
        headers = [*(record.headers() or ())]
        if self._with_context:
            headers += self._context(record, error, stage, class_name)
        self._writer.write(
            Outgoing(
                topic=self._topic,
                key=record.key(),
                value=record.value(),
                headers=[(str(name), value if isinstance(value, bytes) else None) for name, value in headers],
                timestamp_ms=timestamp_of(record),
            )
        )

    def _context(
        self, record: Record, error: Exception, stage: Stage, class_name: str
    ) -> list[tuple[str, bytes | None]]:
        values = {
            "topic": record.topic() or "",
            "partition": str(record.partition()),
            "offset": str(record.offset()),
            "connector.name": self._connector,
            "task.id": str(self._task),
            "stage": stage,
            "class.name": class_name,
            "exception.class.name": f"{type(error).__module__}.{type(error).__qualname__}",
            "exception.message": str(error),
            "exception.stacktrace": "".join(traceback.format_exception(error)),
        }
        return [(_PREFIX + name, value.encode("utf-8", "replace")) for name, value in values.items()]

    def _log_error(self, error: Exception, stage: Stage, record: Record | None) -> None:
        place = ""
        if record is not None:
            place = f" of {record.topic()}-{record.partition()} at {record.offset()}"
            if self._logs_records:
                place += f" (key {_shown(record.key())}, value {_shown(record.value())})"
        _log.error(
            "Connector %s, task %d: %s of a record%s failed: %s",
            self._connector,
            self._task,
            stage,
            place,
            error,
        )


def timestamp_of(record: Record) -> int | None:
    kind, milliseconds = record.timestamp()
    return milliseconds if kind else None


def _is_true(config: Config, name: str) -> bool:
    return config.get(name, "false").strip().lower() == "true"


def _shown(data: bytes | str | None) -> str:
    return repr(data[:_MOST_LOGGED]) if data is not None else "null"
