"""Kafka Connect's REST API, as of Kafka 4.3, in its formats, for existing clients.

Invariant: a change is answered once it is in the log; what becomes of it, the status tells. Decides nothing
about connectors: that is `headrace.connect`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import quote

from litestar import Litestar, Request, Response, delete, get, patch, post, put
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, RawBody

import headrace
from headrace.connect.offset_changes import OffsetChanges
from headrace.connect.service import ConnectService
from headrace.connect.state.configs import Target
from headrace.core.errors import HeadraceError
from headrace.http.connect.answers import (
    answer,
    empty,
    is_true,
    posted_config,
    posted_connector,
    posted_offsets,
    refused,
)
from headrace.http.connect.loggers import logger_handlers
from headrace.http.connect.plugins import plugin_handlers
from headrace.http.foreign_api import RefusedError, create_application, posted_object

# The version of Kafka whose API this is: clients decide by it what they may ask.
API_VERSION: Final = "4.3.1"
_NOT_FOUND: Final = "HTTP 404 Not Found"

Asked = Request[Any, Any, Any]


def create_connect_app(
    service: ConnectService, offsets: OffsetChanges, *, cluster_id: Callable[[], str]
) -> Litestar:
    """The application; the caller starts the service before and stops it after."""
    return create_application(
        [
            *_about(service, cluster_id),
            *_connectors(service),
            *_configs(service),
            *_states(service),
            *_tasks(service),
            *_topics(service),
            *_offsets(offsets),
            *plugin_handlers(service),
            *logger_handlers(),
        ],
        error=refused,
        code_of=lambda error: error.http_status,
    )


def _about(service: ConnectService, cluster_id: Callable[[], str]) -> Sequence[HTTPRouteHandler]:
    @get("/")
    async def root() -> Response[bytes]:
        found = await asyncio.to_thread(cluster_id)
        commit = f"headrace-{headrace.__version__}"
        return answer({"version": API_VERSION, "commit": commit, "kafka_cluster_id": found})

    @get("/health")
    async def health() -> Response[bytes]:
        try:
            await asyncio.to_thread(cluster_id)
        except HeadraceError as error:
            return answer({"status": "unhealthy", "message": str(error)}, 500)
        trouble = service.trouble()
        if trouble:
            return answer({"status": "unhealthy", "message": trouble}, 500)
        message = "Worker has completed startup and is ready to handle requests."
        return answer({"status": "healthy", "message": message})

    return [root, health]


def _connectors(service: ConnectService) -> Sequence[HTTPRouteHandler]:
    def listed(expand: list[str]) -> Any:
        names = service.names()
        if not expand:
            return names
        described: dict[str, Any] = {}
        for name in names:
            try:
                parts = {"status": service.status, "info": service.info}
                described[name] = {part: tell(name) for part, tell in parts.items() if part in expand}
            except HeadraceError:
                # Deleted while we looked.
                described.pop(name, None)
        return described

    @get("/connectors")
    async def connectors(request: Asked) -> Response[bytes]:
        return answer(await asyncio.to_thread(listed, request.query_params.getall("expand", [])))

    @post("/connectors")
    async def create(request: Asked, body: RawBody) -> Response[bytes]:
        name, config, target = posted_connector(body)
        return _created(request, name, await asyncio.to_thread(service.create, name, config, target))

    @get("/connectors/{name:str}")
    async def connector(name: FromPath[str]) -> Response[bytes]:
        return answer(await asyncio.to_thread(service.info, name))

    @delete("/connectors/{name:str}", status_code=200)
    async def remove(name: FromPath[str]) -> Response[bytes]:
        await asyncio.to_thread(service.delete, name)
        return empty(204)

    return [connectors, create, connector, remove]


def _configs(service: ConnectService) -> Sequence[HTTPRouteHandler]:
    @get("/connectors/{name:str}/config")
    async def config(name: FromPath[str]) -> Response[bytes]:
        wish = await asyncio.to_thread(service.wish, name)
        return answer(dict(wish.config))

    @put("/connectors/{name:str}/config")
    async def put_config(request: Asked, name: FromPath[str], body: RawBody) -> Response[bytes]:
        given = posted_config(posted_object(body))
        is_new, described = await asyncio.to_thread(service.put_config, name.strip(), given)
        return _created(request, name, described) if is_new else answer(described)

    @patch("/connectors/{name:str}/config")
    async def patch_config(name: FromPath[str], body: RawBody) -> Response[bytes]:
        changes = posted_config(posted_object(body))
        return answer(await asyncio.to_thread(service.patch_config, name, changes))

    return [config, put_config, patch_config]


def _states(service: ConnectService) -> Sequence[HTTPRouteHandler]:
    async def turn(name: str, target: Target, status: int) -> Response[bytes]:
        await asyncio.to_thread(service.set_target, name, target)
        return empty(status)

    @get("/connectors/{name:str}/status")
    async def status(name: FromPath[str]) -> Response[bytes]:
        return answer(await asyncio.to_thread(service.status, name))

    @put("/connectors/{name:str}/pause", status_code=200)
    async def pause(name: FromPath[str]) -> Response[bytes]:
        return await turn(name, "PAUSED", 202)

    @put("/connectors/{name:str}/resume", status_code=200)
    async def resume(name: FromPath[str]) -> Response[bytes]:
        return await turn(name, "STARTED", 202)

    @put("/connectors/{name:str}/stop", status_code=200)
    async def stop(name: FromPath[str]) -> Response[bytes]:
        return await turn(name, "STOPPED", 204)

    @post("/connectors/{name:str}/restart", status_code=200)
    async def restart(request: Asked, name: FromPath[str]) -> Response[bytes]:
        asked = request.query_params
        tasks, failed = is_true(asked.get("includeTasks")), is_true(asked.get("onlyFailed"))
        plan = await asyncio.to_thread(service.restart, name, include_tasks=tasks, only_failed=failed)
        return answer(plan, 202) if tasks or failed else empty(204)

    return [status, pause, resume, stop, restart]


def _tasks(service: ConnectService) -> Sequence[HTTPRouteHandler]:
    @get("/connectors/{name:str}/tasks")
    async def tasks(name: FromPath[str]) -> Response[bytes]:
        return answer(await asyncio.to_thread(service.tasks, name))

    @get("/connectors/{name:str}/tasks/{task:str}/status")
    async def task_status(name: FromPath[str], task: FromPath[str]) -> Response[bytes]:
        return answer(await asyncio.to_thread(service.task_status, name, _number(task)))

    @post("/connectors/{name:str}/tasks/{task:str}/restart", status_code=200)
    async def restart_task(name: FromPath[str], task: FromPath[str]) -> Response[bytes]:
        await asyncio.to_thread(service.restart_task, name, _number(task))
        return empty(204)

    return [tasks, task_status, restart_task]


def _topics(service: ConnectService) -> Sequence[HTTPRouteHandler]:
    @get("/connectors/{name:str}/topics")
    async def topics(name: FromPath[str]) -> Response[bytes]:
        return answer({name: {"topics": await asyncio.to_thread(service.topics, name)}})

    @put("/connectors/{name:str}/topics/reset", status_code=200)
    async def reset(name: FromPath[str]) -> Response[bytes]:
        await asyncio.to_thread(service.forget_topics, name)
        return empty(202)

    return [topics, reset]


def _offsets(changes: OffsetChanges) -> Sequence[HTTPRouteHandler]:
    @get("/connectors/{name:str}/offsets")
    async def offsets(name: FromPath[str]) -> Response[bytes]:
        return answer({"offsets": await asyncio.to_thread(changes.shown, name)})

    @patch("/connectors/{name:str}/offsets")
    async def alter(name: FromPath[str], body: RawBody) -> Response[bytes]:
        wanted = posted_offsets(body)
        return answer({"message": await asyncio.to_thread(changes.alter, name, wanted)})

    @delete("/connectors/{name:str}/offsets", status_code=200)
    async def reset(name: FromPath[str]) -> Response[bytes]:
        return answer({"message": await asyncio.to_thread(changes.reset, name)})

    return [offsets, alter, reset]


def _created(request: Asked, name: str, described: Any) -> Response[bytes]:
    response = answer(described, 201)
    response.headers["location"] = f"{str(request.base_url).rstrip('/')}/connectors/{quote(name, safe='')}"
    return response


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise RefusedError(404, _NOT_FOUND)
    return int(text)
