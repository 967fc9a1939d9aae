"""What is wrong with a statement, and where."""

from __future__ import annotations

from headrace.core.errors import HeadraceError
from headrace.pipeline.statements.position import Position


class StatementError(HeadraceError):
    """A statement that cannot be read or makes no sense.

    The message names the thing and the reason; `str` puts the place before it, and the remedy behind.
    """

    def __init__(self, message: str, at: Position, *, remedy: str = "") -> None:
        super().__init__("bad_statement", message, remedy=remedy)
        self.at = at

    def __str__(self) -> str:
        return f"{self.at}: {super().__str__()}"


class SyntaxProblemError(StatementError):
    """Not a sentence of the language; what could have stood there is in the message."""


class UnsupportedError(StatementError):
    """A sentence of ksqlDB's language that does not run here; the message names what."""
