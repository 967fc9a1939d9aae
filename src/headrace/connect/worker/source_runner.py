"""Runs a source task: polls it, writes its records to the log, and commits how far it has come.

Invariants: an offset is committed only after the log has acknowledged its record and all records before it,
so after a crash nothing is missing (at least once; what was written since the last commit comes again); if
the task fails, what the log has acknowledged is still committed, but the task is not told so; records keep
their order: if one is not acknowledged, it and all behind it are written again. While the log is away the
task waits. Never commits anything of an abandoned task.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from headrace.client.errors import KafkaError, is_refused_record
from headrace.client.writing import ANY_PARTITION, Outcome, Outgoing, RecordWriter
from headrace.connect.data import RetriableError, SinkRecord, SourceRecord
from headrace.connect.overrides import overrides
from headrace.connect.plugins import SourceTask
from headrace.connect.worker.error_handling import Stage
from headrace.connect.worker.new_topics import NewTopics
from headrace.connect.worker.parts import converter_of
from headrace.connect.worker.task_runner import RETRY_SECONDS, TaskRunner
from headrace.core.errors import HeadraceError

# Then the producer gives up on a record, and the task tries again with another producer.
_WRITE_SECONDS: Final = 10.0
# So many are written before the first is waited for.
_CHUNK: Final = 2000
# A task that has nothing to give and does not wait would take a whole core.
_IDLE_SECONDS: Final = 0.01

_log = logging.getLogger(__name__)


class SourceRunner(TaskRunner):
    """See the module's text."""

    def run_task(self) -> None:
        self._keys = converter_of("key", self.config, self.plugin, self.parts)
        self._values = converter_of("value", self.config, self.plugin, self.parts)
        self._headers = converter_of("header", self.config, self.plugin, self.parts)
        # By the partition as JSON: the partition and the newest offset in it that is not committed yet.
        self._uncommitted: dict[str, tuple[Mapping[str, Any], Mapping[str, Any] | None]] = {}
        self._topics = NewTopics(self.parts.bootstrap, self.config)
        more = {**self.parts.clients.get("producer", {}), **overrides(self.config, "producer")}
        self._writer = RecordWriter(
            self.parts.bootstrap, timeout_seconds=_WRITE_SECONDS, more=cast(Mapping[str, Any], more)
        )
        task = cast(SourceTask, self.plugin.new_task()) if self.plugin.new_task is not None else None
        assert task is not None
        self._is_delivered = True
        is_done = False
        try:
            task.start(self.config, self)
            self.say("RUNNING")
            self._work(task)
            self._commit(task)
            is_done = True
        finally:
            try:
                if not is_done:
                    self._commit_offsets()
                task.stop()
            finally:
                self._writer.close()
                self._topics.close()

    def report(self, record: SinkRecord, error: Exception) -> None:  # noqa: ARG002
        raise TypeError("a source has no records of a sink")

    def _work(self, task: SourceTask) -> None:
        next_commit = time.monotonic() + self.parts.offset_flush_seconds
        while not self.must_stop:
            if self.wants_pause:
                self._commit(task)
                self.say("PAUSED")
                self.wait_while_paused()
                if not self.must_stop:
                    self.say("RUNNING")
                continue
            try:
                records = task.poll()
            except RetriableError as error:
                _log.info("task %s-%d asks to be polled again: %s", self.connector, self.number, error)
                self.wait(RETRY_SECONDS)
                continue
            if records:
                self._is_delivered = False
                self._is_delivered = self._deliver(records)
            else:
                self.wait(_IDLE_SECONDS)
            if time.monotonic() >= next_commit:
                self._commit(task)
                next_commit = time.monotonic() + self.parts.offset_flush_seconds

    def _deliver(self, records: Sequence[SourceRecord]) -> bool:
        """False if the task had to stop before all were written."""
        for start in range(0, len(records), _CHUNK):
            chunk = records[start : start + _CHUNK]
            pending = [(record, converted) for record in chunk if (converted := self._converted(record))]
            if not self._write(pending):
                return False
            for record in chunk:
                if record.source_partition is not None:
                    partition = json.dumps(record.source_partition, sort_keys=True)
                    self._uncommitted[partition] = (record.source_partition, record.source_offset)
        return True

    def _converted(self, record: SourceRecord) -> Outgoing | None:
        """None if the record may be skipped."""
        stage: Stage = "KEY_CONVERTER"
        used = self._keys
        try:
            key = used.converter.to_bytes(record.key_schema, record.key)
            stage, used = "VALUE_CONVERTER", self._values
            value = used.converter.to_bytes(record.value_schema, record.value)
            stage, used = "HEADER_CONVERTER", self._headers
            headers = [
                (each, self._headers.converter.to_bytes(schema, it)) for each, it, schema in record.headers
            ]
        except Exception as error:
            self.errors.tolerate(error, stage=stage, class_name=used.class_name)
            return None
        return Outgoing(
            topic=record.topic,
            key=key,
            value=value,
            partition=ANY_PARTITION if record.partition is None else record.partition,
            headers=headers,
            timestamp_ms=record.timestamp_ms,
        )

    def _write(self, pending: list[tuple[SourceRecord, Outgoing]]) -> bool:
        """Write all, however long it takes; False if the task had to stop before."""
        while pending:
            if self.is_abandoned:
                return False
            try:
                for topic in {outgoing.topic for _, outgoing in pending}:
                    self._topics.ensure(topic)
                    # Each time: somebody may have reset what is known.
                    self.parts.statuses.put_topic(self.connector, self.number, topic)
            except HeadraceError as error:
                if error.code != "log_unavailable":
                    raise
                trouble = str(error)
            else:
                outcomes = self._writer.write_all([outgoing for _, outgoing in pending])
                trouble = self._keep_unwritten(pending, outcomes)
                if not pending:
                    return True
            if self.must_stop:
                return False
            _log.warning("task %s-%d waits for the log: %s", self.connector, self.number, trouble)
            self._topics.forget()
            self.wait(RETRY_SECONDS)
        return True

    def _keep_unwritten(self, pending: list[tuple[SourceRecord, Outgoing]], outcomes: list[Outcome]) -> str:
        """Drop what the log has, and what it will never take; why the rest has to be written again.

        The rest begins with the first record that may still be written, so records keep their order.
        """
        refused = {
            number: each
            for number, each in enumerate(outcomes)
            if isinstance(each, KafkaError) and is_refused_record(each)
        }
        for error in refused.values():
            self.errors.tolerate(
                ValueError(f"the log refuses a record: {error.str()}"),
                stage="KAFKA_PRODUCE",
                class_name=self.plugin.class_name,
            )
        for number, each in enumerate(outcomes):
            if isinstance(each, KafkaError) and number not in refused:
                pending[:] = [
                    it for place, it in enumerate(pending) if place >= number and place not in refused
                ]
                return each.str()
        pending.clear()
        return ""

    def _commit(self, task: SourceTask) -> None:
        """What cannot be written now is written with the next commit."""
        if self._uncommitted and self._commit_offsets() and self._is_delivered:
            task.commit()

    def _commit_offsets(self) -> bool:
        """Whether all are written."""
        try:
            for text, (partition, offset) in list(self._uncommitted.items()):
                # Writing may take long, and the next task may have begun meanwhile.
                if self.is_abandoned:
                    return False
                self.parts.offsets.put(self.connector, partition, offset)
                del self._uncommitted[text]
        except HeadraceError as error:
            _log.warning("task %s-%d could not commit: %s", self.connector, self.number, error)
            return False
        return not self.is_abandoned
