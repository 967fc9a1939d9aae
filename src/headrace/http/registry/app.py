"""Confluent's Schema Registry API: the routes that we have, in its formats, for existing clients.

Invariant: whatever is missing (deletion, references, modes) is answered with 404, 405 or 422 in the error
format (`answers.py`), never as if it had worked. Decides nothing about schemas: that is `headrace.registry`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Final

from litestar import Litestar, Request, Response, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, RawBody

from headrace.http.foreign_api import create_application
from headrace.http.registry.answers import (
    answer,
    posted_schema,
    raw,
    refused,
    version_number,
)
from headrace.http.registry.levels import level_handlers
from headrace.registry.records import AVRO, SchemaRecord
from headrace.registry.registry import Registry

ERROR_CODES: Final[dict[str, int]] = {
    "subject_not_found": 40401,
    "version_not_found": 40402,
    "schema_not_found": 40403,
    "incompatible_schema": 40901,
    "invalid_schema": 42201,
    "log_unavailable": 50001,
}


def create_registry_app(registry: Registry) -> Litestar:
    """The application; the caller starts the registry before and stops it after."""
    return create_application(
        [
            *_writing(registry),
            *_subjects(registry),
            *_schemas(registry),
            *level_handlers(registry),
            *_about(),
        ],
        error=refused,
        code_of=lambda error: ERROR_CODES.get(error.code, error.http_status),
    )


def _writing(registry: Registry) -> Sequence[HTTPRouteHandler]:
    @post("/subjects/{subject:str}/versions", status_code=200)
    async def register(subject: FromPath[str], body: RawBody) -> Response[bytes]:
        text, schema_type = posted_schema(body)
        return answer({"id": await asyncio.to_thread(registry.register, subject, text, schema_type)})

    @post("/subjects/{subject:str}", status_code=200)
    async def lookup(subject: FromPath[str], body: RawBody) -> Response[bytes]:
        text, schema_type = posted_schema(body)
        return answer(_version(await asyncio.to_thread(registry.lookup, subject, text, schema_type)))

    return [register, lookup]


def _subjects(registry: Registry) -> Sequence[HTTPRouteHandler]:
    @get("/subjects")
    async def subjects(request: Request[Any, Any, Any]) -> Response[bytes]:
        prefix = request.query_params.get("subjectPrefix", "")
        found = await asyncio.to_thread(registry.subjects)
        return answer([subject for subject in found if subject.startswith(prefix)])

    @get("/subjects/{subject:str}/versions")
    async def versions(subject: FromPath[str]) -> Response[bytes]:
        return answer(await asyncio.to_thread(registry.versions, subject))

    @get("/subjects/{subject:str}/versions/{version:str}")
    async def version(subject: FromPath[str], version: FromPath[str]) -> Response[bytes]:
        return answer(_version(await asyncio.to_thread(registry.version, subject, version_number(version))))

    @get("/subjects/{subject:str}/versions/{version:str}/schema")
    async def version_schema(subject: FromPath[str], version: FromPath[str]) -> Response[bytes]:
        found = await asyncio.to_thread(registry.version, subject, version_number(version))
        return raw(found.schema)

    return [subjects, versions, version, version_schema]


def _schemas(registry: Registry) -> Sequence[HTTPRouteHandler]:
    @get("/schemas/ids/{schema_id:int}")
    async def schema(schema_id: FromPath[int]) -> Response[bytes]:
        return answer(_schema(await asyncio.to_thread(registry.schema, schema_id)))

    @get("/schemas/ids/{schema_id:int}/schema")
    async def schema_text(schema_id: FromPath[int]) -> Response[bytes]:
        return raw(await asyncio.to_thread(registry.schema_by_id, schema_id))

    @get("/schemas/ids/{schema_id:int}/versions")
    async def schema_versions(schema_id: FromPath[int]) -> Response[bytes]:
        usages = await asyncio.to_thread(registry.usages, schema_id)
        return answer([{"subject": record.subject, "version": record.version} for record in usages])

    @get("/schemas/ids/{schema_id:int}/subjects")
    async def schema_subjects(schema_id: FromPath[int]) -> Response[bytes]:
        usages = await asyncio.to_thread(registry.usages, schema_id)
        return answer(sorted({record.subject for record in usages}))

    return [schema, schema_text, schema_versions, schema_subjects]


def _about() -> Sequence[HTTPRouteHandler]:
    @get("/")
    async def root() -> Response[bytes]:
        return answer({})

    @get("/schemas/types")
    async def types() -> Response[bytes]:
        return answer([AVRO])

    @get("/mode")
    async def mode() -> Response[bytes]:
        return answer({"mode": "READWRITE"})

    return [root, types, mode]


def _schema(record: SchemaRecord) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if record.schema_type != AVRO:
        content["schemaType"] = record.schema_type
    if record.references != "[]":
        content["references"] = json.loads(record.references)
    return {**content, "schema": record.schema}


def _version(record: SchemaRecord) -> dict[str, Any]:
    return {"subject": record.subject, "version": record.version, "id": record.id, **_schema(record)}
