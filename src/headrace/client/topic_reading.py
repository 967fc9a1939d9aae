"""Reading a topic from a place on, without a group and without commits.

A reader belongs to one thread. It knows the offset up to which it has read each partition, so that one can
wait for an end that was asked for before.
"""

from __future__ import annotations

import logging
import uuid
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, Message, TopicPartition

_log = logging.getLogger(__name__)

_FETCH_WAIT_MS: Final = 50
_BATCH: Final = 500


class TopicReader:
    def __init__(self, bootstrap: str, topic: str, partitions: int, *, from_beginning: bool) -> None:
        self._consumer: Any = Consumer(
            {
                "bootstrap.servers": bootstrap,
                # Asked for by the client although no group is joined and nothing is committed.
                "group.id": f"headrace-reader-{uuid.uuid4()}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest" if from_beginning else "latest",
                "allow.auto.create.topics": False,
                "fetch.wait.max.ms": _FETCH_WAIT_MS,
                "reconnect.backoff.max.ms": 1_000,
                "log_level": 2,
            },
            logger=_log,
        )
        start = OFFSET_BEGINNING if from_beginning else OFFSET_END
        self._consumer.assign([TopicPartition(topic, number, start) for number in range(partitions)])
        # Where the next record of each partition would be, as far as it is known.
        self.read_to: dict[int, int] = {}
        # Partitions whose end was met at least once.
        self.at_end: set[int] = set()
        self._in_trouble = False

    def poll(self, timeout: float) -> list[Message]:
        """Records that came, in the order of their partitions; none if none comes in time."""
        first: Message | None = self._consumer.poll(timeout)
        if first is None:
            return []
        records: list[Message] = []
        # With a timeout `consume` would wait for a whole batch.
        for message in (first, *self._consumer.consume(_BATCH, 0)):
            error = message.error()
            partition, offset = message.partition() or 0, message.offset() or 0
            if error is None:
                self._in_trouble = False
                records.append(message)
                self.read_to[partition] = offset + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                self.read_to[partition] = max(offset, self.read_to.get(partition, 0))
                self.at_end.add(partition)
            elif not self._in_trouble:
                self._in_trouble = True
                _log.warning("reading %s: %s", message.topic(), error.str())
        return records

    def close(self) -> None:
        self._consumer.close()


def row_position(message: Message) -> dict[str, Any]:
    """The pseudo-columns of a record."""
    return {
        "ROWTIME": message.timestamp()[1],
        "ROWPARTITION": message.partition(),
        "ROWOFFSET": message.offset(),
    }
