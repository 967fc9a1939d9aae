"""Suggests the valid word nearest to an invalid one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, valid: Iterable[str]) -> str | None:
    found = difflib.get_close_matches(word, list(valid), n=1, cutoff=0.6)
    return found[0] if found else None


def did_you_mean(word: str, valid: Iterable[str]) -> str:
    """A sentence followed by a space, or an empty text."""
    found = nearest(word, valid)
    return f"Did you mean {found}? " if found is not None else ""
