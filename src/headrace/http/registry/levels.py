"""The compatibility routes: the levels, and whether a schema would be accepted.

Of Confluent's settings only the level exists; a request for another is rejected, never ignored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from litestar import Request, Response, delete, get, post, put
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, RawBody

from headrace.http.foreign_api import RefusedError, posted_object
from headrace.http.registry.answers import answer, posted_schema, version_number
from headrace.registry.compatibility import Incompatibility
from headrace.registry.level import Level
from headrace.registry.registry import Registry

SUBJECT_NOT_FOUND: Final = 40401
LEVEL_NOT_CONFIGURED: Final = 40408
INVALID_LEVEL: Final = 42203


def level_handlers(registry: Registry) -> Sequence[HTTPRouteHandler]:
    return [*_global_level(registry), *_subject_levels(registry), *_checks(registry)]


def _global_level(registry: Registry) -> Sequence[HTTPRouteHandler]:
    @get("/config")
    async def config() -> Response[bytes]:
        return _level(await asyncio.to_thread(registry.global_level))

    @put("/config")
    async def set_config(body: RawBody) -> Response[bytes]:
        level = _posted_level(body)
        await asyncio.to_thread(registry.set_level, None, level)
        return answer({"compatibility": level.value})

    @delete("/config", status_code=200)
    async def delete_config() -> Response[bytes]:
        former = await asyncio.to_thread(registry.global_level)
        await asyncio.to_thread(registry.set_level, None, None)
        return _level(former)

    return [config, set_config, delete_config]


def _subject_levels(registry: Registry) -> Sequence[HTTPRouteHandler]:
    @get("/config/{subject:str}")
    async def subject_config(subject: FromPath[str], request: Request[Any, Any, Any]) -> Response[bytes]:
        if _flag(request, "defaultToGlobal"):
            return _level(await asyncio.to_thread(registry.level, subject))
        own = await asyncio.to_thread(registry.own_level, subject)
        if own is None:
            raise RefusedError(
                LEVEL_NOT_CONFIGURED,
                f"Subject '{subject}' does not have subject-level compatibility configured",
            )
        return _level(own)

    @put("/config/{subject:str}")
    async def set_subject_config(subject: FromPath[str], body: RawBody) -> Response[bytes]:
        level = _posted_level(body)
        await asyncio.to_thread(registry.set_level, subject, level)
        return answer({"compatibility": level.value})

    @delete("/config/{subject:str}", status_code=200)
    async def delete_subject_config(subject: FromPath[str]) -> Response[bytes]:
        former = await asyncio.to_thread(registry.own_level, subject)
        if former is None:
            raise RefusedError(SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")
        await asyncio.to_thread(registry.set_level, subject, None)
        return _level(former)

    return [subject_config, set_subject_config, delete_subject_config]


def _checks(registry: Registry) -> Sequence[HTTPRouteHandler]:
    @post("/compatibility/subjects/{subject:str}/versions", status_code=200)
    async def check_all(
        subject: FromPath[str], body: RawBody, request: Request[Any, Any, Any]
    ) -> Response[bytes]:
        text, schema_type = posted_schema(body)
        found = await asyncio.to_thread(registry.incompatibility, subject, text, schema_type)
        return _verdict(found, request)

    @post("/compatibility/subjects/{subject:str}/versions/{version:str}", status_code=200)
    async def check_one(
        subject: FromPath[str], version: FromPath[str], body: RawBody, request: Request[Any, Any, Any]
    ) -> Response[bytes]:
        text, schema_type = posted_schema(body)
        number = version_number(version)
        found = await asyncio.to_thread(registry.incompatibility, subject, text, schema_type, version=number)
        return _verdict(found, request)

    return [check_all, check_one]


def _posted_level(body: bytes) -> Level:
    content = posted_object(body)
    for name, value in content.items():
        if name != "compatibility" and value:
            raise RefusedError(
                INVALID_LEVEL, f"`{name}` is not supported: `compatibility` is the only setting."
            )
    given = content.get("compatibility")
    wanted = given.upper() if isinstance(given, str) else ""
    if wanted not in Level.__members__:
        raise RefusedError(
            INVALID_LEVEL,
            f"Invalid compatibility level {given!r}. Valid values are {', '.join(Level)}",
        )
    return Level(wanted)


def _level(level: Level) -> Response[bytes]:
    return answer({"compatibilityLevel": level.value})


def _verdict(found: Incompatibility | None, request: Request[Any, Any, Any]) -> Response[bytes]:
    content: dict[str, Any] = {"is_compatible": found is None}
    if _flag(request, "verbose"):
        content["messages"] = list(found.messages) if found is not None else []
    return answer(content)


def _flag(request: Request[Any, Any, Any], name: str) -> bool:
    return str(request.query_params.get(name, "")).lower() == "true"
