"""Druid's errors: JSON with the fields of current versions, and those that older clients read.

| ours | Druid's category | status |
|---|---|---|
| a statement that cannot be translated or run | INVALID_INPUT | 400 |
| something of Druid's that is missing here | UNSUPPORTED | 501 |
| cancelled, timeout, no capacity | CANCELED, TIMEOUT, CAPACITY_EXCEEDED | 500, 504, 429 |
| beyond the limit of memory or of an answer's size | INVALID_INPUT, "Resource limit exceeded" | 400 |

Never shows more than the text of a HeadraceError.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec
from litestar import Response

from headrace.core.errors import HeadraceError
from headrace.http.admission import FORM, DoorRules, Refusal
from headrace.query.druid.errors import DruidSqlError

JSON: Final = "application/json"
TEXT: Final = "text/plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """`legacy` is the name that an error had before there were categories, with its Java class."""

    category: str
    status: int
    persona: str = "USER"
    code: str = "general"
    legacy: tuple[str, str] | None = None


_INVALID: Final = Failure(category="INVALID_INPUT", status=400, code="invalidInput")
_UNSUPPORTED: Final = Failure(category="UNSUPPORTED", status=501)
_FAILED: Final = Failure(category="RUNTIME_FAILURE", status=500, persona="OPERATOR")
TIMEOUT: Final = Failure(
    category="TIMEOUT", status=504, persona="OPERATOR", code="legacyQueryException",
    legacy=("Query timeout", "org.apache.druid.query.QueryTimeoutException"),
)  # fmt: skip
_LIMIT: Final = Failure(
    category="INVALID_INPUT", status=400, code="legacyQueryException",
    legacy=("Resource limit exceeded", "org.apache.druid.query.ResourceLimitExceededException"),
)  # fmt: skip
_BY_CODE: Final[dict[str, Failure]] = {
    "after_timed_out": TIMEOUT,
    "answer_too_large": _LIMIT,
    "query_cancelled": Failure(
        category="CANCELED", status=500, persona="OPERATOR", code="legacyQueryException",
        legacy=("Query cancelled", "org.apache.druid.query.QueryInterruptedException"),
    ),
    "too_many_questions": Failure(
        category="CAPACITY_EXCEEDED", status=429, persona="OPERATOR", code="legacyQueryException",
        legacy=("Query capacity exceeded", "org.apache.druid.query.QueryCapacityExceededException"),
    ),
    "query_failed": _INVALID,
    "query_out_of_memory": _LIMIT,
    "query_timed_out": TIMEOUT,
    "no_such_table": _INVALID,
}  # fmt: skip
_BY_STATUS: Final[dict[int, Failure]] = {
    403: Failure(category="FORBIDDEN", status=403),
    404: Failure(category="NOT_FOUND", status=404),
    405: Failure(category="INVALID_INPUT", status=405, code="invalidInput"),
    413: Failure(category="INVALID_INPUT", status=413, code="invalidInput"),
    415: Failure(category="INVALID_INPUT", status=415, code="invalidInput"),
    429: _BY_CODE["too_many_questions"],
    503: Failure(category="SERVICE_UNAVAILABLE", status=503, persona="OPERATOR"),
    504: TIMEOUT,
}


def failure_of(error: HeadraceError) -> Failure:
    if isinstance(error, DruidSqlError) and error.unsupported:
        return _UNSUPPORTED
    found = _BY_CODE.get(error.code) or _BY_STATUS.get(error.http_status)
    return found or (_INVALID if error.http_status < 500 else _FAILED)


def content_of(failure: Failure, message: str, context: dict[str, str], host: str) -> dict[str, Any]:
    error, error_class = failure.legacy or ("druidException", None)
    if failure.legacy is not None:
        context = {"host": host, "errorClass": str(error_class), "legacyErrorCode": error, **context}
    return {
        "error": error,
        "errorClass": error_class,
        "host": host if failure.legacy is not None else None,
        "errorCode": failure.code,
        "persona": failure.persona,
        "category": failure.category,
        "errorMessage": message,
        "context": context,
    }


def refused(
    error: HeadraceError, *, host: str = "", headers: dict[str, str] | None = None
) -> Response[bytes]:
    context: dict[str, str] = {}
    if error.code == "query_failed":
        context["sourceType"] = "sql"
    if isinstance(error, DruidSqlError) and error.place is not None:
        context |= {"line": str(error.place.line), "column": str(error.place.column)}
    return failed(failure_of(error), str(error), context=context, host=host, headers=headers)


def failed(
    failure: Failure,
    message: str,
    *,
    context: dict[str, str] | None = None,
    host: str = "",
    headers: dict[str, str] | None = None,
) -> Response[bytes]:
    content = content_of(failure, message, context or {}, host)
    return Response(
        msgspec.json.encode(content), status_code=failure.status, media_type=JSON, headers=headers or {}
    )


def answer(content: object, status: int = 200) -> Response[bytes]:
    return Response(msgspec.json.encode(content), status_code=status, media_type=JSON)


def error_of(status: int, message: str) -> Response[bytes]:
    """A plain HTTP error."""
    found = _BY_STATUS.get(status) or (_INVALID if status < 500 else _FAILED)
    return failed(found, message)


def _refusal(error: HeadraceError) -> Refusal:
    response = refused(error)
    return Refusal(status=response.status_code or 500, media_type=JSON, body=response.content)


# The examples in Druid's documentation send plain text, and as a form what curl sends by default.
DRUID_RULES: Final = DoorRules(refusal=_refusal, media_types=frozenset({TEXT, FORM}))
