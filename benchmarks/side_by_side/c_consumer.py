"""librdkafka's consumer as a C program uses it: no Python object per record, no Python between records.

Does what librdkafka's own `rdkafka_performance -C` does, through ctypes, with the librdkafka that comes with
confluent-kafka. Records are passed to a C callback, and `rd_kafka_message_timestamp` serves as one: it has
the right signature, reads the record's timestamp and has no effect.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from typing import Final, Self

from confluent_kafka import cimpl

CONSUMER: Final = 1  # RD_KAFKA_CONSUMER
ERROR_ROOM: Final = 512
SIGNATURES: Final = {
    "rd_kafka_conf_new": (c_void_p, []),
    "rd_kafka_conf_set": (c_int, [c_void_p, c_char_p, c_char_p, c_char_p, c_size_t]),
    "rd_kafka_new": (c_void_p, [c_int, c_void_p, c_char_p, c_size_t]),
    "rd_kafka_topic_new": (c_void_p, [c_void_p, c_char_p, c_void_p]),
    "rd_kafka_queue_new": (c_void_p, [c_void_p]),
    "rd_kafka_consume_start_queue": (c_int, [c_void_p, c_int32, c_int64, c_void_p]),
    "rd_kafka_consume_callback_queue": (c_int, [c_void_p, c_int, c_void_p, c_void_p]),
    "rd_kafka_consume_stop": (c_int, [c_void_p, c_int32]),
    "rd_kafka_queue_destroy": (None, [c_void_p]),
    "rd_kafka_topic_destroy": (None, [c_void_p]),
    "rd_kafka_destroy": (None, [c_void_p]),
    "rd_kafka_message_timestamp": (c_int64, [c_void_p, POINTER(c_int)]),
}


@functools.cache
def library() -> ctypes.CDLL:
    """Symbols are also looked up in the libraries that confluent-kafka's module is linked with."""
    result = ctypes.CDLL(cimpl.__file__)
    for name, (answer, arguments) in SIGNATURES.items():
        function = getattr(result, name)
        function.restype, function.argtypes = answer, arguments
    return result


class CConsumer:
    """Reads partition 0 of a topic from its start."""

    def __init__(self, settings: Mapping[str, object], topic: str) -> None:
        self._library = library()
        error = ctypes.create_string_buffer(ERROR_ROOM)
        configuration = self._library.rd_kafka_conf_new()
        for name, value in settings.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if self._library.rd_kafka_conf_set(
                configuration, name.encode(), text.encode(), error, ERROR_ROOM
            ):
                raise RuntimeError(error.value.decode())
        self._client = self._library.rd_kafka_new(CONSUMER, configuration, error, ERROR_ROOM)
        if not self._client:
            raise RuntimeError(error.value.decode())
        self._topic = self._library.rd_kafka_topic_new(self._client, topic.encode(), None)
        self._queue = self._library.rd_kafka_queue_new(self._client)
        self._callback = ctypes.cast(self._library.rd_kafka_message_timestamp, c_void_p)
        if self._library.rd_kafka_consume_start_queue(self._topic, 0, 0, self._queue):
            raise RuntimeError(f"cannot read {topic}")

    def take(self, timeout_ms: int) -> int:
        """Take all available records, waiting for the first; returns how many."""
        count: int = self._library.rd_kafka_consume_callback_queue(
            self._queue, timeout_ms, self._callback, None
        )
        return count

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._library.rd_kafka_consume_stop(self._topic, 0)
        self._library.rd_kafka_queue_destroy(self._queue)
        self._library.rd_kafka_topic_destroy(self._topic)
        self._library.rd_kafka_destroy(self._client)
