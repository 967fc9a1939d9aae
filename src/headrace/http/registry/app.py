"""Confluent's Schema Registry API: its routes and formats, for existing clients.

Invariant: what is missing (contexts, metadata, rules, aliases) is refused in the error format (`answers.py`),
never answered as if it had worked. Decides nothing about schemas: that is `headrace.registry`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from litestar import Litestar, Response, get
from litestar.handlers import HTTPRouteHandler

from headrace.http.foreign_api import create_application
from headrace.http.registry.answers import answer, refused
from headrace.http.registry.levels import level_handlers
from headrace.http.registry.media_types import AcceptedMediaType
from headrace.http.registry.modes import mode_handlers
from headrace.http.registry.schemas import schema_handlers
from headrace.http.registry.slashes import SlashKeeping, SlashRestoring
from headrace.http.registry.subjects import subject_handlers
from headrace.registry.registry import Registry
from headrace.registry.schema import SCHEMA_TYPES

ERROR_CODES: Final[dict[str, int]] = {
    "subject_not_found": 40401,
    "version_not_found": 40402,
    "schema_not_found": 40403,
    "subject_deleted": 40404,
    "subject_not_deleted": 40405,
    "version_deleted": 40406,
    "version_not_deleted": 40407,
    "incompatible_schema": 40901,
    "invalid_schema": 42201,
    "change_not_permitted": 42205,
    "reference_exists": 42206,
    "invalid_subject": 42208,
    "schema_too_large": 42209,
    "log_unavailable": 50001,
}


def create_registry_app(registry: Registry) -> Litestar:
    """The application; the caller starts the registry before and stops it after."""
    return create_application(
        [
            *subject_handlers(registry),
            *schema_handlers(registry),
            *level_handlers(registry),
            *mode_handlers(registry),
            *_about(),
        ],
        error=refused,
        code_of=lambda error: ERROR_CODES.get(error.code, error.http_status),
        middleware=[AcceptedMediaType, SlashRestoring],
        application_type=SlashKeeping,
    )


def _about() -> Sequence[HTTPRouteHandler]:
    @get("/")
    async def root() -> Response[bytes]:
        return answer({})

    @get("/schemas/types")
    async def types() -> Response[bytes]:
        return answer(SCHEMA_TYPES)

    @get("/contexts")
    async def contexts() -> Response[bytes]:
        # The default one.
        return answer(["."])

    return [root, types, contexts]
