"""Counts the records of topics in a thread of its own, and keeps the counts in the topic `_flow_counts`.

The counts go on from what any gateway has written there (`record_counts.py`), so a start reads one record of
that topic and then only the batches since, however long the counted topics are. Key = the name of the events
topic; value = the checkpoints of all counted topics as JSON, written at most once a second, and only if they
have changed.

Crash behaviour: what was not written is counted again. Invariants: nothing but that topic is ever written,
and it is created with its first record; topics and brokers may come and go.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Final

import msgspec

from headrace.client.batches import BatchReader
from headrace.client.cluster import Cluster
from headrace.client.reading import records_between
from headrace.client.topics import COMPACTED_SOON
from headrace.client.writing import Outgoing, RecordWriter
from headrace.core.errors import HeadraceError
from headrace.query.record_counts import Checkpoints, RecordCounts, decode, encode
from headrace.query.topic_follower import TopicFollower

COUNTS_TOPIC: Final = "_flow_counts"
_WRITE_EVERY_SECONDS: Final = 1.0
_WRITE_SECONDS: Final = 10.0
_CLOSE_SECONDS: Final = 2.0
# The broker answers at the first byte, so this is what an idle topic costs: two requests a second.
_FETCH_WAIT_MS: Final = 500
# A pause between fetches: counts are at most so much older, and a busy topic costs ten requests a second.
_PAUSE_SECONDS: Final = 0.1
_RETRY_SECONDS: Final = 1.0
_FIRST_LOOK: Final = 16

_logger = logging.getLogger(__name__)


class RecordCounter(TopicFollower):
    """Counts the topics given to `follow`."""

    def __init__(self, cluster: Cluster, *, key: str, with_earlier: Iterable[str]) -> None:
        super().__init__("record-counter")
        self._cluster = cluster
        self._key = key.encode()
        self._with_earlier = tuple(with_earlier)
        self._reader = BatchReader(cluster)
        self._writer = RecordWriter(cluster.bootstrap, timeout_seconds=_WRITE_SECONDS)
        # Guarded by the lock, as `total` needs it.
        self._counts: RecordCounts | None = None
        self._written: Checkpoints = {}
        self._written_at = 0.0

    def total(self, name: str) -> int:
        with self._lock:
            return self._counts.total(name) if self._counts is not None else 0

    @property
    def problem(self) -> str:
        with self._lock:
            return self._problem

    def _work(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    problem, pause = "", 0.0 if self._is_behind_after_counting() else _PAUSE_SECONDS
                except HeadraceError as error:
                    problem, pause = str(error), _RETRY_SECONDS
                except Exception as error:
                    # The thread must survive whatever a library raises.
                    _logger.exception("Counting records failed; retrying.")
                    problem, pause = f"The records could not be counted: {error}.", _RETRY_SECONDS
                if problem:
                    self._interrupted(problem)
                self._stopping.wait(pause)
            if not self.problem:
                self._write()
        except HeadraceError as error:
            _logger.info("The newest counts were not written: %s", error)
        finally:
            self._reader.close()
            self._writer.close(_CLOSE_SECONDS)

    def _interrupted(self, problem: str) -> None:
        self._reader.close()
        with self._lock:
            if problem != self._problem:
                _logger.warning("%s", problem)
            self._problem = problem
            if self._counts is not None:
                self._counts.interrupted(_now_ms())

    def _is_behind_after_counting(self) -> bool:
        """Count what has come; whether there is more to count at once."""
        counts = self._counts
        if counts is None:
            self._written = self._load()
            counts = RecordCounts(self._written, with_earlier=self._with_earlier)
        with self._lock:
            self._counts = counts
            wanted = self._wanted or {}
            counts.follow(wanted)
            starts = counts.starts(wanted)
        found = self._reader.fetch(starts, wait_ms=_FETCH_WAIT_MS) if starts else {}
        with self._lock:
            counts.fetched(found)
            self._problem = ""
        if time.monotonic() - self._written_at >= _WRITE_EVERY_SECONDS:
            self._write()
        return any(each.position < each.end for each in found.values())

    def _write(self) -> None:
        with self._lock:
            if self._counts is None:
                return
            checkpoints = self._counts.checkpoints(_now_ms())
        if checkpoints == self._written or not any(each.partitions for each in checkpoints.values()):
            return
        if not self._written:
            self._cluster.create_topic(COUNTS_TOPIC, partitions=1, config=COMPACTED_SOON)
        self._writer.write_later(Outgoing(topic=COUNTS_TOPIC, key=self._key, value=encode(checkpoints)))
        self._written, self._written_at = checkpoints, time.monotonic()

    def _load(self) -> Checkpoints:
        """The newest record with our key. Raises log_unavailable."""
        found = self._cluster.lookup([COUNTS_TOPIC])
        (first, end) = self._cluster.stretches(found.values()).get(COUNTS_TOPIC, {}).get(0, (0, 0))
        look, upper = _FIRST_LOOK, end
        while upper > first:
            lower = max(first, upper - look)
            stretch = {0: (lower, upper)}
            for record in reversed(list(records_between(self._cluster.bootstrap, COUNTS_TOPIC, stretch))):
                value = record.value()
                if record.key() == self._key and value is not None:
                    try:
                        return decode(value)
                    except msgspec.DecodeError as error:
                        _logger.warning("A record of %s has no counts: %s", COUNTS_TOPIC, error)
            look, upper = look * 4, lower
        return {}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
