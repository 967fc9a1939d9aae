"""The seven levels of compatibility that a subject's versions may be held to.

A level says who must be able to read whom: under BACKWARD the new schema reads what the old one wrote, under
FORWARD the old one reads what the new one writes, under FULL both. The transitive ones look at all versions
of the subject, the others at the newest.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Level(StrEnum):
    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        return self.endswith("_TRANSITIVE")

    @property
    def new_reads_old(self) -> bool:
        return self.startswith(("BACKWARD", "FULL"))

    @property
    def old_reads_new(self) -> bool:
        return self.startswith(("FORWARD", "FULL"))


DEFAULT_LEVEL: Final = Level.BACKWARD
