"""Notes next to a checkpoint: results of a first start that later starts must reuse.

Crash behaviour: a note is written completely or not at all, so a process that is killed while writing leaves
nothing behind that would confuse its successor; without a note, the result is determined again. One writer:
the start of the query.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

EARLIEST: Final = "earliest"
LATEST: Final = "latest"


def noted(path: Path, find_out: Callable[[], bytes]) -> bytes:
    """The content of the note, which is written first if it does not exist."""
    if not path.exists():
        content = find_out()
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.unfinished")
        unfinished.write_bytes(content)
        unfinished.replace(path)
    return path.read_bytes()
