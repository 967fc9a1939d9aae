"""What the registry's routes share: the formats of answers and errors, and how requests are read.

Invariants: every answer, including errors, is JSON of type `application/vnd.schemaregistry.v1+json`; an error
is `{"error_code": …, "message": …}`, and the first three digits of the code are the HTTP status.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from litestar import Response

from headrace.core.errors import HeadraceError
from headrace.http.admission import NO_TYPE, DoorRules, Refusal
from headrace.http.foreign_api import RefusedError, posted_object
from headrace.registry.records import AVRO
from headrace.registry.registry import LATEST

MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"
INVALID_VERSION: Final = 42202
_HIGHEST_VERSION: Final = 2**31 - 1


def posted_schema(body: bytes) -> tuple[str, str]:
    """The text and type of the schema in a request."""
    content = posted_object(body)
    text = content.get("schema")
    if not isinstance(text, str) or not text:
        raise RefusedError(42201, "The request has no `schema`, or it is not a string.")
    for name in ("references", "metadata", "ruleSet"):
        if content.get(name):
            raise RefusedError(42201, f"Schemas with `{name}` are not supported.")
    return text, str(content.get("schemaType") or AVRO)


def version_number(version: str) -> int | str:
    if version in {LATEST, "-1"}:
        return LATEST
    if version.isascii() and version.isdigit() and 1 <= int(version) <= _HIGHEST_VERSION:
        return int(version)
    raise RefusedError(
        INVALID_VERSION,
        f"The specified version '{version}' is not a valid version id. "
        f'Allowed values are between [1, {_HIGHEST_VERSION}] and the string "latest"',
    )


def answer(content: Any, status: int = 200) -> Response[bytes]:
    return Response(msgspec.json.encode(content), status_code=status, media_type=MEDIA_TYPE)


def raw(text: str) -> Response[bytes]:
    return Response(text.encode("utf-8"), media_type=MEDIA_TYPE)


def refused(code: int, message: str) -> Response[bytes]:
    status = code if code < 1000 else code // 100
    return answer({"error_code": code, "message": message}, status)


def _refusal(error: HeadraceError) -> Refusal:
    body = msgspec.json.encode({"error_code": error.http_status, "message": str(error)})
    return Refusal(status=error.http_status, media_type=MEDIA_TYPE, body=body)


# Confluent's registry accepts bytes, and takes a body without a type for bytes.
REGISTRY_RULES: Final = DoorRules(
    refusal=_refusal, media_types=frozenset({"application/octet-stream", NO_TYPE})
)
