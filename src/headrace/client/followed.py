"""Followed topics: a thread reads a topic from its beginning, continues as records arrive, and folds them.

Invariants: only the reading thread changes the state, by calling the owner's `fold` while it holds
`progress`, which it notifies whenever it has read more. Anybody who reads the state holds `progress` too.

A `CompactedLog` is a followed topic with one compacted partition, to which its owner also appends: the source
of truth for a part of the platform. It needs no transactions, and any number of processes may append at once.
Crash behaviour: see `writing.py`. Never interprets a record.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final

from headrace.client.cluster import Cluster
from headrace.client.errors import NotAcknowledgedError, log_late
from headrace.client.reading import Record, TopicReader
from headrace.client.writing import Headers, Outgoing, RecordWriter
from headrace.core.errors import HeadraceError

_log = logging.getLogger(__name__)

Fold = Callable[[Record], None]

_POLL_SECONDS: Final = 0.2
# A committed record becomes visible when the broker looks at a waiting fetch again, at the latest.
_FETCH_WAIT_MS: Final = 100
# The log gets a second chance within the timeout of one call.
_SEND_SECONDS: Final = 8.0
_CLOSE_SECONDS: Final = 1.0
_PARTITION: Final = 0


class FollowedTopic:
    """Reads from `start` to `stop`. All methods may be called from any thread."""

    def __init__(self, bootstrap: str, topic: str, fold: Fold, *, partitions: int = 1) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.progress = threading.Condition()
        self.is_stopping = False
        self._fold = fold
        self._partitions = partitions
        self._read_to: Mapping[int, int] = {}
        self._thread: threading.Thread | None = None

    @property
    def is_followed(self) -> bool:
        return self._thread is not None and not self.is_stopping

    @property
    def is_alive(self) -> bool:
        """Whether the reading thread runs: a fold that raises ends it."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        self._thread = threading.Thread(target=self._follow, name=f"reading {self.topic}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop following. The state stays as it is."""
        with self.progress:
            self.is_stopping = True
            self.progress.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def wait_for(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Wait until the condition holds, or the topic is no longer followed; whether the condition holds."""
        with self.progress:
            self.progress.wait_for(lambda: condition() or self.is_stopping, timeout)
            return condition()

    def wait_until_read(self, ends: Mapping[int, int], timeout: float) -> bool:
        """Wait until each partition was read up to its end; False if time runs out."""
        return self.wait_for(
            lambda: all(self._read_to.get(number, -1) >= end for number, end in ends.items()), timeout
        )

    def _follow(self) -> None:
        reader = TopicReader(self.bootstrap, self.topic, self._partitions, fetch_wait_ms=_FETCH_WAIT_MS)
        try:
            while not self.is_stopping:
                self.read_on(reader, _POLL_SECONDS)
        finally:
            reader.close()

    def read_on(self, reader: TopicReader, timeout: float) -> None:
        """Fold the records that arrive next. Runs in the reading thread."""
        records = reader.poll(timeout)
        with self.progress:
            for record in records:
                self._fold(record)
            self._read_to = dict(reader.read_to)
            self.progress.notify_all()


class CompactedLog(FollowedTopic):
    """A followed topic that its owner appends to; an append returns once its record was read back."""

    def __init__(self, bootstrap: str, topic: str, fold: Fold, *, holds: str, timeout: float) -> None:
        """`holds` says what the records are, for errors; `timeout` limits each call, in seconds."""
        super().__init__(bootstrap, topic, fold)
        self._holds = holds
        self._timeout = timeout
        self._cluster = Cluster(bootstrap, timeout_seconds=timeout)
        self._writer = RecordWriter(bootstrap, timeout_seconds=_SEND_SECONDS)

    def start(self) -> None:
        """Create the topic if it is missing, and read all of it. Raises log_unavailable, invalid_setting."""
        self._cluster.ensure_compacted_topic(self.topic, holds=self._holds)
        # While this connects, the records are read.
        self._writer.open()
        super().start()
        try:
            self.read_to_end()
        except HeadraceError:
            self.stop()
            raise

    def stop(self) -> None:
        super().stop()
        self._writer.close(_CLOSE_SECONDS)

    def read_to_end(self) -> None:
        """Read everything that the log holds now. Raises log_unavailable."""
        if not self.is_followed:
            raise HeadraceError("log_unavailable", f"The topic {self.topic} is not followed any more.")
        self._wait_for_end(self._cluster.end_offset(self.topic, self._timeout))

    def append(self, key: bytes, value: bytes | None, headers: Headers = ()) -> bool:
        """Write a record and wait until it was read back. False if nobody knows whether it was written.

        Raises log_unavailable if it was written but not read back in time.
        """
        try:
            offset = self.write(key, value, headers)
        except NotAcknowledgedError as error:
            _log.info("a record may or may not be in %s: %s", self.topic, error)
            return False
        self._wait_for_end(offset + 1)
        return True

    def write(self, key: bytes, value: bytes | None, headers: Headers = ()) -> int:
        """Write a record; its offset once the log has it. Raises NotAcknowledgedError."""
        return self._writer.write(self._record(key, value, headers), self._timeout)

    def append_later(self, key: bytes, value: bytes | None, headers: Headers = ()) -> None:
        """Write a record in the background. If that fails, it is not written."""
        self._writer.write_later(self._record(key, value, headers))

    def late(self, action: str) -> HeadraceError:
        return log_late(self.bootstrap, action, self._timeout)

    def _record(self, key: bytes, value: bytes | None, headers: Headers) -> Outgoing:
        return Outgoing(topic=self.topic, key=key, value=value, partition=_PARTITION, headers=headers)

    def _wait_for_end(self, end: int) -> None:
        if not self.wait_until_read({_PARTITION: end}, self._timeout):
            raise self.late(f"give the {self._holds} in `{self.topic}`")
