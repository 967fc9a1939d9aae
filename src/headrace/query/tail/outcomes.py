"""What becomes of a single record: a row of the table, or the reason why it is none. Values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class RefusedError(Exception):
    """The lake sends this record to the dead letters, or ends at it; says why."""


class UnsureError(Exception):
    """Only the lake can tell what becomes of this record; says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The values of a row by the names of its columns, without those that are null."""

    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Neither a row nor a dead letter: the sink says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A dead letter, or the end of the connector."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsure:
    """Left to the lake."""

    reason: str


Outcome = Row | Dropped | Refused | Unsure
