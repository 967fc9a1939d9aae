"""Runs a sink task: reads its topics as a member of the group `connect-<name>`, converts the records, hands
them to the task, and commits what the task has flushed.

Invariants: an offset is committed only after the task has flushed everything before it, so after a crash
nothing is missing (at least once); a record that is skipped is a dead letter first, if the connector has a
topic for them; partitions that the group takes away are flushed and committed before they go, and never after
that; once anything has failed, nothing is committed any more, since a second flush may succeed although the
first has lost what was written. A task that asks to be asked again (RetriableError) gets the same records
again, while it stays a member of its group.
"""

from __future__ import annotations

import logging
import time
from typing import Final, cast

import re2

from headrace.client.cluster import Cluster
from headrace.client.group_reading import GroupReader
from headrace.client.reading import Record
from headrace.client.topics import Partition
from headrace.connect.data import Header, RetriableError, SinkRecord
from headrace.connect.overrides import MAX_POLL_RECORDS, overrides
from headrace.connect.plugins import Config, SinkTask
from headrace.connect.worker.error_handling import Stage, timestamp_of
from headrace.connect.worker.parts import NamedConverter, converter_of
from headrace.connect.worker.task_runner import RETRY_SECONDS, TaskRunner
from headrace.core.errors import HeadraceError

_POLL_SECONDS: Final = 0.2
_MOST_RECORDS: Final = 500
# How often topics that match an expression are looked for.
_LOOK_SECONDS: Final = 2.0
_INTERNAL: Final = "__"

_log = logging.getLogger(__name__)


def group_of(connector: str) -> str:
    """The consumer group of a sink."""
    return f"connect-{connector}"


