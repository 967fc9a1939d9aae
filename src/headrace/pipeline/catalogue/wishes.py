"""Wishes and their answers through the log: how commands ask the pipeline process for something, and hear
what became of it.

A wish is a record of a topic of its kind: key = its id, value = JSON. Whoever asks writes it with the state
`ASKED`. The pipeline process, the only writer of derived topics and tables, writes it again when it begins,
and once more with `DONE` or `FAILED`; in between as often as it likes, as a sign that it is at it. Whoever
asked removes the wish, also if it gives up.

Crash behaviour: a wish without an answer is carried out at the next start of the pipeline process, but not
for ever: one that ended the process several times is answered with `FAILED`. So what is asked for must be
possible twice.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Literal, Self, TypeVar

import msgspec

from headrace.client.cluster import Cluster
from headrace.client.errors import NotAcknowledgedError, log_late, log_refused
from headrace.client.reading import PATIENCE_SECONDS, Record, TopicReader
from headrace.client.writing import Outgoing, RecordWriter
from headrace.core.errors import HeadraceError

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
class Wish:
    """What all wishes have. `query` is the query that it concerns."""

    id: str
    query: str
    state: State = "ASKED"
    # How often the pipeline process has begun with it.
    attempts: int = 0
    # What is to be said of the answer, or why it failed.
    message: str = ""

    def failed(self, reason: str) -> Self:
        """The answer that it cannot be done."""
        return dataclasses.replace(self, state="FAILED", message=reason)


W = TypeVar("W", bound=Wish)


class WishLog(Generic[W]):
    """Both sides of the topic of one kind of wishes, which errors call `called`. For one thread."""

    def __init__(self, cluster: Cluster, topic: str, kind: type[W], *, called: str) -> None:
        """Raises log_unavailable."""
        cluster.create_topic(topic, partitions=1, config=_CONFIG)
        self._cluster = cluster
        self._topic = topic
        self._kind = kind
        self._called = called
        self._reader = TopicReader(cluster.bootstrap, topic, 1, fetch_wait_ms=_FETCH_WAIT_MS)
        self._writer = RecordWriter(cluster.bootstrap, timeout_seconds=_WRITE_SECONDS)
        self._known: dict[str, W] = {}
        # To the end, so that a wish that was answered is never taken for one that was not.
        ends = cluster.end_offsets(topic)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._reader.has_read(ends):
            if time.monotonic() > deadline:
                raise log_late(cluster.bootstrap, f"read topic `{topic}`", PATIENCE_SECONDS)
            self._take(self._reader.poll(_POLL_SECONDS))

    def close(self) -> None:
        self._reader.close()
        self._writer.close()

    def begin_next(self) -> W | None:
        """The oldest wish without an answer, which is to be carried out now. Raises log_unavailable."""
        self._take(self._reader.poll(0))
        for wish in self._known.values():
            if wish.state == "ASKED":
                break
        else:
            return None
        if wish.attempts >= _MOST_ATTEMPTS:
            why = (
                f"The pipeline process ended {wish.attempts} times while it carried out this {self._called}."
            )
            self.write(wish.failed(why))
            return None
        begun = dataclasses.replace(wish, attempts=wish.attempts + 1)
        self.write(begun)
        return begun

    def write(self, wish: W) -> None:
        """Ask, begin or answer. Raises log_unavailable."""
        self._write(wish.id, msgspec.json.encode(wish))
        self._known[wish.id] = wish

    def forget(self, wishes: Sequence[W]) -> None:
        """Remove wishes whose answers were read, or which nobody waits for any more."""
        for wish in wishes:
            self._write(wish.id, None)
            self._known.pop(wish.id, None)

    def wait_for(
        self, asked: Sequence[W], seconds: float, *, on_sign: Callable[[W], None] = lambda _: None
    ) -> list[W]:
        """The answers, in the order of the wishes. `on_sign` hears of each that was begun or goes on.

        Raises not_running if the pipeline process neither begins with a wish nor answers one for so long.
        """
        waiting = {wish.id: wish for wish in asked}
        answers: dict[str, W] = {}
        deadline = time.monotonic() + seconds
        while waiting:
            for id_, before in list(waiting.items()):
                now = self._known.get(id_, before)
                if now != before:
                    deadline = time.monotonic() + seconds
                    waiting[id_] = now
                    if now.state == "ASKED":
                        on_sign(now)
                if now.state != "ASKED":
                    answers[id_] = waiting.pop(id_)
            if waiting and time.monotonic() > deadline:
                raise HeadraceError(
                    "not_running",
                    f"The pipeline process has not answered {_a(self._called)} for {seconds:g} s.",
                    remedy="Check that it runs (`headrace status`), then ask again.",
                )
            if waiting:
                self._take(self._reader.poll(_POLL_SECONDS))
        return [answers[wish.id] for wish in asked]

    def _write(self, key: str, value: bytes | None) -> None:
        try:
            self._writer.write(Outgoing(topic=self._topic, key=key.encode(), value=value))
        except NotAcknowledgedError as error:
            raise log_refused(
                self._cluster.bootstrap, f"write to topic `{self._topic}`", error.error
            ) from error

    def _take(self, records: list[Record]) -> None:
        for record in records:
            key, value = (record.key() or b"").decode("utf-8", "replace"), record.value()
            if value is None:
                self._known.pop(key, None)
                continue
            try:
                wish = msgspec.json.decode(value, type=self._kind)
            except msgspec.DecodeError as error:
                _log.warning("A record of %s is not %s: %s", self._topic, _a(self._called), error)
                continue
            known = self._known.get(key)
            # What this side has written comes back by and by, and must not undo what it has written since.
            if known is None or (known.state == "ASKED" and wish.attempts >= known.attempts):
                self._known[key] = wish


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
