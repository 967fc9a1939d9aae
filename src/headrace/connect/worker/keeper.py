"""Keeps one connector as it is wanted: a thread that compares the wish with what runs, and changes the
latter.

Each connector has its own, so one that hangs while it starts or stops holds up no other. Invariants: only
this thread starts and stops tasks; statuses are written when they change, and again later if the log was
away; a connector that cannot be started is FAILED with the reason, until its configuration changes or
somebody restarts it. Never writes a configuration or a target state, only tasks.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from headrace.connect.common_settings import most_tasks
from headrace.connect.plugins import Plugin
from headrace.connect.state.configs import ConnectorWish
from headrace.connect.state.statuses import State, Status
from headrace.connect.worker.parts import WorkerParts
from headrace.connect.worker.sink_runner import SinkRunner
from headrace.connect.worker.source_runner import SourceRunner
from headrace.connect.worker.task_runner import Report, TaskRunner
from headrace.core.errors import HeadraceError

# How often statuses that could not be written are tried again.
_RETRY_SECONDS: Final = 2.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What was carried out last."""

    config_version: int
    target: str
    restart_version: int

    @classmethod
    def of(cls, wish: ConnectorWish) -> Self:
        return cls(
            config_version=wish.config_version, target=wish.target, restart_version=wish.restart.version
        )


class ConnectorKeeper:
    """`want` may be called from any thread; None ends the keeper."""

    def __init__(self, name: str, parts: WorkerParts, predecessor: ConnectorKeeper | None = None) -> None:
        """Begins when the predecessor, of a deleted connector of the same name, has ended."""
        self._name = name
        self._parts = parts
        self._predecessor = predecessor
        self._changed = threading.Condition()
        self._wish: ConnectorWish | None = None
        self._is_ending = False
        self._is_new = False
        self._tasks_to_restart: set[int] = set()
        self._done: Done | None = None
        self._plugin: Plugin | None = None
        self._runners: dict[int, TaskRunner] = {}
        self._statuses = _Statuses(name, parts)
        self._thread = threading.Thread(target=self._keep, name=f"connector {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def want(self, wish: ConnectorWish | None) -> None:
        with self._changed:
            if wish is None:
                self._is_ending = True
            self._wish = wish
            self._is_new = True
            self._changed.notify_all()

    def restart_task(self, number: int) -> None:
        with self._changed:
            self._tasks_to_restart.add(number)
            self._is_new = True
            self._changed.notify_all()

    def wait_done(self, wish: ConnectorWish, seconds: float) -> bool:
        """Wait until this wish was carried out; False if time runs out."""
        with self._changed:
            return self._changed.wait_for(lambda: self._done == Done.of(wish), seconds)

    def wait_ended(self, seconds: float) -> bool:
        self._thread.join(max(0.0, seconds))
        return not self._thread.is_alive()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def _keep(self) -> None:
        if self._predecessor is not None:
            self._predecessor.wait_ended(2 * self._parts.graceful_seconds)
            self._predecessor = None
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_new, _RETRY_SECONDS)
                wish, self._is_new = self._wish, False
                restarts, self._tasks_to_restart = self._tasks_to_restart, set()
                is_ending = self._is_ending
            if is_ending:
                self._stop_tasks(self._runners)
                return
            try:
                if wish is not None:
                    self._change(wish, restarts)
                self._statuses.write_again()
            except Exception:
                # Of ours, or of a log that is away: what failed is tried again with the next change.
                _log.exception("connector %s could not be changed", self._name)

    def _change(self, wish: ConnectorWish, tasks_to_restart: set[int]) -> None:
        done = self._done
        now = Done.of(wish)
        if done is None or now.config_version != done.config_version:
            self._begin(wish)
        else:
            if now.target != done.target:
                self._turn(wish)
            if now.restart_version > done.restart_version:
                self._restart(wish)
        for number in tasks_to_restart & self._runners.keys():
            self._restart_tasks(wish, {number})
        with self._changed:
            self._done = now
            self._changed.notify_all()

    def _begin(self, wish: ConnectorWish) -> None:
        """Start with a new configuration, whatever ran before."""
        self._stop_tasks(self._runners)
        self._runners = {}
        self._plugin = self._parts.plugins.of(wish.config)
        self._statuses.version = self._plugin.version if self._plugin is not None else None
        if wish.target == "STOPPED":
            self._stop(wish)
        elif wish.target == "PAUSED" and not wish.tasks:
            # As in Kafka: a connector that was never started has no tasks yet.
            self._statuses.connector("PAUSED")
        else:
            self._start(wish)

    def _turn(self, wish: ConnectorWish) -> None:
        if wish.target == "STOPPED":
            self._stop(wish)
        elif not self._runners:
            self._begin(wish)
        else:
            for runner in self._runners.values():
                runner.pause() if wish.target == "PAUSED" else runner.resume()
            self._statuses.connector("PAUSED" if wish.target == "PAUSED" else "RUNNING")

    def _stop(self, wish: ConnectorWish) -> None:
        self._stop_tasks(self._runners)
        self._runners = {}
        if wish.tasks:
            self._parts.configs.set_tasks(self._name, [])
        self._statuses.without_tasks()
        self._statuses.connector("STOPPED")

    def _restart(self, wish: ConnectorWish) -> None:
        failed = {number for number, runner in self._runners.items() if runner.has_failed}
        if wish.target == "STOPPED":
            return
        if self._statuses.connector_failed or not wish.restart.only_failed:
            if not self._runners or self._statuses.connector_failed:
                self._begin(wish)
                return
            self._statuses.connector("RESTARTING")
            self._statuses.connector("PAUSED" if wish.target == "PAUSED" else "RUNNING")
        if wish.restart.include_tasks:
            self._restart_tasks(wish, failed if wish.restart.only_failed else set(self._runners))

    def _restart_tasks(self, wish: ConnectorWish, numbers: set[int]) -> None:
        self._stop_tasks({number: self._runners[number] for number in numbers})
        for number in sorted(numbers):
            self._statuses.task(number, "RESTARTING", None)
            self._start_task(number, self._runners[number].config, wish)

    def _start(self, wish: ConnectorWish) -> None:
        try:
            tasks = self._task_configs(wish)
        except HeadraceError as error:
            self._statuses.connector("FAILED", str(error))
            return
        except BaseException:
            _log.exception("connector %s has failed", self._name)
            self._statuses.connector("FAILED", traceback.format_exc())
            return
        if list(wish.tasks) != tasks:
            self._parts.configs.set_tasks(self._name, tasks)
        self._statuses.without_tasks(from_number=len(tasks))
        self._statuses.connector("PAUSED" if wish.target == "PAUSED" else "RUNNING")
        for number, config in enumerate(tasks):
            self._start_task(number, config, wish)

    def _task_configs(self, wish: ConnectorWish) -> list[Mapping[str, str]]:
        if self._plugin is None:
            raise HeadraceError(
                "connector_invalid",
                f"Failed to find any class that implements Connector and which name matches "
                f"{wish.config.get('connector.class')}",
            )
        most = most_tasks(wish.config)
        made = list(self._plugin.task_configs(wish.config, most))
        if len(made) > most and wish.config.get("tasks.max.enforce", "true").strip().lower() == "true":
            raise HeadraceError(
                "connector_invalid",
                f"The connector {wish.name} has generated {len(made)} tasks, which is greater than {most}, "
                "the maximum number of tasks it is configured to create.",
            )
        return [{**config, "task.class": self._plugin.task_class} for config in made]

    def _start_task(self, number: int, config: Mapping[str, str], wish: ConnectorWish) -> None:
        assert self._plugin is not None
        kind = SourceRunner if self._plugin.kind == "source" else SinkRunner
        self._runners[number] = kind(
            connector=self._name,
            number=number,
            config=config,
            plugin=self._plugin,
            parts=self._parts,
            report=self._reporting(number),
            paused=wish.target == "PAUSED",
        )
        self._runners[number].start()

    def _reporting(self, number: int) -> Report:
        return lambda state, trace: self._statuses.task(number, state, trace)

    def _stop_tasks(self, runners: Mapping[int, TaskRunner]) -> None:
        """All at once: each has the same time."""
        for runner in runners.values():
            runner.ask_to_stop()
        deadline = time.monotonic() + self._parts.graceful_seconds
        for runner in runners.values():
            runner.wait_stopped(deadline - time.monotonic())


