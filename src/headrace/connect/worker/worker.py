"""The worker: follows what connectors are wanted and gives each that runs here a keeper.

Invariants: nothing starts or stops but for what is read from the log of configurations, so a restart of the
process is a replay; a connector whose plugin runs in another process is left to that process. One worker runs
the connectors of a log.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

from headrace.connect.state.configs import ConnectorWish
from headrace.connect.worker.keeper import ConnectorKeeper
from headrace.connect.worker.parts import WorkerParts

_LOOK_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 0.02
# Beyond the time that tasks get.
_EXTRA_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)


class Worker:
    """From `start` to `stop`. The logs in `parts` are started before and stopped after."""

    def __init__(self, parts: WorkerParts) -> None:
        self._parts = parts
        self._keepers: dict[str, ConnectorKeeper] = {}
        # Keepers that were told to end: a connector of the same name waits for them.
        self._ending: dict[str, ConnectorKeeper] = {}
        self._known: dict[str, ConnectorWish] = {}
        self._lock = threading.Lock()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._follow, name="connect worker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop all tasks, each within its time."""
        with self._parts.configs.progress:
            self._is_stopping = True
            self._parts.configs.progress.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        keepers = list(self._keepers.values())
        for keeper in keepers:
            keeper.want(None)
        deadline = time.monotonic() + self._parts.graceful_seconds + _EXTRA_SECONDS
        for keeper in keepers:
            if not keeper.wait_ended(deadline - time.monotonic()):
                _log.warning("a connector does not stop and is abandoned")

    @property
    def is_alive(self) -> bool:
        """Whether connectors are looked after, all of them."""
        with self._lock:
            keepers = list(self._keepers.values())
        return self._thread.is_alive() and all(keeper.is_running for keeper in keepers)

    def restart_task(self, name: str, number: int) -> None:
        with self._lock:
            keeper = self._keepers.get(name)
        if keeper is not None:
            keeper.restart_task(number)

    def wait_done(self, wish: ConnectorWish, seconds: float) -> bool:
        """Wait until a wish was carried out, as far as it is up to this worker; False if time runs out."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with self._lock:
                keeper = self._keepers.get(wish.name)
            if keeper is not None:
                return keeper.wait_done(wish, deadline - time.monotonic())
            time.sleep(_PAUSE_SECONDS)
        return False

    def wait_gone(self, name: str, seconds: float) -> bool:
        """Wait until nothing of a deleted connector runs; False if time runs out."""
        with self._lock:
            keeper = self._keepers.get(name) or self._ending.get(name)
        return keeper is None or keeper.wait_ended(seconds)

    def _follow(self) -> None:
        configs = self._parts.configs
        while not self._is_stopping:
            try:
                self._look(configs.wishes())
            except Exception:
                _log.exception("connectors could not be looked after")
            with configs.progress:
                configs.progress.wait_for(
                    lambda: self._is_stopping or configs.wishes() != self._known, _LOOK_SECONDS
                )

    def _look(self, wishes: dict[str, ConnectorWish]) -> None:
        for name, wish in wishes.items():
            known = self._known.get(name)
            if known is wish:
                continue
            plugin = self._parts.plugins.of(wish.config)
            runs_here = plugin is None or plugin.runs_in == "worker"
            if not runs_here:
                self._end(name)
            elif name in self._keepers:
                self._keepers[name].want(wish)
            else:
                keeper = ConnectorKeeper(name, self._parts, predecessor=self._ending.get(name))
                keeper.want(wish)
                keeper.start()
                with self._lock:
                    self._keepers[name] = keeper
        for name in self._keepers.keys() - wishes.keys():
            self._end(name)
        self._known = wishes

    def _end(self, name: str) -> None:
        with self._lock:
            keeper = self._keepers.pop(name, None)
            self._ending = {each: old for each, old in self._ending.items() if old.is_running}
            if keeper is not None:
                self._ending[name] = keeper
        if keeper is not None:
            keeper.want(None)
