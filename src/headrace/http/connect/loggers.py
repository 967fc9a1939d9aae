"""The routes about loggers: the levels of this process's loggers, by Java's names of levels.

A level holds until the process ends. With one worker, `scope=cluster` means the same as `scope=worker`, and
only its answer differs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any, Final

from litestar import Request, Response, get, put
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, RawBody

from headrace.http.connect.answers import BAD_REQUEST, answer, empty
from headrace.http.foreign_api import RefusedError, posted_object

_ROOT: Final = "root"
_OFF: Final = 100
_LEVELS: Final = {
    "OFF": _OFF,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}
_NAMES: Final = {number: name for name, number in _LEVELS.items()}


def logger_handlers() -> Sequence[HTTPRouteHandler]:
    # When which level was set here, in milliseconds.
    modified: dict[str, int] = {}

    def described(name: str) -> dict[str, Any]:
        level = _logger(name).getEffectiveLevel()
        shown = _NAMES.get(level, logging.getLevelName(level))
        return {"level": shown, "last_modified": modified.get(name)}

    @get("/admin/loggers")
    async def loggers() -> Response[bytes]:
        return answer({name: described(name) for name in sorted({_ROOT, *modified, *_leveled()})})

    @get("/admin/loggers/{name:str}")
    async def logger(name: FromPath[str]) -> Response[bytes]:
        if name != _ROOT and name not in modified and name not in _existing():
            raise RefusedError(404, f"Logger {name} not found.")
        return answer(described(name))

    @put("/admin/loggers/{name:str}")
    async def set_level(
        request: Request[Any, Any, Any], name: FromPath[str], body: RawBody
    ) -> Response[bytes]:
        level = posted_object(body).get("level")
        if level is None:
            raise RefusedError(BAD_REQUEST, "Desired 'level' parameter was not specified in request.")
        if str(level).upper() not in _LEVELS:
            raise RefusedError(404, f"invalid log level '{level}'.")
        names = [name] if name == _ROOT else sorted({name, *_below(name)})
        for each in names:
            _logger(each).setLevel(_LEVELS[str(level).upper()])
            modified[each] = time.time_ns() // 1_000_000
        return empty(204) if request.query_params.get("scope", "").lower() == "cluster" else answer(names)

    return [loggers, logger, set_level]


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == _ROOT else name)


def _existing() -> set[str]:
    return {name for name, it in logging.root.manager.loggerDict.items() if isinstance(it, logging.Logger)}


def _leveled() -> set[str]:
    return {name for name in _existing() if logging.getLogger(name).level}


def _below(name: str) -> set[str]:
    return {each for each in _existing() if each.startswith(f"{name}.")}
