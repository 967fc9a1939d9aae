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
_STARTING: Final = ".starting.txt"


def starting_offsets(checkpoint: Path, wanted: str) -> str:
    """Where to start reading streams: as wanted at the query's very first start, otherwise from the
    beginning.

    Determined once for each checkpoint: a second start before the first batch must not count as a later one.
    The existence of the query's folder proves nothing: it also exists if the first start was killed before it
    wrote the note.
    """

    def find_out() -> bytes:
        is_first = not any(checkpoint.parent.glob(f"*{_STARTING}"))
        return (wanted if is_first else EARLIEST).encode()

    return noted(Path(f"{checkpoint}{_STARTING}"), find_out).decode()


def noted(path: Path, find_out: Callable[[], bytes]) -> bytes:
    """The content of the note, which is written first if it does not exist."""
    if not path.exists():
        content = find_out()
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.unfinished")
        unfinished.write_bytes(content)
        unfinished.replace(path)
    return path.read_bytes()
