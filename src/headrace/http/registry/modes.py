"""The routes of modes: whether subjects can be changed, and how."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from litestar import Response, delete, get, put
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, RawBody

from headrace.http.foreign_api import RefusedError, posted_object
from headrace.http.registry.answers import Request_, answer, flag
from headrace.registry.mode import Mode
from headrace.registry.registry import Registry
from headrace.registry.subjects import checked_subject

SUBJECT_NOT_FOUND: Final = 40401
MODE_NOT_CONFIGURED: Final = 40409
INVALID_MODE: Final = 42204


def mode_handlers(registry: Registry) -> Sequence[HTTPRouteHandler]:
    return [*_global_mode(registry), *_subject_modes(registry)]


def _global_mode(registry: Registry) -> Sequence[HTTPRouteHandler]:
    @get("/mode")
    async def mode() -> Response[bytes]:
        return _mode(await asyncio.to_thread(registry.mode, None))

    @put("/mode")
    async def set_mode(body: RawBody, request: Request_) -> Response[bytes]:
        wanted = _posted_mode(body)
        await asyncio.to_thread(registry.set_mode, None, wanted, force=flag(request, "force"))
        return _mode(wanted)

    @delete("/mode", status_code=200)
    async def delete_mode(request: Request_) -> Response[bytes]:
        former = await asyncio.to_thread(registry.mode, None)
        await asyncio.to_thread(registry.remove_mode, None, recursive=flag(request, "recursive"))
        return _mode(former)

    return [mode, set_mode, delete_mode]


def _subject_modes(registry: Registry) -> Sequence[HTTPRouteHandler]:
    @get("/mode/{subject:str}")
    async def subject_mode(subject: FromPath[str], request: Request_) -> Response[bytes]:
        subject = checked_subject(subject)
        if flag(request, "defaultToGlobal"):
            return _mode(await asyncio.to_thread(registry.mode, subject))
        own = await asyncio.to_thread(registry.own_mode, subject)
        if own is None:
            raise RefusedError(
                MODE_NOT_CONFIGURED, f"Subject '{subject}' does not have subject-level mode configured"
            )
        return _mode(own)

    @put("/mode/{subject:str}")
    async def set_subject_mode(subject: FromPath[str], body: RawBody, request: Request_) -> Response[bytes]:
        wanted = _posted_mode(body)
        await asyncio.to_thread(registry.set_mode, subject, wanted, force=flag(request, "force"))
        return _mode(wanted)

    @delete("/mode/{subject:str}", status_code=200)
    async def delete_subject_mode(subject: FromPath[str]) -> Response[bytes]:
        subject = checked_subject(subject)
        former = await asyncio.to_thread(registry.own_mode, subject)
        if former is None:
            raise RefusedError(SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")
        await asyncio.to_thread(registry.remove_mode, subject)
        return _mode(former)

    return [subject_mode, set_subject_mode, delete_subject_mode]


def _posted_mode(body: bytes) -> Mode:
    given = posted_object(body).get("mode")
    wanted = given.upper() if isinstance(given, str) else ""
    if wanted not in Mode.__members__:
        raise RefusedError(INVALID_MODE, f"Invalid mode. Valid values are {', '.join(Mode)}.")
    return Mode(wanted)


def _mode(mode: Mode) -> Response[bytes]:
    return answer({"mode": mode.value})
