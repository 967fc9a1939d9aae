"""Keeps test tools out of the platform's processes.

`kio` registers its types with Hypothesis if that is installed, as it is on developers' machines. That delays
the start by a tenth of a second or more and costs megabytes while the process runs. After the imports
everything is as before.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_HIDDEN: Final = "hypothesis"


@contextmanager
def without_test_tools() -> Iterator[None]:
    """Inside, importing Hypothesis fails as if it were not installed, unless it was imported before."""
    if _HIDDEN in sys.modules:
        yield
        return
    sys.modules[_HIDDEN] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[_HIDDEN]
