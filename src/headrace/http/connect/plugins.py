"""The routes about plugins: which there are, their settings, and whether a configuration is right."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from litestar import Request, Response, get, put
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, RawBody

import headrace
from headrace.connect.converters import CONVERTERS, HEADER_CONVERTERS
from headrace.connect.service import ConnectService
from headrace.http.connect.answers import answer, posted_config
from headrace.http.foreign_api import posted_object


def plugin_handlers(service: ConnectService) -> Sequence[HTTPRouteHandler]:
    @get("/connector-plugins")
    async def plugins(request: Request[Any, Any, Any]) -> Response[bytes]:
        listed = [_described(each.class_name, each.kind, each.version) for each in service.parts.plugins]
        if request.query_params.get("connectorsOnly", "true").lower() != "true":
            version = headrace.__version__
            listed += [_described(name, "converter", version) for name in CONVERTERS]
            listed += [_described(name, "header_converter", version) for name in sorted(HEADER_CONVERTERS)]
        return answer(listed)

    @get("/connector-plugins/{plugin:str}/config")
    async def settings(plugin: FromPath[str]) -> Response[bytes]:
        return answer([each.as_json() for each in service.plugin_settings(plugin)])

    @put("/connector-plugins/{plugin:str}/config/validate")
    async def validated(plugin: FromPath[str], body: RawBody) -> Response[bytes]:
        config = posted_config(posted_object(body))
        return answer((await asyncio.to_thread(service.validate, plugin, config)).as_json())

    return [plugins, settings, validated]


def _described(class_name: str, kind: str, version: str) -> dict[str, str]:
    return {"class": class_name, "type": kind, "version": version}
