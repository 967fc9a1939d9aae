"""Keeps out of the broker's process what only tests need.

`kio` teaches its types to Hypothesis where that is installed, as it is for whoever works on Headrace: a tenth
of a second more at the start, and megabytes more for as long as the broker runs. For processes that are
nothing but a broker; after the imports, all is as before.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_HIDDEN: Final = "hypothesis"


@contextmanager
def without_test_tools() -> Iterator[None]:
    """Within: importing Hypothesis fails as if it were not installed, unless it was imported before."""
    if _HIDDEN in sys.modules:
        yield
        return
    sys.modules[_HIDDEN] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[_HIDDEN]
