"""The routes of schemas: all of them, by their ids, and by their GUIDs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from headrace.http.registry.answers import (
    Request_,
    answer,
    flag,
    page,
    raw,
    schema_content,
    version_content,
)
from headrace.http.registry.subjects import subject_prefix, text_of
from headrace.registry.registry import Registry


def schema_handlers(registry: Registry) -> Sequence[HTTPRouteHandler]:
    return [*_all(registry), *_by_id(registry), *_by_guid(registry)]


def _all(registry: Registry) -> Sequence[HTTPRouteHandler]:
    @get("/schemas")
    async def schemas(request: Request_) -> Response[bytes]:
        found = await asyncio.to_thread(
            registry.records,
            subject_prefix(request),
            deleted=flag(request, "deleted"),
            only_latest=flag(request, "latestOnly"),
        )
        return answer([version_content(record, record.schema) for record in page(request, found)])

    return [schemas]


def _by_id(registry: Registry) -> Sequence[HTTPRouteHandler]:
    @get("/schemas/ids/{schema_id:int}")
    async def schema(schema_id: FromPath[int], request: Request_) -> Response[bytes]:
        def find() -> dict[str, Any]:
            record = registry.schema(schema_id)
            content = schema_content(record, text_of(registry, record, request))
            highest = {"maxId": registry.highest_id()} if flag(request, "fetchMaxId") else {}
            return {**content, **highest}

        return answer(await asyncio.to_thread(find))

    @get("/schemas/ids/{schema_id:int}/schema")
    async def schema_text(schema_id: FromPath[int], request: Request_) -> Response[bytes]:
        return raw(await asyncio.to_thread(lambda: text_of(registry, registry.schema(schema_id), request)))

    @get("/schemas/ids/{schema_id:int}/versions")
    async def schema_versions(schema_id: FromPath[int], request: Request_) -> Response[bytes]:
        usages = await asyncio.to_thread(registry.usages, schema_id, deleted=flag(request, "deleted"))
        found = [{"subject": record.subject, "version": record.version} for record in usages]
        return answer(page(request, found))

    @get("/schemas/ids/{schema_id:int}/subjects")
    async def schema_subjects(schema_id: FromPath[int], request: Request_) -> Response[bytes]:
        usages = await asyncio.to_thread(registry.usages, schema_id, deleted=flag(request, "deleted"))
        return answer(page(request, sorted({record.subject for record in usages})))

    return [schema, schema_text, schema_versions, schema_subjects]


def _by_guid(registry: Registry) -> Sequence[HTTPRouteHandler]:
    @get("/schemas/guids/{guid:str}")
    async def schema_by_guid(guid: FromPath[str], request: Request_) -> Response[bytes]:
        def find() -> dict[str, Any]:
            record = registry.schema(registry.ids_of_guid(guid)[0])
            return schema_content(record, text_of(registry, record, request))

        return answer(await asyncio.to_thread(find))

    @get("/schemas/guids/{guid:str}/ids")
    async def ids_by_guid(guid: FromPath[str]) -> Response[bytes]:
        found = await asyncio.to_thread(registry.ids_of_guid, guid)
        return answer([{"context": ".", "id": schema_id} for schema_id in found])

    return [schema_by_guid, ids_by_guid]
