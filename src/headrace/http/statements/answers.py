"""Response bodies: JSON with decimals as numbers, and ksqlDB's error formats."""

from __future__ import annotations

import json
from typing import Any, Final

from litestar import Response

from headrace.core.errors import HeadraceError
from headrace.http.admission import FORM, NO_TYPE, DoorRules, Refusal
from headrace.http.foreign_api import RefusedError, posted_object
from headrace.pipeline.expressions.values import shown
from headrace.pipeline.formats.json_text import text_of
from headrace.pipeline.serving.errors import BAD_REQUEST, StatementFailedError
from headrace.pipeline.serving.session import Session

KSQL_JSON: Final = "application/vnd.ksql.v1+json"
JSON: Final = "application/json"
DELIMITED: Final = "application/vnd.ksqlapi.delimited.v1"


def encoded(content: Any) -> bytes:
    return text_of(shown(content)).encode()


def answer(content: Any, status: int = 200, media_type: str = KSQL_JSON) -> Response[bytes]:
    return Response(encoded(content), status_code=status, media_type=media_type)


def generic_error(code: int, message: str) -> dict[str, Any]:
    return {"@type": "generic_error", "error_code": code, "message": message}


def refused(code: int, message: str) -> Response[bytes]:
    """An error; a plain HTTP status stands for ksqlDB's general code for it."""
    code = code if code >= 1000 else 100 * code
    return answer(generic_error(code, message), status_of(code))


def statement_error(error: StatementFailedError) -> dict[str, Any]:
    if not error.statement:
        return generic_error(error.code, error.message)
    return {
        "@type": "statement_error",
        "error_code": error.code,
        "message": error.message,
        "statementText": error.statement,
        "entities": list(error.entities),
    }


def status_of(code: int) -> int:
    """The HTTP status with which one of ksqlDB's codes begins."""
    return code // 100


def posted(body: bytes) -> dict[str, Any]:
    """The JSON object in a request. Raises RefusedError."""
    return posted_object(body, BAD_REQUEST)


def session_of(content: dict[str, Any]) -> Session:
    """The properties and variables in a request."""
    given: dict[str, str] = {}
    for field in ("streamsProperties", "properties"):
        given |= _texts(content, field)
    return Session(
        properties=given,
        variables={name.upper(): value for name, value in _texts(content, "sessionVariables").items()},
    )


def _texts(content: dict[str, Any], field: str) -> dict[str, str]:
    values = content.get(field) or {}
    if not isinstance(values, dict):
        raise RefusedError(BAD_REQUEST, f"`{field}` is not an object.")
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in values.items()
        if value is not None
    }


def text_field(content: dict[str, Any], *names: str) -> str:
    """The first of the fields that is present. Raises RefusedError."""
    for name in names:
        value = content.get(name)
        if isinstance(value, str) and value.strip():
            return value
    raise RefusedError(BAD_REQUEST, f'"{names[0]}" field must be populated')


def _refusal(error: HeadraceError) -> Refusal:
    body = encoded(generic_error(100 * error.http_status, str(error)))
    return Refusal(status=error.http_status, media_type=KSQL_JSON, body=body)


# The examples in ksqlDB's documentation are `curl -d` without a content type, which curl sends as a form's.
STATEMENTS_RULES: Final = DoorRules(refusal=_refusal, media_types=frozenset({DELIMITED, FORM, NO_TYPE}))
