"""Repairs as wishes: how the pipeline process learns which records are to be read again, and answers.

A wish is a record of the compacted topic `_repairs`: key = its id, value = JSON. `headrace reconcile
--repair` writes it with the state `ASKED`. The pipeline process, the only writer of derived topics and
tables, carries it out and writes it again with `DONE` or `FAILED`. What is done may be asked for again: a
repair first looks whether the record is there.

Crash behaviour: a wish without an answer is carried out at the next start of the pipeline process. So a wish
says where the sinks ended before its records were found to be missing: what has been repaired since lies from
there on.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from headrace.client.cluster import Cluster
from headrace.client.errors import log_late
from headrace.client.reading import Record, TopicReader
from headrace.client.topics import COMPACTED
from headrace.client.writing import Outgoing, RecordWriter

REPAIRS_TOPIC: Final = "_repairs"
_WRITE_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.2

_log = logging.getLogger(__name__)

State = Literal["ASKED", "DONE", "FAILED"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """Records of a topic that a query is to read again.

    `stretches` are partition, first and last offset. `sinks_from` is by topic id and partition. `doubles` are
    rows of the query's table that are there more than once, as source coordinates.
    """

    id: str
    query: str
    topic_id: str
    stretches: tuple[tuple[int, int, int], ...] = ()
    doubles: tuple[str, ...] = ()
    sinks_from: dict[str, dict[int, int]] = dataclasses.field(default_factory=dict)
    state: State = "ASKED"
    # How many records or rows were written or removed, or why that failed.
    changed: int = 0
    message: str = ""


class RepairLog:
    """Both sides of the topic. For one thread."""

    def __init__(self, cluster: Cluster) -> None:
        cluster.create_topic(REPAIRS_TOPIC, partitions=1, config=COMPACTED)
        self._cluster = cluster
        self._reader = TopicReader(cluster.bootstrap, REPAIRS_TOPIC, 1)
        self._writer = RecordWriter(cluster.bootstrap, timeout_seconds=_WRITE_SECONDS)
        self._known: dict[str, Repair] = {}
        # To the end, so that a wish that was answered is never taken for one that was not.
        self._take(list(self._reader.until(cluster.end_offsets(REPAIRS_TOPIC))))

    def close(self) -> None:
        self._reader.close()
        self._writer.close()

    def asked(self) -> list[Repair]:
        """The wishes without an answer, as far as they have arrived."""
        self._take(self._reader.poll(0))
        return [repair for repair in self._known.values() if repair.state == "ASKED"]

    def write(self, repair: Repair) -> None:
        """Ask, or answer. Raises NotAcknowledgedError."""
        value = msgspec.json.encode(repair)
        self._writer.write(Outgoing(topic=REPAIRS_TOPIC, key=repair.id.encode(), value=value))
        self._known[repair.id] = repair

    def forget(self, repairs: Sequence[Repair]) -> None:
        """Remove wishes whose answers were read."""
        for repair in repairs:
            self._writer.write(Outgoing(topic=REPAIRS_TOPIC, key=repair.id.encode(), value=None))

    def wait_for(self, asked: Sequence[Repair], seconds: float) -> list[Repair]:
        """The answers, in the order of the wishes. Raises log_unavailable if they do not come in time."""
        ids = [repair.id for repair in asked]
        deadline = time.monotonic() + seconds
        while any(self._known[each].state == "ASKED" for each in ids):
            if time.monotonic() > deadline:
                raise log_late(
                    self._cluster.bootstrap, "answer the repair; is the pipeline running?", seconds
                )
            self._take(self._reader.poll(_POLL_SECONDS))
        return [self._known[each] for each in ids]

    def _take(self, records: list[Record]) -> None:
        for record in records:
            key, value = (record.key() or b"").decode(), record.value()
            if value is None:
                self._known.pop(key, None)
                continue
            try:
                self._known[key] = msgspec.json.decode(value, type=Repair)
            except msgspec.DecodeError as error:
                _log.warning("A record of %s is not a repair: %s", REPAIRS_TOPIC, error)