class SinkRunner(TaskRunner):
    """See the module's text."""

    def run_task(self) -> None:
        self._keys = converter_of("key", self.config, self.plugin, self.parts)
        self._values = converter_of("value", self.config, self.plugin, self.parts)
        self._headers = converter_of("header", self.config, self.plugin, self.parts)
        self._positions: dict[Partition, int] = {}
        # What the task has now, for dead letters.
        self._current: dict[tuple[str, int, int], Record] = {}
        # Records that arrived although the task was paused.
        self._early: list[Record] = []
        self._lost: set[Partition] = set()
        self._most = int(self.config.get(f"consumer.override.{MAX_POLL_RECORDS}", _MOST_RECORDS))
        task = cast(SinkTask, self.plugin.new_task()) if self.plugin.new_task is not None else None
        assert task is not None
        self._task = task
        more = {**self.parts.clients.get("consumer", {}), **overrides(self.config, "consumer")}
        self._topics = _Topics(self.parts.bootstrap, self.config)
        try:
            task.start(self.config, self)
            self._reader = GroupReader(
                self.parts.bootstrap, group_of(self.connector), on_lost=self._on_lost, more=more
            )
            is_done = False
            try:
                self.say("RUNNING")
                self._work()
                self._commit()
                is_done = True
            finally:
                if not is_done:
                    self._positions.clear()
                self._reader.close()
        finally:
            self._topics.close()
            task.stop()

    def report(self, record: SinkRecord, error: Exception) -> None:
        if self.is_abandoned:
            return
        original = self._current.get((record.topic, record.partition, record.offset))
        self.errors.tolerate(error, stage="TASK_PUT", class_name=self.plugin.task_class, record=original)

    def _work(self) -> None:
        next_commit = time.monotonic() + self.parts.offset_flush_seconds
        while not self.must_stop:
            if self._topics.have_changed():
                self._reader.subscribe(self._topics.names)
            if self.wants_pause:
                self._stay_paused()
                continue
            early, self._early = self._early, []
            self._put(early or self._reader.poll(self._most, _POLL_SECONDS))
            if time.monotonic() >= next_commit:
                self._commit()
                next_commit = time.monotonic() + self.parts.offset_flush_seconds

    def _stay_paused(self) -> None:
        self._commit()
        self._reader.pause()
        self.say("PAUSED")
        while self.wants_pause:
            # It stays a member of its group.
            self._poll_early()
            self.wait_while_paused(_POLL_SECONDS)
        if not self.must_stop:
            self._reader.resume()
            self.say("RUNNING")

    def _poll_early(self) -> None:
        """Stay a member of the group while no records are wanted."""
        # Polled first: partitions that are lost inside it take what came early from them along.
        arrived = self._reader.poll(1, 0)
        self._early += arrived

    def _put(self, messages: list[Record]) -> None:
        if not messages or self.is_abandoned:
            return
        ends: dict[Partition, int] = {}
        self._current = {}
        self._lost.clear()
        records = []
        for message in messages:
            if self.is_abandoned:
                # Not even dead letters.
                return
            place = (message.topic() or "", message.partition() or 0)
            offset = message.offset() or 0
            ends[place] = offset + 1
            record = self._converted(message, place, offset)
            if record is not None:
                records.append(record)
                self._current[(*place, offset)] = message
        for topic in {place[0] for place in ends}:
            self.parts.statuses.put_topic(self.connector, self.number, topic)
        while records and not self.is_abandoned:
            try:
                self._task.put(records)
                break
            except RetriableError as error:
                _log.info("task %s-%d asks for its records again: %s", self.connector, self.number, error)
                if not self._pause_before_retry():
                    return
                records = [each for each in records if (each.topic, each.partition) not in self._lost]
        self._positions |= {place: end for place, end in ends.items() if place not in self._lost}

    def _pause_before_retry(self) -> bool:
        """False if the task has to stop instead."""
        self._reader.pause()
        try:
            if self.wait(RETRY_SECONDS):
                return False
            self._poll_early()
        finally:
            self._reader.resume()
        return True

    def _converted(self, message: Record, place: Partition, offset: int) -> SinkRecord | None:
        """None if the record may be skipped."""
        stage: Stage = "KEY_CONVERTER"
        used: NamedConverter = self._keys
        try:
            key_schema, key = used.converter.from_bytes(_bytes(message.key()))
            stage, used = "VALUE_CONVERTER", self._values
            value_schema, value = used.converter.from_bytes(_bytes(message.value()))
            stage, used = "HEADER_CONVERTER", self._headers
            headers: list[Header] = []
            for pair in message.headers() or ():
                schema, each = used.converter.from_bytes(_bytes(pair[1]))
                headers.append((str(pair[0]), each, schema))
        except Exception as error:
            self.errors.tolerate(error, stage=stage, class_name=used.class_name, record=message)
            return None
        return SinkRecord(
            topic=place[0],
            partition=place[1],
            offset=offset,
            key=key,
            key_schema=key_schema,
            value=value,
            value_schema=value_schema,
            timestamp_ms=timestamp_of(message),
            headers=tuple(headers),
        )

    def _commit(self, *, is_losing: bool = False) -> None:
        if not is_losing and self._positions:
            held = self._reader.assignment()
            self._positions = {place: end for place, end in self._positions.items() if place in held}
        if self.is_abandoned or not self._positions:
            return
        self._task.flush()
        if not self.is_abandoned and self._reader.commit(self._positions):
            self._positions.clear()

    def _on_lost(self, places: list[Partition]) -> None:
        """Inside a poll: what goes wrong is raised after it."""
        self._lost |= set(places)
        self._early = [each for each in self._early if (each.topic(), each.partition()) not in self._lost]
        try:
            self._commit(is_losing=True)
        except BaseException:
            self._positions.clear()
            raise
        for place in places:
            self._positions.pop(place, None)


class _Topics:
    """The topics to read: a list, or those that match an expression now."""

    def __init__(self, bootstrap: str, config: Config) -> None:
        self.names = [name.strip() for name in config.get("topics", "").split(",") if name.strip()]
        self._expression = None if self.names else re2.compile(config["topics.regex"])
        self._cluster = Cluster(bootstrap) if self._expression is not None else None
        self._next_look = 0.0
        self._is_new = bool(self.names)

    def have_changed(self) -> bool:
        """Whether `names` are others than when this was last asked."""
        if self._cluster is None or self._expression is None:
            was_new, self._is_new = self._is_new, False
            return was_new
        if time.monotonic() < self._next_look:
            return False
        self._next_look = time.monotonic() + _LOOK_SECONDS
        try:
            there = self._cluster.topic_names()
        except HeadraceError as error:
            _log.info("looking for topics: %s", error)
            return False
        found = [
            name for name in there if not name.startswith(_INTERNAL) and self._expression.fullmatch(name)
        ]
        changed, self.names = found != self.names, found
        return changed

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()


def _bytes(data: bytes | str | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data
