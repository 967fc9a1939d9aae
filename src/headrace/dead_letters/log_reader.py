"""Reads a stretch of a topic, partition by partition, in one go.

Joins no group and commits nothing: reading changes nothing. What was written by a transaction that was not
committed is not seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from headrace.core.errors import HeadraceError

_PATIENCE_SECONDS: Final = 15.0
_BATCH: Final = 500


def records_between(bootstrap: str, topic: str, stretches: Mapping[int, tuple[int, int]]) -> Iterator[Any]:
    """The records from the first offset on, up to and without the second, of each partition that is named.

    Raises HeadraceError log_unavailable.
    """
    wanted = {partition: ends for partition, ends in sorted(stretches.items()) if ends[0] < ends[1]}
    if not wanted:
        return
    consumer: Any = Consumer(
        {
            "bootstrap.servers": bootstrap,
            # librdkafka wants a name; without a subscription and commits no such group comes to be.
            "group.id": "headrace-dead-letters",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "allow.auto.create.topics": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "queued.max.messages.kbytes": 16_384,
            "log_level": 2,
        }
    )
    try:
        for partition, (first, end) in wanted.items():
            consumer.assign([TopicPartition(topic, partition, first)])
            yield from _until(consumer, bootstrap, topic, end)
    except KafkaException as error:
        raise _unavailable(bootstrap, f"could not read {topic}: {error.args[0].str()}") from error
    finally:
        consumer.close()


def _until(consumer: Any, bootstrap: str, topic: str, end: int) -> Iterator[Any]:
    while True:
        first = consumer.poll(_PATIENCE_SECONDS)
        if first is None:
            raise _unavailable(bootstrap, f"gave no records of {topic} within {_PATIENCE_SECONDS:.0f} s")
        for record in (first, *consumer.consume(_BATCH, 0)):
            error = record.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                return
            if error is not None:
                raise KafkaException(error)
            if record.offset() < end:
                yield record
            if record.offset() >= end - 1:
                return


def _unavailable(bootstrap: str, what: str) -> HeadraceError:
    return HeadraceError(
        "log_unavailable",
        f"The log at {bootstrap} {what}.",
        remedy="Check that the log is running (`headrace status`).",
    )
