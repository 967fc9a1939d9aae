"""Confluent's Schema Registry API: the routes that there are, in its shapes, for clients that exist.

Invariants: every answer, errors too, is JSON of the type `application/vnd.schemaregistry.v1+json`; an error
is `{"error_code": …, "message": …}`, and the first three digits of the code are the HTTP status; what is
not there (deleting, compatibility levels, references) answers 404, 405 or 422 in that shape, never as if it
had worked. Never decides anything about schemas: that is `headrace.registry`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from litestar import Litestar, Request, Response, get, post
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, RawBody

from headrace.core.errors import HeadraceError
from headrace.registry.records import AVRO, SchemaRecord
from headrace.registry.registry import LATEST, Registry

_log = logging.getLogger(__name__)

MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"
ERROR_CODES: Final[dict[str, int]] = {
    "subject_not_found": 40401,
    "version_not_found": 40402,
    "schema_not_found": 40403,
    "invalid_schema": 42201,
    "log_unavailable": 50001,
}
INVALID_VERSION: Final = 42202
_HIGHEST_VERSION: Final = 2**31 - 1
_INTERNAL_ERROR: Final = 500


class _RefusedError(Exception):
    """A request that this API does not take; `code` is one of Confluent's."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def create_registry_app(registry: Registry) -> Litestar:
    """The application; whoever starts and stops the registry does so around it."""
    return Litestar(
        route_handlers=[*_writing(registry), *_subjects(registry), *_schemas(registry), *_about()],
        exception_handlers={
            HeadraceError: _headrace_error,
            _RefusedError: _refused,
            HTTPException: _http_error,
            Exception: _unexpected,
        },
        openapi_config=None,
        # Logging belongs to the process that serves this.
        logging_config=None,
    )


def _writing(registry: Registry) -> Sequence[HTTPRouteHandler]:
    @post("/subjects/{subject:str}/versions", status_code=200)
    async def register(subject: FromPath[str], body: RawBody) -> Response[bytes]:
        text, schema_type = _posted_schema(body)
        return _answer({"id": await asyncio.to_thread(registry.register, subject, text, schema_type)})

    @post("/subjects/{subject:str}", status_code=200)
    async def lookup(subject: FromPath[str], body: RawBody) -> Response[bytes]:
        text, schema_type = _posted_schema(body)
        return _answer(_version(await asyncio.to_thread(registry.lookup, subject, text, schema_type)))

    return [register, lookup]


def _subjects(registry: Registry) -> Sequence[HTTPRouteHandler]:
    @get("/subjects")
    async def subjects(request: Request[Any, Any, Any]) -> Response[bytes]:
        prefix = request.query_params.get("subjectPrefix", "")
        found = await asyncio.to_thread(registry.subjects)
        return _answer([subject for subject in found if subject.startswith(prefix)])

    @get("/subjects/{subject:str}/versions")
    async def versions(subject: FromPath[str]) -> Response[bytes]:
        return _answer(await asyncio.to_thread(registry.versions, subject))

    @get("/subjects/{subject:str}/versions/{version:str}")
    async def version(subject: FromPath[str], version: FromPath[str]) -> Response[bytes]:
        return _answer(_version(await asyncio.to_thread(registry.version, subject, _version_number(version))))

    @get("/subjects/{subject:str}/versions/{version:str}/schema")
    async def version_schema(subject: FromPath[str], version: FromPath[str]) -> Response[bytes]:
        found = await asyncio.to_thread(registry.version, subject, _version_number(version))
        return _raw(found.schema)

    return [subjects, versions, version, version_schema]


def _schemas(registry: Registry) -> Sequence[HTTPRouteHandler]:
    @get("/schemas/ids/{schema_id:int}")
    async def schema(schema_id: FromPath[int]) -> Response[bytes]:
        return _answer(_schema(await asyncio.to_thread(registry.schema, schema_id)))

    @get("/schemas/ids/{schema_id:int}/schema")
    async def schema_text(schema_id: FromPath[int]) -> Response[bytes]:
        return _raw(await asyncio.to_thread(registry.schema_by_id, schema_id))

    @get("/schemas/ids/{schema_id:int}/versions")
    async def schema_versions(schema_id: FromPath[int]) -> Response[bytes]:
        usages = await asyncio.to_thread(registry.usages, schema_id)
        return _answer([{"subject": record.subject, "version": record.version} for record in usages])

    @get("/schemas/ids/{schema_id:int}/subjects")
    async def schema_subjects(schema_id: FromPath[int]) -> Response[bytes]:
        usages = await asyncio.to_thread(registry.usages, schema_id)
        return _answer(sorted({record.subject for record in usages}))

    return [schema, schema_text, schema_versions, schema_subjects]


def _about() -> Sequence[HTTPRouteHandler]:
    @get("/")
    async def root() -> Response[bytes]:
        return _answer({})

    @get("/schemas/types")
    async def types() -> Response[bytes]:
        return _answer([AVRO])

    @get("/config")
    async def config() -> Response[bytes]:
        # No version is checked against another: that is what this level means.
        return _answer({"compatibilityLevel": "NONE"})

    @get("/mode")
    async def mode() -> Response[bytes]:
        return _answer({"mode": "READWRITE"})

    return [root, types, config, mode]


def _posted_schema(body: bytes) -> tuple[str, str]:
    """Text and type of the schema in a request."""
    try:
        content = json.loads(body)
    except ValueError as error:
        raise _RefusedError(400, f"The request is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise _RefusedError(400, "The request is not a JSON object.")
    text = content.get("schema")
    if not isinstance(text, str) or not text:
        raise _RefusedError(42201, "The request has no `schema`, or it is not a text.")
    for name in ("references", "metadata", "ruleSet"):
        if content.get(name):
            raise _RefusedError(42201, f"Schemas with `{name}` are not supported.")
    return text, str(content.get("schemaType") or AVRO)


def _version_number(version: str) -> int | str:
    if version in {LATEST, "-1"}:
        return LATEST
    if version.isascii() and version.isdigit() and 1 <= int(version) <= _HIGHEST_VERSION:
        return int(version)
    raise _RefusedError(
        INVALID_VERSION,
        f"The specified version '{version}' is not a valid version id. "
        f'Allowed values are between [1, {_HIGHEST_VERSION}] and the string "latest"',
    )


def _schema(record: SchemaRecord) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if record.schema_type != AVRO:
        content["schemaType"] = record.schema_type
    if record.references != "[]":
        content["references"] = json.loads(record.references)
    return {**content, "schema": record.schema}


def _version(record: SchemaRecord) -> dict[str, Any]:
    return {"subject": record.subject, "version": record.version, "id": record.id, **_schema(record)}


def _answer(content: Any, status: int = 200) -> Response[bytes]:
    return Response(msgspec.json.encode(content), status_code=status, media_type=MEDIA_TYPE)


def _raw(text: str) -> Response[bytes]:
    return Response(text.encode("utf-8"), media_type=MEDIA_TYPE)


def _error(code: int, message: str) -> Response[bytes]:
    status = code if code < 1000 else code // 100
    return _answer({"error_code": code, "message": message}, status)


def _headrace_error(_: Request[Any, Any, Any], error: HeadraceError) -> Response[bytes]:
    return _error(ERROR_CODES.get(error.code, error.http_status), str(error))


def _refused(_: Request[Any, Any, Any], error: _RefusedError) -> Response[bytes]:
    return _error(error.code, str(error))


def _http_error(_: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    response = _error(error.status_code, f"HTTP {error.status_code} {error.detail}")
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response


def _unexpected(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _error(_INTERNAL_ERROR, "Internal Server Error")
