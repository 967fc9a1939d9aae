"""Errors of statements, with ksqlDB's codes; the first three digits are the HTTP status."""

from __future__ import annotations

from typing import Any, Final

from headrace.core.errors import HeadraceError

BAD_REQUEST: Final = 40000
BAD_STATEMENT: Final = 40001
QUERY_ENDPOINT: Final = 40002
NOT_FOUND: Final = 40400
ASSERTION_FAILED: Final = 41700
SERVER_ERROR: Final = 50000
CATCH_UP_TIMEOUT: Final = 50301
NOT_READY: Final = 50302
SHUTTING_DOWN: Final = 50303


class StatementFailedError(Exception):
    """`entities` are the answers to the statements before it, which were executed."""

    def __init__(
        self,
        message: str,
        *,
        code: int = BAD_STATEMENT,
        statement: str = "",
        entities: tuple[dict[str, Any], ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.statement = statement
        self.entities = entities


def code_of(error: HeadraceError) -> int:
    """ksqlDB's code for an error of ours."""
    if error.code == "log_unavailable":
        return NOT_READY
    return BAD_STATEMENT if error.http_status < 500 else SERVER_ERROR
