"""The routes of subjects and their versions: registering, looking up, deleting."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from litestar import Response, delete, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, RawBody

from headrace.http.registry.answers import (
    Request_,
    answer,
    flag,
    page,
    posted_schema,
    raw,
    version_content,
    version_number,
)
from headrace.registry.formats import formatted, guid_of
from headrace.registry.records import SchemaRecord
from headrace.registry.registry import Registry

# What clients send for "any context"; there is only one.
_ANY_CONTEXT = ":*:"
_DEFAULT_CONTEXT = ":.:"


def subject_handlers(registry: Registry) -> Sequence[HTTPRouteHandler]:
    return [*_writing(registry), *_reading(registry), *_versions(registry), *_deleting(registry)]


def subject_prefix(request: Request_) -> str:
    given = str(request.query_params.get("subjectPrefix", ""))
    return given.removeprefix(_ANY_CONTEXT).removeprefix(_DEFAULT_CONTEXT)


def text_of(registry: Registry, record: SchemaRecord, request: Request_) -> str:
    """The schema in the `format` that is asked for."""
    wanted = str(request.query_params.get("format", ""))
    return formatted(registry.read(record), wanted) if wanted else record.schema


def _writing(registry: Registry) -> Sequence[HTTPRouteHandler]:
    @post("/subjects/{subject:str}/versions", status_code=200)
    async def register(subject: FromPath[str], body: RawBody, request: Request_) -> Response[bytes]:
        posted = posted_schema(body)
        record = await asyncio.to_thread(
            registry.register_version,
            subject,
            posted.text,
            posted.schema_type,
            posted.references,
            normalize=flag(request, "normalize"),
            schema_id=posted.id,
            version=posted.version,
        )
        return answer({"id": record.id, "version": record.version, "guid": guid_of(record)})

    @post("/subjects/{subject:str}", status_code=200)
    async def lookup(subject: FromPath[str], body: RawBody, request: Request_) -> Response[bytes]:
        posted = posted_schema(body)

        def find() -> dict[str, Any]:
            record = registry.lookup(
                subject,
                posted.text,
                posted.schema_type,
                posted.references,
                normalize=flag(request, "normalize"),
                deleted=flag(request, "deleted"),
            )
            return version_content(record, text_of(registry, record, request))

        return answer(await asyncio.to_thread(find))

    return [register, lookup]


def _reading(registry: Registry) -> Sequence[HTTPRouteHandler]:
    @get("/subjects")
    async def subjects(request: Request_) -> Response[bytes]:
        found = await asyncio.to_thread(
            registry.subjects, deleted=flag(request, "deleted"), only_deleted=flag(request, "deletedOnly")
        )
        prefix = subject_prefix(request)
        return answer(page(request, [subject for subject in found if subject.startswith(prefix)]))

    @get("/subjects/{subject:str}/versions")
    async def versions(subject: FromPath[str], request: Request_) -> Response[bytes]:
        found = await asyncio.to_thread(
            registry.versions,
            subject,
            deleted=flag(request, "deleted"),
            only_deleted=flag(request, "deletedOnly"),
        )
        return answer(page(request, found))

    return [subjects, versions]


def _versions(registry: Registry) -> Sequence[HTTPRouteHandler]:
    def find(subject: str, version: str, request: Request_) -> tuple[SchemaRecord, str]:
        record = registry.version(subject, version_number(version), deleted=flag(request, "deleted"))
        return record, text_of(registry, record, request)

    @get("/subjects/{subject:str}/versions/{version:str}")
    async def version(subject: FromPath[str], version: FromPath[str], request: Request_) -> Response[bytes]:
        return answer(version_content(*await asyncio.to_thread(find, subject, version, request)))

    @get("/subjects/{subject:str}/versions/{version:str}/schema")
    async def version_schema(
        subject: FromPath[str], version: FromPath[str], request: Request_
    ) -> Response[bytes]:
        _, text = await asyncio.to_thread(find, subject, version, request)
        return raw(text)

    @get("/subjects/{subject:str}/versions/{version:str}/referencedby")
    async def referenced_by(
        subject: FromPath[str], version: FromPath[str], request: Request_
    ) -> Response[bytes]:
        number = version_number(version)
        found = await asyncio.to_thread(registry.referrers, subject, number, deleted=flag(request, "deleted"))
        return answer(page(request, found))

    return [version, version_schema, referenced_by]


def _deleting(registry: Registry) -> Sequence[HTTPRouteHandler]:
    @delete("/subjects/{subject:str}", status_code=200)
    async def delete_subject(subject: FromPath[str], request: Request_) -> Response[bytes]:
        permanent = flag(request, "permanent")
        return answer(await asyncio.to_thread(registry.delete_subject, subject, permanent=permanent))

    @delete("/subjects/{subject:str}/versions/{version:str}", status_code=200)
    async def delete_version(
        subject: FromPath[str], version: FromPath[str], request: Request_
    ) -> Response[bytes]:
        number, permanent = version_number(version), flag(request, "permanent")
        return answer(await asyncio.to_thread(registry.delete_version, subject, number, permanent=permanent))

    return [delete_subject, delete_version]
