"""The compatibility routes: the levels, and whether a schema would be accepted.

Of Confluent's settings there are the level and `normalize`; a request for another is refused, never ignored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from litestar import Response, delete, get, post, put
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, RawBody

from headrace.http.foreign_api import RefusedError, posted_object
from headrace.http.registry.answers import Request_, answer, flag, posted_schema, version_number
from headrace.registry.compatibility import Incompatibility
from headrace.registry.level import Level
from headrace.registry.records import ConfigRecord
from headrace.registry.registry import Registry
from headrace.registry.subjects import checked_subject

SUBJECT_NOT_FOUND: Final = 40401
LEVEL_NOT_CONFIGURED: Final = 40408
INVALID_LEVEL: Final = 42203
_SETTINGS: Final = ("compatibility", "normalize")
# The value of a setting that we do not have, under which everything is as it is here.
_UNCHANGED: Final = {"compatibilityPolicy": "STRICT"}


def level_handlers(registry: Registry) -> Sequence[HTTPRouteHandler]:
    return [*_global_level(registry), *_subject_levels(registry), *_checks(registry)]


def _global_level(registry: Registry) -> Sequence[HTTPRouteHandler]:
    @get("/config")
    async def config() -> Response[bytes]:
        return _config(await asyncio.to_thread(registry.config, None))

    @put("/config")
    async def set_config(body: RawBody) -> Response[bytes]:
        return await _set_config(registry, None, body)

    @delete("/config", status_code=200)
    async def delete_config() -> Response[bytes]:
        former = await asyncio.to_thread(registry.config, None)
        await asyncio.to_thread(registry.remove_config, None)
        return _config(former)

    return [config, set_config, delete_config]


def _subject_levels(registry: Registry) -> Sequence[HTTPRouteHandler]:
    @get("/config/{subject:str}")
    async def subject_config(subject: FromPath[str], request: Request_) -> Response[bytes]:
        subject = checked_subject(subject)
        if flag(request, "defaultToGlobal"):
            return _config(await asyncio.to_thread(registry.config, subject))
        own = await asyncio.to_thread(registry.own_config, subject)
        if own is None:
            raise RefusedError(
                LEVEL_NOT_CONFIGURED,
                f"Subject '{subject}' does not have subject-level compatibility configured",
            )
        return _config(own)

    @put("/config/{subject:str}")
    async def set_subject_config(subject: FromPath[str], body: RawBody) -> Response[bytes]:
        return await _set_config(registry, subject, body)

    @delete("/config/{subject:str}", status_code=200)
    async def delete_subject_config(subject: FromPath[str]) -> Response[bytes]:
        subject = checked_subject(subject)
        former = await asyncio.to_thread(registry.own_config, subject)
        if former is None:
            raise RefusedError(SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")
        await asyncio.to_thread(registry.remove_config, subject)
        return _config(former)

    return [subject_config, set_subject_config, delete_subject_config]


def _checks(registry: Registry) -> Sequence[HTTPRouteHandler]:
    async def check(
        subject: str, body: bytes, request: Request_, version: int | str | None
    ) -> Response[bytes]:
        posted = posted_schema(body)
        found = await asyncio.to_thread(
            registry.incompatibility,
            subject,
            posted.text,
            posted.schema_type,
            posted.references,
            version=version,
            normalize=flag(request, "normalize"),
        )
        return _verdict(found, request)

    @post("/compatibility/subjects/{subject:str}/versions", status_code=200)
    async def check_all(subject: FromPath[str], body: RawBody, request: Request_) -> Response[bytes]:
        return await check(subject, body, request, None)

    @post("/compatibility/subjects/{subject:str}/versions/{version:str}", status_code=200)
    async def check_one(
        subject: FromPath[str], version: FromPath[str], body: RawBody, request: Request_
    ) -> Response[bytes]:
        return await check(subject, body, request, version_number(version))

    return [check_all, check_one]


async def _set_config(registry: Registry, subject: str | None, body: bytes) -> Response[bytes]:
    level, normalize = _posted_config(body)
    config = await asyncio.to_thread(registry.set_config, subject, level=level, normalize=normalize)
    return answer(_content(config, "compatibility"))


def _posted_config(body: bytes) -> tuple[Level | None, bool | None]:
    content = posted_object(body)
    for name, value in content.items():
        if name not in _SETTINGS and value and value != _UNCHANGED.get(name):
            raise RefusedError(
                INVALID_LEVEL, f"`{name}` is not supported: the settings are {', '.join(_SETTINGS)}."
            )
    given, normalize = content.get("compatibility"), content.get("normalize")
    wanted = given.upper() if isinstance(given, str) else ""
    if wanted not in Level.__members__ and (given is not None or normalize is None):
        raise RefusedError(
            INVALID_LEVEL,
            f"Invalid compatibility level {given!r}. Valid values are {', '.join(Level)}",
        )
    if normalize is not None and not isinstance(normalize, bool):
        raise RefusedError(INVALID_LEVEL, "`normalize` is true or false.")
    return Level(wanted) if wanted else None, normalize


def _config(config: ConfigRecord) -> Response[bytes]:
    return answer(_content(config, "compatibilityLevel"))


def _content(config: ConfigRecord, name_of_level: str) -> dict[str, Any]:
    normalize = {} if config.normalize is None else {"normalize": config.normalize}
    level = {} if config.level is None else {name_of_level: config.level.value}
    return {**normalize, **level}


def _verdict(found: Incompatibility | None, request: Request_) -> Response[bytes]:
    content: dict[str, Any] = {"is_compatible": found is None}
    if flag(request, "verbose"):
        content["messages"] = list(found.messages) if found is not None else []
    return answer(content)
