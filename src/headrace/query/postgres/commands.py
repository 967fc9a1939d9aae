"""Statements about the session as values: transactions, settings, cursors, prepared statements, COPY.

`command_reading.py` makes them from text, `session.py` executes them. A `Question` is for the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ALL_ROWS: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A statement with rows as its answer."""

    text: str
    explain: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """`action` is one of BEGIN, COMMIT, ROLLBACK, SAVEPOINT, RELEASE, ROLLBACK TO."""

    action: str
    tag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSetting:
    """SET; `value` is None for DEFAULT."""

    name: str
    value: str | None
    local: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetSettings:
    """RESET of one setting, or of all of them if the name is empty."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowSetting:
    """SHOW; `ALL` shows every setting."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Discard:
    """DISCARD ALL and its parts."""

    everything: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Deallocate:
    """Forgets a prepared statement, or all if the name is empty."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Declare:
    """A cursor for a question."""

    cursor: str
    question: str
    hold: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """The next rows of a cursor; MOVE skips them."""

    cursor: str
    rows: int
    move: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseCursor:
    """Forgets a cursor, or all if the name is empty."""

    cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOut:
    """COPY … TO STDOUT."""

    question: str
    csv: bool = False
    header: bool = False
    delimiter: str = "\t"
    null: str = "\\N"


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """A command that has nothing to do here; `tag` is its answer, `warning` says why."""

    tag: str
    warning: str = ""


Command = (
    Question
    | Transaction
    | SetSetting
    | ResetSettings
    | ShowSetting
    | Discard
    | Deallocate
    | Declare
    | Fetch
    | CloseCursor
    | CopyOut
    | Nothing
)
