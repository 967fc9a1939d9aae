"""Response bodies: JSON with decimals as numbers, and ksqlDB's error formats."""

from __future__ import annotations

import json
from typing import Any, Final

from litestar import Response

from headrace.pipeline.expressions.values import shown
from headrace.pipeline.formats.json_text import text_of
from headrace.pipeline.serving.errors import BAD_REQUEST, StatementFailedError
from headrace.pipeline.serving.session import Session

KSQL_JSON: Final = "application/vnd.ksql.v1+json"
JSON: Final = "application/json"
DELIMITED: Final = "application/vnd.ksqlapi.delimited.v1"


class RefusedError(Exception):
    """A request that this API rejects."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def encoded(content: Any) -> bytes:
    return text_of(shown(content)).encode()


def answer(content: Any, status: int = 200, media_type: str = KSQL_JSON) -> Response[bytes]:
    return Response(encoded(content), status_code=status, media_type=media_type)


def generic_error(code: int, message: str) -> dict[str, Any]:
    return {"@type": "generic_error", "error_code": code, "message": message}


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
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RefusedError(BAD_REQUEST, f"The request is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise RefusedError(BAD_REQUEST, "The request is not a JSON object.")
    return content


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
