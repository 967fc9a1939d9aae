"""Errors as PostgreSQL's clients know them: a SQLSTATE, a message, a hint and a position in the statement.

`from_headrace` and `from_message` choose the SQLSTATE of an error that comes from behind the door: by its
code, and for errors of DuckDB by how their text begins. Clients act on the SQLSTATE, so an error whose kind
is not known is `XX000` and never a guess.
"""

from __future__ import annotations

import re
from typing import Final

from headrace.core.errors import HeadraceError

ACTIVE_TRANSACTION: Final = "25001"
CANCELLED: Final = "57014"
CANNOT_CONNECT_NOW: Final = "57P03"
DATATYPE_MISMATCH: Final = "42804"
DUPLICATE_CURSOR: Final = "42P03"
DUPLICATE_STATEMENT: Final = "42P05"
FAILED_TRANSACTION: Final = "25P02"
FEATURE_NOT_SUPPORTED: Final = "0A000"
INTERNAL: Final = "XX000"
INVALID_CURSOR: Final = "34000"
INVALID_PARAMETER_VALUE: Final = "22023"
INVALID_TEXT: Final = "22P02"
INVALID_BINARY: Final = "22P03"
INVALID_STATEMENT: Final = "26000"
LIMIT_EXCEEDED: Final = "53400"
NO_ACTIVE_TRANSACTION: Final = "25P01"
OUT_OF_MEMORY: Final = "53200"
PROTOCOL_VIOLATION: Final = "08P01"
PROGRAM_LIMIT: Final = "54000"
READ_ONLY: Final = "25006"
SHUTTING_DOWN: Final = "57P01"
SYNTAX_ERROR: Final = "42601"
TOO_COMPLEX: Final = "54001"
TOO_MANY_CONNECTIONS: Final = "53300"
UNDEFINED_FUNCTION: Final = "42883"
UNDEFINED_OBJECT: Final = "42704"
UNDEFINED_PARAMETER: Final = "42P02"
UNDEFINED_TABLE: Final = "42P01"
WARNING: Final = "01000"

_BY_CODE: Final = {
    "answer_too_large": LIMIT_EXCEEDED,
    "bad_request": SYNTAX_ERROR,
    "after_timed_out": CANCELLED,
    "bucket_unavailable": "58030",
    "lake_damaged": "58030",
    "lake_unsupported": FEATURE_NOT_SUPPORTED,
    "log_unavailable": "58000",
    "no_such_table": UNDEFINED_TABLE,
    "no_such_topic": UNDEFINED_TABLE,
    "query_cancelled": CANCELLED,
    "query_out_of_memory": OUT_OF_MEMORY,
    "query_timed_out": CANCELLED,
    "request_too_large": PROGRAM_LIMIT,
}
# What PostgreSQL itself says then, which some clients look for; our own text becomes the hint.
_WORDS: Final = {
    "query_cancelled": "canceling statement due to user request",
    "query_timed_out": "canceling statement due to statement timeout",
}
# Of DuckDB's errors, and of our own refusals, which say what they refuse. The first that matches counts.
_BY_MESSAGE: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), state)
    for pattern, state in (
        (r"Parser Error", SYNTAX_ERROR),
        (r"There is no statement|These are \d+ statements", SYNTAX_ERROR),
        (r"read-only", READ_ONLY),
        (r"Table with name|is not a table of the lake", UNDEFINED_TABLE),
        (r"(Scalar|Aggregate|Table|Macro)?\s*Function with name|No function matches", UNDEFINED_FUNCTION),
        (r"Referenced table .* not found", "42P01"),
        (r"Referenced column|does not have a column|Values list .* column", "42703"),
        (r"Ambiguous reference", "42702"),
        (r"must appear in the GROUP BY|cannot contain aggregates", "42803"),
        (r"Type with name", UNDEFINED_OBJECT),
        (r"is not allowed here|may not be used", "42501"),
        (r"Division by zero|divide by zero", "22012"),
        (r"Out of Range Error|out of range|overflow", "22003"),
        (r"Conversion Error", "22P02"),
        (r"Binder Error", "42804"),
        (r"Catalog Error", UNDEFINED_OBJECT),
        (r"longer than", PROGRAM_LIMIT),
        (r"Invalid Input Error", "22023"),
    )
)
# DuckDB ends an error with the line in question and a caret below it.
_EXCERPT: Final = re.compile(r"\n+LINE (\d+): (.*)\n( *)\^+\s*$")
_CUT: Final = "..."


class PostgresError(Exception):
    """An error that a client is told about. `position` counts characters of the statement from 1."""

    def __init__(self, state: str, message: str, *, hint: str = "", position: int | None = None) -> None:
        super().__init__(message)
        self.state = state
        self.message = message
        self.hint = hint
        self.position = position


class FatalError(PostgresError):
    """An error that ends the connection."""


def from_headrace(error: HeadraceError, asked: str = "") -> PostgresError:
    """The error as a client gets it. `asked` is the statement, in which its position is looked up."""
    state = _BY_CODE.get(error.code) or _state_of(error.message)
    if error.code in _WORDS:
        return PostgresError(state, _WORDS[error.code], hint=str(error))
    excerpt = _EXCERPT.search(error.message)
    message = error.message[: excerpt.start()] if excerpt else error.message
    position = _position(excerpt, asked) if excerpt else None
    return PostgresError(state, message.strip(), hint=error.remedy, position=position)


def _state_of(message: str) -> str:
    return next((state for pattern, state in _BY_MESSAGE if pattern.search(message)), INTERNAL)


def _position(excerpt: re.Match[str], asked: str) -> int | None:
    """Where the caret stands in the statement; None if the line is not one of it, as after a translation.

    A long line is cut on both sides, so the part that is shown is looked up.
    """
    lines = asked.split("\n")
    number = int(excerpt[1]) - 1
    if number >= len(lines):
        return None
    shown = excerpt[2]
    column = len(excerpt[3]) - len(f"LINE {excerpt[1]}: ")
    if shown.startswith(_CUT):
        shown, column = shown[len(_CUT) :], column - len(_CUT)
    start = lines[number].find(shown.removesuffix(_CUT).rstrip())
    if start < 0 or column < 0:
        return None
    return sum(len(line) + 1 for line in lines[:number]) + start + column + 1
