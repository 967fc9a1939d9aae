"""The seven compatibility levels of a subject.

A level says which schema must be able to read which data. BACKWARD: the new schema reads data written with
the old one. FORWARD: the old schema reads data written with the new one. FULL: both. Transitive levels cover
all versions of the subject, the others only the newest.
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
