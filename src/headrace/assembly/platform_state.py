"""The platform's state, for others to read: `<data_dir>/run/supervisor.json`, written by the supervisor.

Invariants: replaced as a whole on every change, and touched every second, so that a supervisor that no longer
works is noticed; valid only while the pid in it holds the lock, so that the last state of a killed supervisor
is never shown as current. Never read by the supervisor itself.
"""

from __future__ import annotations

import dataclasses
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from headrace.assembly.announcements import replace_file, run_dir
from headrace.assembly.platform_lock import holder
from headrace.core.settings import Settings

Phase = Literal["waiting", "starting", "running", "stuck", "failing", "restarting", "stopping", "stopped"]

# The supervisor touches the file every second; without that for this long it does not answer.
SILENT_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessState:
    """One process: its phase, since when (seconds since the epoch), and what it says about it."""

    name: str
    state: Phase
    pid: int | None
    restarts: int
    since: float
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformState:
    """The supervisor and its processes."""

    pid: int
    since: float
    data_dir: str
    processes: tuple[ProcessState, ...]
    # False if the supervisor has not touched the file for too long: then the rest may be outdated.
    answers: bool = True

    @property
    def all_running(self) -> bool:
        running = bool(self.processes) and all(process.state == "running" for process in self.processes)
        return running and self.answers

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def state_path(settings: Settings) -> Path:
    return run_dir(settings) / "supervisor.json"


def write_state(settings: Settings, state: PlatformState) -> None:
    replace_file(state_path(settings), json.dumps(state.as_json()))


def touch_state(settings: Settings) -> None:
    """Say that the state still holds."""
    state_path(settings).touch()


def read_state(settings: Settings) -> PlatformState | None:
    """The current state of the platform on this data folder, or None if it is not running."""
    pid = holder(settings)
    if pid is None:
        return None
    nothing_yet = PlatformState(pid=pid, since=0.0, data_dir=str(settings.data_dir), processes=())
    path = state_path(settings)
    try:
        silent = time.time() - path.stat().st_mtime
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return nothing_yet
    if content["pid"] != pid:
        return nothing_yet
    processes = tuple(ProcessState(**process) for process in content.pop("processes"))
    content["answers"] = silent <= SILENT_SECONDS
    return PlatformState(**content, processes=processes)
