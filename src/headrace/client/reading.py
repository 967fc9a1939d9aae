"""Reads partitions from a place on, without a group and without commits: reading changes nothing.

Records of transactions that were not committed are not seen, unless asked for. A reader belongs to one
thread.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaException, Message, TopicPartition

from headrace.client.connections import ErrorListener, open_consumer
from headrace.client.errors import is_end, log_late, log_unavailable
from headrace.client.topics import Partition

_log = logging.getLogger(__name__)

# A record as it was read, or in a `PartitionReader` the end of a partition or an error.
Record = Message

BEGINNING: Final = OFFSET_BEGINNING
END: Final = OFFSET_END
FETCH_WAIT_MS: Final = 50
PATIENCE_SECONDS: Final = 15.0
_BATCH: Final = 1000
_LEADERS_SECONDS: Final = 1.0


def headers_of(record: Record) -> dict[str, bytes]:
    """The headers by name; of several with one name, the last."""
    found: dict[str, bytes] = {}
    headers: Any = record.headers() or ()
    for name, value in headers:
        found[str(name)] = value.encode("utf-8") if isinstance(value, str) else value or b""
    return found


class PartitionReader:
    """Reads partitions of any topics. What it gives are raw messages: records, ends of partitions, errors."""

    def __init__(
        self,
        bootstrap: str,
        *,
        fetch_wait_ms: int = FETCH_WAIT_MS,
        on_error: ErrorListener | None = None,
        only_committed: bool = True,
    ) -> None:
        """`on_error` is called inside `poll` when a connection is lost; the reader reconnects by itself."""
        self._consumer = open_consumer(
            bootstrap, fetch_wait_ms=fetch_wait_ms, on_error=on_error, only_committed=only_committed
        )

    def assign(self, starts: Mapping[Partition, int]) -> None:
        """Read these partitions, and no others, each from its offset on."""
        if any(start < 0 for start in starts.values()):
            self._learn_leaders({topic for topic, _ in starts})
        self._consumer.assign([TopicPartition(*place, start) for place, start in starts.items()])

    def _learn_leaders(self, topics: Collection[str]) -> None:
        """librdkafka asks leaders for beginnings and ends. If it does not know them yet, it waits for half a
        second before it asks again.
        """
        only = next(iter(topics)) if len(topics) == 1 else None
        # If the log does not answer, the reader goes on trying by itself.
        with suppress(KafkaException):
            self._consumer.list_topics(only, timeout=_LEADERS_SECONDS)

    def poll(self, timeout: float) -> list[Record]:
        """Messages that have arrived. Waits for the first one only."""
        first: Record | None = self._consumer.poll(timeout)
        # With a timeout `consume` would wait for a whole batch.
        return [] if first is None else [first, *self._consumer.consume(_BATCH, 0)]

    def known_end(self, place: Partition) -> int:
        """Where the partition ended according to the last fetch."""
        _, high = self._consumer.get_watermark_offsets(TopicPartition(*place), cached=True)
        return int(high)

    def close(self) -> None:
        self._consumer.close()


class TopicReader:
    """Reads one topic. It knows how far it has read, so that one can wait for an end asked for before."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int = 0,
        *,
        from_beginning: bool = True,
        fetch_wait_ms: int = FETCH_WAIT_MS,
        only_committed: bool = True,
    ) -> None:
        """Reads so many partitions from their beginning, or from their end; or what `read_from` says."""
        self._bootstrap = bootstrap
        self._topic = topic
        self._partitions = PartitionReader(
            bootstrap, fetch_wait_ms=fetch_wait_ms, only_committed=only_committed
        )
        start = OFFSET_BEGINNING if from_beginning else OFFSET_END
        self.read_from(dict.fromkeys(range(partitions), start))

    def read_from(self, starts: Mapping[int, int]) -> None:
        """Read these partitions, and no others, each from its offset on."""
        # Where the next record of each partition would be, as far as that is known.
        self.read_to: dict[int, int] = {}
        # Partitions that were read to their end at least once.
        self.at_end: set[int] = set()
        # Why nothing can be read; empty while all is well. librdkafka goes on trying.
        self.trouble = ""
        if starts:
            self._partitions.assign({(self._topic, number): start for number, start in starts.items()})

    def poll(self, timeout: float) -> list[Record]:
        """Records that have arrived, in the order of their partitions; none if none arrives in time."""
        return self._taken(self._partitions.poll(timeout))

    def has_read(self, ends: Mapping[int, int]) -> bool:
        """Whether each of these partitions was read up to the given offset, or to its end."""
        return all(self.read_to.get(each, 0) >= ends[each] for each in ends.keys() - self.at_end)

    def until(self, ends: Mapping[int, int], patience: float = PATIENCE_SECONDS) -> Iterator[Record]:
        """The records before the given end of each partition. Raises log_unavailable.

        `patience` is how long to wait for the next record, in seconds.
        """
        while not self.has_read(ends):
            messages = self._partitions.poll(patience)
            records = self._taken(messages)
            if self.trouble:
                raise log_unavailable(self._bootstrap, f"read topic `{self._topic}`", self.trouble)
            if not messages:
                raise log_late(self._bootstrap, f"read topic `{self._topic}`", patience)
            for record in records:
                if (record.offset() or 0) < ends.get(record.partition() or 0, 0):
                    yield record

    def close(self) -> None:
        self._partitions.close()

    def _taken(self, messages: list[Record]) -> list[Record]:
        records: list[Record] = []
        for message in messages:
            error = message.error()
            partition, offset = message.partition() or 0, message.offset() or 0
            if error is None:
                self.trouble = ""
                records.append(message)
                self.read_to[partition] = offset + 1
            elif is_end(error):
                self.trouble = ""
                self.read_to[partition] = max(offset, self.read_to.get(partition, 0))
                self.at_end.add(partition)
            else:
                if not self.trouble:
                    _log.warning("reading %s: %s", self._topic, error.str())
                self.trouble = error.str()
        return records


def records_between(
    bootstrap: str,
    topic: str,
    stretches: Mapping[int, tuple[int, int]],
    patience: float = PATIENCE_SECONDS,
    *,
    only_committed: bool = True,
) -> Iterator[Record]:
    """The records from the first offset up to, but without, the second, partition by partition.

    `patience` is how long to wait for the next record, in seconds. Raises log_unavailable.
    """
    wanted = {partition: ends for partition, ends in sorted(stretches.items()) if ends[0] < ends[1]}
    if not wanted:
        return
    reader = TopicReader(bootstrap, topic, only_committed=only_committed)
    try:
        for partition, (first, end) in wanted.items():
            reader.read_from({partition: first})
            yield from reader.until({partition: end}, patience)
    finally:
        reader.close()
