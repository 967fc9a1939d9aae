"""Which records of a topic made again were already taken under its former id.

Kafka's consumer goes by a topic's name: when a topic is deleted and made again under a running query, and
grows past the position that the query had reached, the consumer reads on in the new incarnation as if nothing
had happened. Until the keeper notices (a fraction of a second), the query labels those records with the
former id. They are in the derived topics once, which is right, but under coordinates that are not theirs;
read again under the new id they would come a second time.

So a query that starts on an incarnation for the first time looks at the newest derived records with another
id: one with the key and the timestamp of the record at the same place of the new incarnation *is* that
record. Those places are then left out. Pure look-up: never writes to a topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.lake.coordinates import POSTED_AT_HEADER, SOURCE_HEADER, parse_source

# How many of the newest records of each derived partition are looked at; what was mislabelled is at the end.
_NEWEST: Final = 50_000
_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenRange:
    """Offsets of one source partition that were taken under a former id, both ends included."""

    partition: int
    first: int
    last: int


# What tells one record from all others at the same place: its key and its timestamp.
_Likeness = tuple[bytes | None, int]


def taken_under_former_ids(
    bootstrap: str, *, query: str, source: TopicIdentity, derived: Iterable[TopicIdentity]
) -> tuple[TakenRange, ...]:
    """The ranges of `source` that `query` has already passed on under another id."""
    reader = _Reader(bootstrap)
    try:
        mislabelled: dict[int, dict[int, _Likeness]] = {}
        for topic in derived:
            for record in reader.newest(topic):
                _note(record, mislabelled, query=query, source=source)
        return tuple(_ranges(reader, source, mislabelled))
    finally:
        reader.close()


def _note(record: Any, into: dict[int, dict[int, _Likeness]], *, query: str, source: TopicIdentity) -> None:
    headers = dict(record.headers() or ())
    try:
        coordinates = parse_source(headers[SOURCE_HEADER])
        posted_at = int(headers[POSTED_AT_HEADER])
    except (KeyError, ValueError):
        return  # not one of ours
    if coordinates.query == query and coordinates.topic_id != source.topic_id:
        into.setdefault(coordinates.partition, {})[coordinates.offset] = (record.key(), posted_at)


def _ranges(
    reader: _Reader, source: TopicIdentity, mislabelled: Mapping[int, Mapping[int, _Likeness]]
) -> Iterator[TakenRange]:
    for partition, likenesses in sorted(mislabelled.items()):
        if partition >= source.partitions:
            continue
        same = [
            record.offset()
            for record in reader.between(source.name, partition, min(likenesses), max(likenesses))
            if likenesses.get(record.offset()) == (record.key(), record.timestamp()[1])
        ]
        if same:
            yield TakenRange(partition=partition, first=min(same), last=max(same))


class _Reader:
    """Reads given places of topics, without a group."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._consumer: Any = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "headrace-incarnations",
                "enable.auto.commit": False,
                "allow.auto.create.topics": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
            }
        )

    def newest(self, topic: TopicIdentity) -> Iterator[Any]:
        for partition in range(topic.partitions):
            end = self._end(topic.name, partition)
            yield from self.between(topic.name, partition, max(0, end - _NEWEST), end - 1)

    def between(self, topic: str, partition: int, first: int, last: int) -> Iterator[Any]:
        """Records from `first` to `last` or the end, whichever comes first."""
        if min(last, self._end(topic, partition) - 1) < first:
            return
        self._consumer.assign([TopicPartition(topic, partition, first)])
        while True:
            first_message = self._consumer.poll(_SECONDS)
            if first_message is None:
                raise self._unavailable(f"gave no records of {topic} within {_SECONDS:.0f} s")
            messages = [first_message, *self._consumer.consume(1000, 0)]
            for message in messages:
                error = message.error()
                if error is None and message.offset() <= last:
                    yield message
                elif error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise self._unavailable(f"could not read {topic}: {error.str()}")
            if any(message.error() is not None or message.offset() >= last for message in messages):
                return

    def close(self) -> None:
        self._consumer.close()

    def _end(self, topic: str, partition: int) -> int:
        place = TopicPartition(topic, partition)
        futures = self._admin.list_offsets(
            {place: OffsetSpec.latest()},  # type: ignore[no-untyped-call]
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=_SECONDS,
        )
        try:
            return int(futures[place].result().offset)
        except KafkaException as error:
            raise self._unavailable(f"could not tell the end of {topic}: {error.args[0].str()}") from error

    def _unavailable(self, what: str) -> HeadraceError:
        return HeadraceError(
            "log_unavailable",
            f"The log at {self._bootstrap} {what}.",
            remedy="Check that the log is running (`headrace status`).",
        )
