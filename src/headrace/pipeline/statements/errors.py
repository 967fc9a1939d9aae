"""What is wrong with a statement, and where."""

from __future__ import annotations

from headrace.core.errors import HeadraceError
from headrace.pipeline.statements.position import Position


class StatementError(HeadraceError):
    """A statement that cannot be parsed, or is not valid.

    The message names the thing and the reason; `str` adds the position before it and the remedy after it.
    """

    def __init__(self, message: str, at: Position, *, remedy: str = "") -> None:
        super().__init__("bad_statement", message, remedy=remedy)
        self.at = at

    def __str__(self) -> str:
        return f"{self.at}: {super().__str__()}"


class SyntaxProblemError(StatementError):
    """Invalid syntax; the message lists what was expected."""


class UnsupportedError(StatementError):
    """Valid in ksqlDB, but not supported here; the message names the feature."""
