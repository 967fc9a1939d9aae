"""Which names subjects may have. Contexts, which Confluent writes `:.context:subject`, are not supported."""

from __future__ import annotations

import unicodedata
from typing import Final

from headrace.core.errors import HeadraceError

# Before a subject, this is no context but the default one.
_DEFAULT_CONTEXT: Final = ":.:"
_LONGEST: Final = 1000
# Confluent's names for what holds for all subjects, and for the empty one.
_RESERVED: Final = frozenset({"__GLOBAL", "__EMPTY"})


def checked_subject(subject: str) -> str:
    """The subject without the default context. Raises invalid_subject."""
    subject = subject.removeprefix(_DEFAULT_CONTEXT)
    if subject.startswith(":."):
        raise HeadraceError(
            "invalid_subject",
            f"The specified subject '{subject[:_LONGEST]}' is not valid: contexts are not supported.",
            remedy="Use a subject without a context.",
        )
    has_controls = any(unicodedata.category(each) in {"Cc", "Cs"} for each in subject)
    if not subject or subject in _RESERVED or has_controls or len(subject) > _LONGEST:
        raise HeadraceError(
            "invalid_subject",
            f"The specified subject '{subject[:_LONGEST]}' is not valid.",
            remedy=f"A subject has 1 to {_LONGEST} characters, without control characters.",
        )
    return subject
