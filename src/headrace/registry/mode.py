"""What may be done with a subject: register and delete (READWRITE), neither (READONLY), or import.

IMPORT takes schemas with the ids and versions that they have in another registry, without checks of
compatibility. READONLY_OVERRIDE, set for all subjects, outranks the modes of subjects.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Mode(StrEnum):
    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"

    @property
    def is_read_only(self) -> bool:
        return self in {Mode.READONLY, Mode.READONLY_OVERRIDE}


DEFAULT_MODE: Final = Mode.READWRITE
