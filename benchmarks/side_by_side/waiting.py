"""Waits until something is so, for a limited time."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(
    is_so: Callable[[], bool],
    what: str,
    *,
    seconds: float,
    pause: float,
    explain: Callable[[], object] = str,
) -> None:
    """Ask again after each pause; `explain` gives what was found when the time is up."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited {seconds:.0f} s in vain until {what} {explain()}".rstrip())
        time.sleep(pause)
