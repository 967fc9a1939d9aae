"""The supervisor: runs the platform's processes, restarts those that die, drains them in order.

One thread does everything and checks all processes several times a second; other threads make requests
through flags and read what it published. Invariants: one supervisor per data folder (the lock); a process
starts only when what it needs is ready, and is asked to end only when the processes it outlives are gone;
when one fails, the others keep running, however often it does, and when the log restarts they reconnect;
only a start without the log is abandoned; every change goes to the state file, the supervisor's log and
`on_change`. Knows nothing of what a process does: that is data in
`process_specs.py`.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final

from headrace.assembly.platform_lock import PlatformLock
from headrace.assembly.platform_state import PlatformState, ProcessState, touch_state, write_state
from headrace.assembly.ports import check_ports
from headrace.assembly.process_family import kill_leftovers
from headrace.assembly.process_logging import SingleLineFormatter
from headrace.assembly.process_specs import PROCESSES, ProcessSpec
from headrace.assembly.restarts import RestartPolicy
from headrace.assembly.supervised_process import SupervisedProcess
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings

_log = logging.getLogger(__name__)
_LOOK_SECONDS: Final = 0.1
_TOUCH_SECONDS: Final = 1.0


class Supervisor:
    """The platform on one data folder. Use `start`, then `wait` or `stop`; or as a context manager.

    `on_change` is called with each new state of a process, on the supervisor's thread: it must be quick and
    must not call `stop` or `wait`. `whole`: a start that does not get every process running is abandoned, for
    callers to whom a part of the platform is of no use.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        on_change: Callable[[ProcessState], None] | None = None,
        specs: Iterable[ProcessSpec] = PROCESSES,
        policy: RestartPolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
        whole: bool = False,
    ) -> None:
        self._settings = settings
        self._specs = tuple(specs)
        self._on_change = on_change
        self._policy = policy or RestartPolicy()
        self._clock = clock
        self._whole = whole
        self._lock = PlatformLock(settings)
        self._processes: dict[str, SupervisedProcess] = {}
        self._published: tuple[ProcessState, ...] = ()
        self._since = 0.0
        self._touched = 0.0
        self._broken: set[str] = set()
        self._thread: threading.Thread | None = None
        self._settled = threading.Event()
        self._failure: HeadraceError | None = None
        # Plain attributes, not events: a signal handler sets them, and must not wait for a lock.
        self._drain_asked = False
        self._kill_asked = False

    def start(self) -> bool:
        """Start everything and block until all processes are ready or broken; False if a stop was requested
        meanwhile.

        A broken process is restarted for ever while the others run: `states` tells. Raises `data_dir_in_use`,
        `port_in_use`, or `process_failed` with the last log lines of the log's process, if that is broken (or
        of any process, if the `whole` platform is wanted); then nothing is left running.
        """
        self._lock.acquire()
        try:
            self._prepare()
        except BaseException:
            self._lock.release()
            raise
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        self._thread.start()
        try:
            while not self._settled.wait(_LOOK_SECONDS):
                # Wait in short steps, for the reason given in `wait`.
                continue
        except BaseException:
            # Ctrl-C without a handler that requests the drain.
            self.stop()
            raise
        if self._failure is not None:
            self.wait()
        return not self._drain_asked

    def wait(self, timeout: float | None = None) -> bool:
        """Block until all processes have ended, or for `timeout` seconds; True if they have ended.

        Raises if they ended because the supervisor or the start failed.
        """
        if self._thread is None:
            return True
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._thread.is_alive():
            left = _LOOK_SECONDS if deadline is None else min(_LOOK_SECONDS, deadline - time.monotonic())
            if left <= 0:
                return False
            # Not one long wait: the kernel may deliver a signal to another thread, and Python runs its
            # handler only when the main thread stops waiting.
            self._thread.join(left)
        if self._failure is not None:
            raise self._failure
        return True

    def stop(self, *, at_once: bool = False) -> None:
        """Drain in order (or kill at once) and block until all processes have ended."""
        self.request_stop(at_once=at_once)
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(_LOOK_SECONDS)

    def request_stop(self, *, at_once: bool = False) -> None:
        """Request a drain (or a kill) and return; may be called from a signal handler."""
        if at_once:
            self._kill_asked = True
        self._drain_asked = True

    def states(self) -> tuple[ProcessState, ...]:
        """The states of the processes, in the order in which they start."""
        return self._published

    def __enter__(self) -> Supervisor:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _prepare(self) -> None:
        # We hold the lock, so every process with this folder's mark has lost its supervisor.
        if not kill_leftovers(self._settings.data_dir):
            raise HeadraceError(
                "process_failed",
                f"Cannot end processes left behind by an earlier run on {self._settings.data_dir}.",
                remedy="End them by hand and try again.",
            )
        check_ports(self._settings, self._specs)
        self._settings.log_dir.mkdir(parents=True, exist_ok=True)

    def _run(self) -> None:
        try:
            with _logging_to(self._settings.log_dir / "supervisor.log"), _pipe() as read_end:
                self._since = time.time()
                self._processes = {
                    spec.name: SupervisedProcess(
                        spec, self._settings, policy=self._policy, pipe=read_end, clock=self._clock
                    )
                    for spec in self._specs
                }
                self._supervise()
        except Exception as error:
            self._failure = HeadraceError("process_failed", f"The supervisor failed: {error!r}.")
        finally:
            self._lock.release()
            self._settled.set()

    def _supervise(self) -> None:
        _log.info("supervisor started as pid %d on %s", os.getpid(), self._settings.data_dir)
        try:
            self._keep_running()
            self._drain()
        except BaseException:
            _log.exception("the supervisor failed; killing its processes")
            self._kill_all()
            raise
        _log.info("all processes have ended")

    def _keep_running(self) -> None:
        while not self._drain_asked:
            ready = self._ready()
            for process in self._processes.values():
                process.step(may_start=ready.issuperset(process.spec.needs))
            self._publish()
            self._note_broken()
            if not self._settled.is_set():
                self._failure = self._hopeless_start()
                if self._failure is not None:
                    _log.error("giving up: %s", self._failure)
                    return
                ready = self._ready()
                if all(name in ready or process.broken for name, process in self._processes.items()):
                    _log.info("ready: %s", ", ".join(sorted(ready)))
                    self._settled.set()
            time.sleep(_LOOK_SECONDS)

    def _drain(self) -> None:
        while not self._kill_asked:
            running = {name for name, process in self._processes.items() if process.state.state != "stopped"}
            if not running:
                return
            for process in self._processes.values():
                process.drain(may_end=running.isdisjoint(process.spec.drains_after))
            self._publish()
            time.sleep(_LOOK_SECONDS)
        _log.warning("killing all processes at once")
        self._kill_all()

    def _kill_all(self) -> None:
        for process in self._processes.values():
            process.kill()
        self._publish()

    def _ready(self) -> set[str]:
        return {name for name, process in self._processes.items() if process.state.state == "running"}

    def _note_broken(self) -> None:
        """Log what is broken, once, with the end of its log."""
        for name, process in self._processes.items():
            if process.state.state == "running":
                self._broken.discard(name)
            elif process.broken and name not in self._broken:
                self._broken.add(name)
                _log.error("%s; the others go on", _what_is_broken(process))

    def _hopeless_start(self) -> HeadraceError | None:
        """Why the start is abandoned: a process without which there is nothing to start is broken."""
        for process in self._processes.values():
            wanted = self._whole or (process.spec.essential and not process.was_ready)
            if wanted and process.broken:
                return _what_is_broken(process)
        return None

    def _publish(self) -> None:
        states = tuple(process.state for process in self._processes.values())
        if states == self._published:
            self._touch()
            return
        before = {state.name: state for state in self._published}
        self._published = states
        self._touched = self._clock()
        try:
            write_state(
                self._settings,
                PlatformState(
                    pid=os.getpid(),
                    since=self._since,
                    data_dir=str(self._settings.data_dir),
                    processes=states,
                ),
            )
        except OSError as error:
            # A full disk: the platform goes on, and the file says how it was.
            _log.error("cannot write the state file: %s", error)
        for state in states:
            if state != before.get(state.name):
                _log.info("%s is %s %s", state.name, state.state, state.detail)
                self._notify(state)

    def _touch(self) -> None:
        if self._clock() - self._touched >= _TOUCH_SECONDS:
            self._touched = self._clock()
            try:
                touch_state(self._settings)
            except OSError as error:
                _log.error("cannot touch the state file: %s", error)

    def _notify(self, state: ProcessState) -> None:
        if self._on_change is None:
            return
        try:
            self._on_change(state)
        except Exception:
            # An observer that fails to show a state must not stop the platform.
            _log.exception("cannot show the state of %s", state.name)


def _what_is_broken(process: SupervisedProcess) -> HeadraceError:
    name = process.spec.name
    if process.hopeless:
        return HeadraceError(
            "process_failed",
            f"The process `{name}` cannot run: {process.reason}",
            remedy=f"Its log is {process.log_path}.",
        )
    lines = "".join(f"\n    {line}" for line in process.last_lines())
    return HeadraceError(
        "process_failed",
        f"The process `{name}` failed {process.deaths.in_a_row} times in a row while starting: "
        f"{process.reason}.",
        remedy=f"The end of {process.log_path}:{lines}",
    )


@contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    """Write what this folder logs (deaths, restarts, changes) to one file."""
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(SingleLineFormatter())
    logger = logging.getLogger("headrace.assembly")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
        handler.close()


@contextmanager
def _pipe() -> Iterator[int]:
    """The read end of a pipe that stays open while the supervisor lives; see `supervisor_watch.py`."""
    read_end, write_end = os.pipe()
    try:
        yield read_end
    finally:
        os.close(write_end)
        os.close(read_end)
