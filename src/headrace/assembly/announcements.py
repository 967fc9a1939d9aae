"""How a process tells the supervisor how it is: one small JSON file per process in `<data_dir>/run/`.

Invariants: a file is replaced whole (write, then rename), so a reader never sees half of one; it holds the writer's pid, so
that the word of a process that died is never taken for that of its successor. Never holds anything a restart would need.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headrace.core.settings import Settings

State = Literal["starting", "ready", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """The last word of one process."""

    pid: int
    state: State
    detail: str


def run_dir(settings: Settings) -> Path:
    return settings.data_dir / "run"


def announce(settings: Settings, process: str, *, state: State, detail: str = "") -> None:
    """Say how this process is."""
    path = _path(settings, process)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps({"pid": os.getpid(), "state": state, "detail": detail}), encoding="utf-8")
    temporary.replace(path)


def latest(settings: Settings, process: str) -> Announcement | None:
    """What the process said last, or None if it never said anything."""
    try:
        content = json.loads(_path(settings, process).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return Announcement(pid=content["pid"], state=content["state"], detail=content["detail"])


def _path(settings: Settings, process: str) -> Path:
    return run_dir(settings) / f"{process}.json"
