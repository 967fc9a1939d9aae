"""Repairs as wishes: how the pipeline process learns which records are to be read again, and answers.

A wish is a record of the topic `_repairs`: key = its id, value = JSON. `headrace reconcile --repair` writes
it with the state `ASKED`. The pipeline process, the only writer of derived topics and tables, writes it again
when it begins, and once more with `DONE` or `FAILED`. Whoever asked removes the wish, also if it gives up.

What is done may be asked for again: a repair first looks whether the record is there. So a wish says where
the sinks ended before its records were found to be missing: what has been repaired since lies from there on.

Crash behaviour: a wish without an answer is carried out at the next start of the pipeline process, but not
for ever: one that ended the process several times is answered with `FAILED`.
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
from headrace.client.errors import NotAcknowledgedError, log_late, log_refused
from headrace.client.reading import PATIENCE_SECONDS, Record, TopicReader
from headrace.client.writing import Outgoing, RecordWriter
from headrace.core.errors import HeadraceError

REPAIRS_TOPIC: Final = "_repairs"
# Answers that nobody waited for vanish after a week.
_CONFIG: Final = {"cleanup.policy": "compact,delete", "retention.ms": str(7 * 24 * 3600 * 1000)}
_WRITE_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.2
# The log answers a waiting fetch as soon as there is a record.
_FETCH_WAIT_MS: Final = 1_000
_MOST_ATTEMPTS: Final = 3

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
    # How often the pipeline process has begun with it.
    attempts: int = 0
    # How many records or rows were written or removed; and why not all, or why it failed.
    changed: int = 0
    message: str = ""

    def answered(self, state: State, *, changed: int = 0, message: str = "") -> Repair:
        """The answer, without what was asked for."""
        return Repair(
            id=self.id,
            query=self.query,
            topic_id=self.topic_id,
            state=state,
            attempts=self.attempts,
            changed=changed,
            message=message,
        )


class RepairLog:
    """Both sides of the topic. For one thread."""

    def __init__(self, cluster: Cluster) -> None:
        """Raises log_unavailable."""
        cluster.create_topic(REPAIRS_TOPIC, partitions=1, config=_CONFIG)
        self._cluster = cluster
        self._reader = TopicReader(cluster.bootstrap, REPAIRS_TOPIC, 1, fetch_wait_ms=_FETCH_WAIT_MS)
        self._writer = RecordWriter(cluster.bootstrap, timeout_seconds=_WRITE_SECONDS)
        self._known: dict[str, Repair] = {}
        # To the end, so that a wish that was answered is never taken for one that was not.
        ends = cluster.end_offsets(REPAIRS_TOPIC)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._reader.has_read(ends):
            if time.monotonic() > deadline:
                raise log_late(cluster.bootstrap, f"read topic `{REPAIRS_TOPIC}`", PATIENCE_SECONDS)
            self._take(self._reader.poll(_POLL_SECONDS))

    def close(self) -> None:
        self._reader.close()
        self._writer.close()

    def begin_next(self) -> Repair | None:
        """The oldest wish without an answer, which is to be carried out now. Raises log_unavailable."""
        self._take(self._reader.poll(0))
        for repair in self._known.values():
            if repair.state == "ASKED":
                break
        else:
            return None
        if repair.attempts >= _MOST_ATTEMPTS:
            why = f"The pipeline process ended {repair.attempts} times while it carried out this repair."
            self.write(repair.answered("FAILED", message=why))
            return None
        begun = dataclasses.replace(repair, attempts=repair.attempts + 1)
        self.write(begun)
        return begun

    def write(self, repair: Repair) -> None:
        """Ask, begin or answer. Raises log_unavailable."""
        self._write(repair.id, msgspec.json.encode(repair))
        self._known[repair.id] = repair

    def forget(self, repairs: Sequence[Repair]) -> None:
        """Remove wishes whose answers were read, or which nobody waits for any more."""
        for repair in repairs:
            self._write(repair.id, None)
            self._known.pop(repair.id, None)

    def wait_for(self, asked: Sequence[Repair], seconds: float) -> list[Repair]:
        """The answers, in the order of the wishes.

        Raises not_running if the pipeline process neither begins with a wish nor answers one for so long.
        """
        waiting = {repair.id: repair for repair in asked}
        answers: dict[str, Repair] = {}
        deadline = time.monotonic() + seconds
        while waiting:
            for id_, before in list(waiting.items()):
                now = self._known.get(id_, before)
                if now != before:
                    deadline = time.monotonic() + seconds
                    waiting[id_] = now
                if now.state != "ASKED":
                    answers[id_] = waiting.pop(id_)
            if waiting and time.monotonic() > deadline:
                raise HeadraceError(
                    "not_running",
                    f"The pipeline process has not answered a repair for {seconds:g} s.",
                    remedy="Check that it runs (`headrace status`), then ask again.",
                )
            if waiting:
                self._take(self._reader.poll(_POLL_SECONDS))
        return [answers[repair.id] for repair in asked]

    def _write(self, key: str, value: bytes | None) -> None:
        try:
            self._writer.write(Outgoing(topic=REPAIRS_TOPIC, key=key.encode(), value=value))
        except NotAcknowledgedError as error:
            raise log_refused(
                self._cluster.bootstrap, f"write to topic `{REPAIRS_TOPIC}`", error.error
            ) from error

    def _take(self, records: list[Record]) -> None:
        for record in records:
            key, value = (record.key() or b"").decode("utf-8", "replace"), record.value()
            if value is None:
                self._known.pop(key, None)
                continue
            try:
                repair = msgspec.json.decode(value, type=Repair)
            except msgspec.DecodeError as error:
                _log.warning("A record of %s is not a repair: %s", REPAIRS_TOPIC, error)
                continue
            known = self._known.get(key)
            # What this side has written comes back by and by, and must not undo what it has written since.
            if known is None or (known.state == "ASKED" and repair.attempts >= known.attempts):
                self._known[key] = repair
