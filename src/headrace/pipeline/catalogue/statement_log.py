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

from confluent_kafka import KafkaException

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

# A compacted topic of one partition is read and written there; what its records say is not its business.
from headrace.registry.log import NotAcknowledgedError, SchemaReader, SchemaWriter, ensure_topic, unavailable

_log = logging.getLogger(__name__)

TOPIC: Final = "_statements"
SNAPSHOT_EVERY: Final = 500
_POLL_SECONDS: Final = 0.2


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
    ) -> None:
        """`timeout` is how long a call waits for the log, in seconds."""
        self._bootstrap = bootstrap
        self._topic = topic
        self._timeout = timeout
        self._snapshot_every = snapshot_every
        self._state = LogState()
        # Guards the state and the two fields below; is notified whenever more has been read.
        self._progress = threading.Condition()
        self._read_to = -1
        self._stopping = False
        self._reader: SchemaReader | None = None
        self._thread: threading.Thread | None = None
        self._writer = SchemaWriter(bootstrap, topic)
        # Held during a statement: those of one process come one after the other.
        self._deciding = threading.Lock()

    def start(self) -> None:
        """Make the topic if it is missing and read all of it. Raises log_unavailable."""
        ensure_topic(self._bootstrap, self._topic, self._timeout)
        self._writer.open()
        self._reader = SchemaReader(self._bootstrap, self._topic)
        self._thread = threading.Thread(
            target=self._follow, args=(self._reader,), name="statements", daemon=True
        )
        self._thread.start()
        try:
            self.read_to_end()
        except HeadraceError:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop following the log; the catalogue as it was read stays."""
        with self._progress:
            self._stopping = True
            self._progress.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        with self._deciding:
            self._writer.close()

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
        with self._progress:
            return self._progress.wait_for(lambda: self._state.last > last or self._stopping, timeout)

    def wait_for(self, offset: int, timeout: float) -> bool:
        """Wait until all up to and with `offset` was read; False when the time is over."""
        with self._progress:
            self._progress.wait_for(lambda: self._read_to > offset or self._stopping, timeout)
            return self._read_to > offset

    def read_to_end(self) -> Catalogue:
        """Everything that is in the log now. Raises log_unavailable."""
        if self._reader is None or self._stopping:
            raise HeadraceError("log_unavailable", "The statement log is not followed.")
        try:
            end = self._reader.end_offset(self._timeout)
        except KafkaException as error:
            raise unavailable(self._bootstrap, error) from error
        self._wait_until_read(end)
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
                _log.warning("no snapshot of %s was written: %s", self._topic, error)
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
                raise self._late("write the statement")
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
        if not self._writer.is_open:
            self._writer.open()
        try:
            offset = self._writer.write(*encode(record), self._timeout)
        except NotAcknowledgedError as error:
            _log.info("%s may or may not be in %s: %s", type(record).__name__, self._topic, error)
            return False
        self._wait_until_read(offset + 1)
        return True

    def _tidy(self) -> None:
        """Write a snapshot when it is time, and take back what it stands for once it was read back."""
        with self._progress:
            due = self._state.since_snapshot >= self._snapshot_every
            snapshot = self._state.snapshot()
        if due and not self._write(snapshot):
            return
        with self._progress:
            superfluous = self._state.superfluous()
        if self._writer.is_open:
            for key in superfluous:
                self._writer.write_later(*encode(RetiredRecord(key=key)))

    def _wait_until_read(self, offset: int) -> None:
        with self._progress:
            self._progress.wait_for(lambda: self._read_to >= offset or self._stopping, self._timeout)
            if self._read_to < offset:
                raise self._late("read the statements")

    def _late(self, what: str) -> HeadraceError:
        return HeadraceError(
            "log_unavailable",
            f"The statement log could not {what} within {self._timeout:g} s.",
            remedy="Check that the log runs (`headrace status`), then try again.",
        )

    def _follow(self, reader: SchemaReader) -> None:
        """Runs in the reading thread."""
        try:
            while not self._stopping:
                message, read_to = reader.poll(_POLL_SECONDS)
                record = decode(message.key(), message.value()) if message is not None else None
                if isinstance(record, OtherRecord):
                    _log.warning("a record of %s makes no sense: %s", self._topic, record.reason)
                if read_to is not None:
                    with self._progress:
                        if record is not None and message is not None:
                            self._state.replay(message.offset() or 0, record)
                        self._read_to = max(self._read_to, read_to)
                        self._progress.notify_all()
        finally:
            reader.close()
