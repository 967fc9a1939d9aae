"""The topic `_statements`: the source of truth for streams, tables and queries, followed and appended to.

Used by the gateway, which decides on statements, and by the pipeline process, which runs what the catalogue
says. Invariants: the catalogue changes only in the reading thread, by replay; a statement is answered after
its record was read back and counts, so whoever asks this log afterwards sees what it did; a decision is
made on the catalogue that it changes (`log_state.py`). Crash behaviour: a record is there as a whole
or not at all; of one that was not acknowledged nobody knows, until the log was read to its end. Never keeps
a statement anywhere but in the log.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headrace.client.followed import CompactedLog
from headrace.client.reading import Record
from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.catalogue import Catalogue
from headrace.pipeline.catalogue.log_state import LogState
from headrace.pipeline.catalogue.records import (
    Effect,
    OtherRecord,
    Outcome,
    RetiredRecord,
    StatementRecord,
    WrittenRecord,
    decode,
    encode,
)

_log = logging.getLogger(__name__)

TOPIC: Final = "_statements"
SNAPSHOT_EVERY: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a statement is to change. In `message`, `{query}` stands for the id that its query gets."""

    text: str
    command: str
    message: str
    effects: tuple[Effect, ...]


class StatementLog:
    """The statements of one cluster. All methods may be called from any thread; all but `catalogue` may
    block.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        topic: str = TOPIC,
        timeout: float = 15.0,
        snapshot_every: int = SNAPSHOT_EVERY,
        log_type: type[CompactedLog] = CompactedLog,
    ) -> None:
        """`timeout` is how long a call waits for the log, in seconds."""
        self._timeout = timeout
        self._snapshot_every = snapshot_every
        self._state = LogState()
        self._log = log_type(bootstrap, topic, self._replay, holds="statements", timeout=timeout)
        # Guards the state; is notified whenever more has been read.
        self._progress = self._log.progress
        # Held during a statement: those of one process come one after the other.
        self._deciding = threading.Lock()

    def start(self) -> None:
        """Make the topic if it is missing and read all of it. Raises log_unavailable."""
        self._log.start()

    def stop(self) -> None:
        """Stop following the log; the catalogue as it was read stays."""
        self._log.stop()

    @property
    def catalogue(self) -> Catalogue:
        """As far as was read; call `read_to_end` before for what is there now."""
        with self._progress:
            return self._state.catalogue

    @property
    def last(self) -> int:
        """The offset of the last statement that counts."""
        with self._progress:
            return self._state.last

    def commands(self) -> dict[str, Outcome]:
        """Of each recent command its newest outcome."""
        with self._progress:
            return self._state.commands()

    def wait_beyond(self, last: int, timeout: float) -> bool:
        """Wait until a statement behind the one at `last` counts; False when the time is over."""
        return self._log.wait_for(lambda: self._state.last > last, timeout)

    def wait_for(self, offset: int, timeout: float) -> bool:
        """Wait until all up to and with `offset` was read; False when the time is over."""
        return self._log.wait_until_read({0: offset + 1}, timeout)

    def read_to_end(self) -> Catalogue:
        """Everything that is in the log now. Raises log_unavailable."""
        self._log.read_to_end()
        return self.catalogue

    def commit(
        self,
        decide: Callable[[Catalogue], Decision],
        prepare: Callable[[Decision], None] = lambda _: None,
    ) -> Outcome:
        """Log what `decide` makes of the catalogue; what became of it, once it counts.

        `decide` is called again when another statement came in between; what it raises ends the commit.
        `prepare` does what has to be there before the statement is (topics, schemas): it may be called more
        than once, and is not undone if the statement fails after all. Raises log_unavailable.
        """
        with self._deciding:
            outcome = self._commit(decide, prepare)
            try:
                self._tidy()
            except HeadraceError as error:
                # The statement counts all the same; the next one tidies up.
                _log.warning("no snapshot of %s was written: %s", self._log.topic, error)
        return outcome

    def _commit(
        self, decide: Callable[[Catalogue], Decision], prepare: Callable[[Decision], None]
    ) -> Outcome:
        deadline = time.monotonic() + self._timeout
        attempts: list[str] = []
        while True:
            self.read_to_end()
            with self._progress:
                catalogue, last = self._state.catalogue, self._state.last
                found = [outcome for attempt in attempts if (outcome := self._state.outcome(attempt))]
            if found:
                return found[0]
            if attempts and time.monotonic() >= deadline:
                raise self._log.late("write the statement")
            decision = decide(catalogue)
            prepare(decision)
            # A new id for each attempt. One that was not acknowledged may still come: it follows the same
            # statement, so at most one of them counts.
            attempts.append(uuid.uuid4().hex)
            self._write(
                StatementRecord(
                    id=attempts[-1],
                    after=last,
                    text=decision.text,
                    command=decision.command,
                    message=decision.message,
                    effects=decision.effects,
                )
            )

    def _write(self, record: WrittenRecord) -> bool:
        """Write it and wait until it was read back; False if nobody knows whether it is written."""
        return self._log.append(*encode(record))

    def _tidy(self) -> None:
        """Write a snapshot when it is time, and take back what it stands for once it was read back."""
        with self._progress:
            due = self._state.since_snapshot >= self._snapshot_every
            snapshot = self._state.snapshot()
        if due and not self._write(snapshot):
            return
        with self._progress:
            superfluous = self._state.superfluous()
        for key in superfluous:
            self._log.append_later(*encode(RetiredRecord(key=key)))

    def _replay(self, message: Record) -> None:
        """Runs in the reading thread, with `_progress` held."""
        record = decode(message.key(), message.value())
        if isinstance(record, OtherRecord):
            _log.warning("a record of %s makes no sense: %s", message.topic(), record.reason)
        self._state.replay(message.offset() or 0, record)
