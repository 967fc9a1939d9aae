"""One task in its thread: started, paused, resumed, stopped, or failed with its trace.

Invariants: the task belongs to the thread; whatever the task's code raises makes the task FAILED and nothing
else, whatever that is and even if nobody can print it; `stop` returns within its time, and a thread that is
still busy then is abandoned: it reports nothing any more, and `is_abandoned` keeps it from writing. Never
restarts by itself.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.connect.data import SinkRecord
from headrace.connect.plugins import Config, Plugin
from headrace.connect.state.statuses import State
from headrace.connect.worker.error_handling import ErrorHandling
from headrace.connect.worker.parts import WorkerParts

# State and trace.
Report = Callable[[State, str | None], None]
# After this pause a task that asked to be asked again is.
RETRY_SECONDS: Final = 1.0

_log = logging.getLogger(__name__)


class TaskRunner(ABC):
    """Subclasses know sources and sinks."""

    def __init__(
        self,
        *,
        connector: str,
        number: int,
        config: Config,
        plugin: Plugin,
        parts: WorkerParts,
        report: Report,
        paused: bool = False,
    ) -> None:
        self.connector = connector
        self.number = number
        self.config = config
        self.plugin = plugin
        self.parts = parts
        self.is_abandoned = False
        self.has_failed = False
        self._report = report
        self._stopping = threading.Event()
        self._changed = threading.Condition()
        self._wants_pause = paused
        self.errors = ErrorHandling(parts.bootstrap, connector=connector, task=number, config=config)
        self._thread = threading.Thread(target=self._run, name=f"task {connector}-{number}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def pause(self) -> None:
        self._set_pause(True)

    def resume(self) -> None:
        self._set_pause(False)

    def ask_to_stop(self) -> None:
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()

    def wait_stopped(self, seconds: float) -> bool:
        """False if it did not stop in time, and is abandoned."""
        self._thread.join(max(0.0, seconds))
        if self._thread.is_alive():
            self.is_abandoned = True
            _log.warning("task %s-%d does not stop and is abandoned", self.connector, self.number)
        return not self.is_abandoned

    # What a task may ask: the TaskContext of `plugins.py`.

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until the task has to stop; whether it has to."""
        return self._stopping.wait(seconds)

    def source_offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return self.parts.offsets.offset(self.connector, partition)

    @abstractmethod
    def report(self, record: SinkRecord, error: Exception) -> None:
        """Send a record to the dead letters."""

    @abstractmethod
    def run_task(self) -> None:
        """Make the task, start it, work until `must_stop`, and end it. Raises whatever the task raises."""

    @property
    def must_stop(self) -> bool:
        return self._stopping.is_set() or self.is_abandoned

    @property
    def wants_pause(self) -> bool:
        return self._wants_pause and not self.must_stop

    def say(self, state: State, trace: str | None = None) -> None:
        if not self.is_abandoned:
            self._report(state, trace)

    def wait_while_paused(self, seconds: float | None = None) -> None:
        """Return when the task is resumed or has to stop; with `seconds`, after that long at the latest."""
        with self._changed:
            self._changed.wait_for(lambda: not self.wants_pause, seconds)

    def _set_pause(self, wanted: bool) -> None:
        with self._changed:
            self._wants_pause = wanted
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            if self.wants_pause:
                # As in Kafka, a task that begins paused is started when it is resumed.
                self.say("PAUSED")
                self.wait_while_paused()
            if not self.must_stop:
                self.run_task()
        # Plugins are other people's code: not even an exit of theirs may end more than the task. And
        # librdkafka's client can raise what is no BaseException.
        except:  # noqa: E722
            self.has_failed = True
            trace = _trace()
            _log.error("task %s-%d has failed: %s", self.connector, self.number, trace)
            self.say("FAILED", trace)
        finally:
            try:
                self.errors.close()
            except Exception:
                _log.exception("task %s-%d left dead letters behind", self.connector, self.number)


def _trace() -> str:
    """Of what is being handled."""
    kind, error, _ = sys.exc_info()
    try:
        return traceback.format_exc()
    except Exception:
        return f"{kind}: {error!r}"
