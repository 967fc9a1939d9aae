"""Notes beside a checkpoint: what a first start has found out, and later ones must not find out anew.

Crash behaviour: a note is there whole or not at all, so a process that is killed while it writes one leaves
nothing that its successor would stumble over; whoever finds none finds out once more. One writer: the start
of the query that the note is of.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

EARLIEST: Final = "earliest"
_STARTING: Final = ".starting.txt"


def starting_offsets(checkpoint: Path, wanted: str) -> str:
    """Where streams are read from: as wanted at the query's very first start, else from the beginning.

    Said once for each checkpoint: a second start before the first batch must not think that it is a later
    one. That the query's folder is there says nothing: who was killed before the note was written had made
    it, too.
    """

    def find_out() -> bytes:
        is_first = not any(checkpoint.parent.glob(f"*{_STARTING}"))
        return (wanted if is_first else EARLIEST).encode()

    return noted(Path(f"{checkpoint}{_STARTING}"), find_out).decode()


def noted(path: Path, find_out: Callable[[], bytes]) -> bytes:
    """What the note says; it is written first if it is not there."""
    if not path.exists():
        content = find_out()
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.unfinished")
        unfinished.write_bytes(content)
        unfinished.replace(path)
    return path.read_bytes()