class _Statuses:
    """The statuses of one connector on their way to the log. Safe for several threads."""

    def __init__(self, name: str, parts: WorkerParts) -> None:
        self._name = name
        self._parts = parts
        self._lock = threading.RLock()
        # By task, None for the connector.
        self._unwritten: dict[int | None, Status] = {}
        self.connector_failed = False
        self.version: str | None = None

    def connector(self, state: State, trace: str | None = None) -> None:
        self.connector_failed = state == "FAILED"
        self._put(None, state, trace)

    def task(self, number: int, state: State, trace: str | None) -> None:
        self._put(number, state, trace)

    def without_tasks(self, from_number: int = 0) -> None:
        """Remove the statuses of tasks that are no more."""
        with self._lock:
            for number in self._parts.statuses.tasks(self._name):
                if number >= from_number:
                    self._unwritten.pop(number, None)
                    self._parts.statuses.remove_task(self._name, number)

    def write_again(self) -> None:
        with self._lock:
            for key, status in list(self._unwritten.items()):
                self._write(key, status)

    def _put(self, key: int | None, state: State, trace: str | None) -> None:
        status = Status(state=state, worker_id=self._parts.worker_id, trace=trace, version=self.version)
        with self._lock:
            self._unwritten[key] = status
            self._write(key, status)

    def _write(self, key: int | None, status: Status) -> None:
        statuses = self._parts.statuses
        try:
            written = (
                statuses.put_connector(self._name, status)
                if key is None
                else statuses.put_task(self._name, key, status)
            )
        except HeadraceError as error:
            _log.warning("the status of connector %s was not written: %s", self._name, error)
            return
        if written:
            self._unwritten.pop(key, None)
