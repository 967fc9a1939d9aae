"""How a process reports its state to the supervisor: one small JSON file per process in `<data_dir>/run/`.

Invariants: a file is replaced as a whole (write, then rename), so a reader never sees half of one; it holds
the writer's pid, so that the announcement of a dead process is never taken for its successor's, and the
supervisor deletes the old announcement before it starts a successor, because pids are reused. Never holds
anything that a restart would need.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headrace.core.settings import Settings

State = Literal["starting", "ready", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """The latest announcement of one process."""

    pid: int
    state: State
    detail: str


def run_dir(settings: Settings) -> Path:
    return settings.data_dir / "run"


def announce(settings: Settings, process: str, *, state: State, detail: str = "") -> None:
    """Report the state of this process; called by the one the supervisor started, not by its workers."""
    content = json.dumps({"pid": os.getpid(), "state": state, "detail": detail})
    replace_file(_path(settings, process), content)


def latest(settings: Settings, process: str) -> Announcement | None:
    """The latest announcement of the process, or None if there is none that can be read."""
    try:
        content = json.loads(_path(settings, process).read_text(encoding="utf-8"))
        return Announcement(pid=content["pid"], state=content["state"], detail=content["detail"])
    except (OSError, ValueError, KeyError, TypeError):
        # Nobody must fail for this: a file that a power failure damaged is replaced at the next start.
        return None


def forget(settings: Settings, process: str) -> None:
    """Delete the latest announcement of the process."""
    _path(settings, process).unlink(missing_ok=True)


def replace_file(path: Path, content: str) -> None:
    """Write a file so that readers see either the old or the new content, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_native_id()}")
    temporary.write_text(content, encoding="utf-8")
    temporary.replace(path)


def _path(settings: Settings, process: str) -> Path:
    return run_dir(settings) / f"{process}.json"
