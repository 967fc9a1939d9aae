"""Reads topics as a member of a consumer group, for owners that commit what they have dealt with.

Invariants: nothing is committed unless the owner says so; partitions that the group takes away are reported,
inside `poll`, before they are gone, so that the owner can still commit; `poll` gives no records of partitions
that were taken away inside it; what goes wrong inside a callback is raised by the call that it happened in,
since librdkafka would turn it into something that is no exception. A topic that does not exist is waited for,
never created. A reader belongs to one thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from headrace.client.connections import open_member
from headrace.client.errors import is_absent, is_end
from headrace.client.reading import Record
from headrace.client.topics import Partition

_log = logging.getLogger(__name__)


class GroupReader:
    """A member of a group. It joins with the first `poll` after `subscribe`."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        *,
        on_lost: Callable[[list[Partition]], None],
        more: Mapping[str, Any] | None = None,
    ) -> None:
        """`on_lost` is called inside `poll` and `close` with partitions that this member no longer has."""
        self._on_lost = on_lost
        self._consumer: Consumer = open_member(bootstrap, group, more=more)
        self._paused = False
        # Taken away since the last poll began to wait.
        self._lost: set[Partition] = set()
        self._failure: Exception | None = None
        # What the log says while it cannot be read; librdkafka goes on trying.
        self.trouble = ""

    def subscribe(self, topics: Sequence[str]) -> None:
        if not topics:
            self._consumer.unsubscribe()
            return
        self._consumer.subscribe(list(topics), on_assign=self._assigned, on_revoke=self._revoked)

    def poll(self, most: int, timeout: float) -> list[Record]:
        """Records that have arrived, at most so many. Waits for the first one only."""
        first: Record | None = self._consumer.poll(timeout)
        self._raise_failure()
        if first is None:
            return []
        self._lost.clear()
        more: list[Record] = self._consumer.consume(most - 1, 0) if most > 1 else []
        self._raise_failure()
        if self._lost:
            # The first came before the loss. librdkafka drops what else did, if it knows of it yet.
            held = self.assignment()
            first_of_all = [] if _place(first) in self._lost else [first]
            more = [each for each in more if each.error() is not None or _place(each) in held]
        else:
            first_of_all = [first]
        records = []
        for message in (*first_of_all, *more):
            error = message.error()
            if error is None:
                self.trouble = ""
                records.append(message)
            elif error.fatal():
                raise KafkaException(error)
            elif not is_end(error) and not is_absent(error):
                if not self.trouble:
                    _log.warning("reading as a member: %s", error.str())
                self.trouble = error.str()
        return records

    def pause(self) -> None:
        """Stay in the group without getting records."""
        self._paused = True
        self._consumer.pause(self._consumer.assignment())

    def resume(self) -> None:
        self._paused = False
        self._consumer.resume(self._consumer.assignment())

    def assignment(self) -> set[Partition]:
        return {(each.topic, each.partition) for each in self._consumer.assignment()}

    def rewind(self, positions: Mapping[Partition, int]) -> None:
        """Read these partitions again, each from its offset on."""
        for place, offset in positions.items():
            self._consumer.seek(TopicPartition(*place, offset))

    def commit(self, positions: Mapping[Partition, int]) -> bool:
        """Commit that everything before these offsets is done.

        False if that did not work: the group has moved on meanwhile, or the log is away. Raises
        KafkaException only if the reader is broken for good.
        """
        if not positions:
            return True
        try:
            committed = self._consumer.commit(
                offsets=[TopicPartition(*place, offset) for place, offset in positions.items()],
                asynchronous=False,
            )
        except KafkaException as error:
            if error.args[0].fatal():
                raise
            _log.warning("offsets were not committed: %s", error.args[0].str())
            return False
        failed = [each.error for each in committed or () if each.error is not None]
        if failed:
            _log.warning("offsets were not committed: %s", failed[0].str())
        return not failed

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()
        self._raise_failure()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        try:
            consumer.assign(partitions)
            if self._paused:
                consumer.pause(partitions)
        except Exception as error:
            self._failure = error

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        lost = [(each.topic, each.partition) for each in partitions]
        self._lost |= set(lost)
        try:
            try:
                self._on_lost(lost)
            finally:
                consumer.unassign()
        except Exception as error:
            self._failure = error

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure


def _place(record: Record) -> Partition:
    return record.topic() or "", record.partition() or 0
