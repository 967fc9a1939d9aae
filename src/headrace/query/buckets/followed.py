"""One table in a bucket, followed: its log is read once, and then only what is new.

Whether there is something new takes a request or two, for the commit after the last and for the last one
itself: no listing. Invariants: one look at a time, in a thread of its own, so that a server that hangs holds
up nobody else; a table that was deleted and recreated is read anew. Safe for several threads. Never writes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from headrace.core.errors import HeadraceError
from headrace.lake.delta_log import DeltaLog, VersionChangedError
from headrace.lake.location import Location
from headrace.lake.storage.table_files import StorageError
from headrace.lake.table_state import TableState
from headrace.query.buckets.log_snapshot import FileBounds, bucket_snapshot, hasty_files, missing_snapshot
from headrace.query.table_snapshot import BucketSnapshot

# What a question may take for new without asking the bucket.
FRESH_SECONDS: Final = 1.0
# What still counts if the bucket does not answer; the tail has what is newer.
_STALE_SECONDS: Final = 10.0
# A failure is the answer for so long: not each question waits for a server that hangs.
_FAILED_SECONDS: Final = 2.0

_logger = logging.getLogger(__name__)


class FollowedBucketTable:
    """The table with this name at this location."""

    def __init__(self, name: str, location: Location, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self.location = location
        self._clock = clock
        self._lock = threading.Lock()
        self._looking: Future[None] | None = None
        self._state: TableState | None = None
        self._bounds = FileBounds()
        self._snapshot: BucketSnapshot | None = None
        self._exists = True
        self._checked: float | None = None
        self._failure: tuple[float, str] | None = None

    @property
    def snapshot(self) -> BucketSnapshot | None:
        """As it was seen last; None if the bucket has no such table."""
        with self._lock:
            if self._snapshot is not None:
                return self._snapshot
            if not self._exists:
                return None
            reason = self._failure[1] if self._failure else "its log has not been read yet"
            return missing_snapshot(self.name, self.location, reason)

    @property
    def failure(self) -> str:
        """Why nothing can be said about the table now; empty if something can."""
        with self._lock:
            if self._checked is not None and self._clock() - self._checked < _STALE_SECONDS:
                return ""
            if self._failure is not None:
                return self._failure[1]
            if self._looking is None:
                return ""
            return f"{self.location} has not answered yet, or its log takes long to read"

    @property
    def has_failed(self) -> bool:
        """Whether the last look failed."""
        return self._failure is not None

    def doubt(self) -> None:
        """What was seen last does not count any more: a file of it is gone."""
        with self._lock:
            self._checked = None

    def look(self, *, fresh_seconds: float = FRESH_SECONDS) -> Future[None] | None:
        """Look at the log, unless somebody did within this time. What is done when it has been looked at."""
        with self._lock:
            now = self._clock()
            if self._looking is not None:
                return self._looking
            if self._checked is not None and now - self._checked < fresh_seconds:
                return None
            if self._failure is not None and now - self._failure[0] < _FAILED_SECONDS:
                return None
            looking: Future[None] = Future()
            self._looking = looking
        thread = threading.Thread(
            target=self._look, args=(looking,), name=f"log of {self.location.name}", daemon=True
        )
        thread.start()
        return looking

    def _look(self, looking: Future[None]) -> None:
        begun = self._clock()
        failure = ""
        try:
            self._advance()
        except FileNotFoundError:
            self._gone()
        except (OSError, ValueError, KeyError, HeadraceError) as error:
            failure = error.message if isinstance(error, HeadraceError) else str(error)
            if not isinstance(error, StorageError):
                _logger.warning("The log of %s cannot be read: %s", self.location, failure)
        except Exception:
            # A bug of ours must not leave the table without anybody who looks at it.
            _logger.exception("The log of %s cannot be read", self.location)
            failure = "its log cannot be read"
        finally:
            with self._lock:
                if failure:
                    self._failure = (self._clock(), failure)
                else:
                    self._failure = None
                    self._checked = begun
                self._looking = None
            looking.set_result(None)

    def _advance(self) -> None:
        """Raises FileNotFoundError if there is no table."""
        before = state = self._state
        if state is not None:
            try:
                state.follow()
            except (VersionChangedError, FileNotFoundError, ValueError) as error:
                # Repaired, restored from a copy, deleted, or recreated.
                _logger.info("Rereading the log of %s: %s", self.location, error)
                state = None
        if state is None:
            self._state = None
            self._bounds = FileBounds()
            state = TableState(DeltaLog(self.location, opens=hasty_files))
        self._state = state
        known = self._snapshot
        if state is not before or known is None or known.version != state.version.number:
            found = bucket_snapshot(self.name, self.location, state, self._bounds)
            with self._lock:
                self._snapshot, self._exists = found, True

    def _gone(self) -> None:
        with self._lock:
            self._state = None
            self._snapshot, self._exists = None, False
