"""`connect-standalone`: a worker in the foreground, with connectors from files and its own REST API.

The worker's file and the connectors' files are Kafka's. Configurations and statuses are in memory, offsets of
sources in the file `offset.storage.file.filename`, in a format of our own (JSON). Paths are relative to the
folder in which the command was started, and any file may be used: whoever starts it may do that anyway.
Invariants: a connector that cannot be created ends the worker, with the reason, before it says that it is
ready; on Ctrl-C tasks flush and commit.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import uvloop

from headrace.assembly.connect_parts import running_connect
from headrace.assembly.process_logging import configure_logging
from headrace.assembly.processes.serving import Door, serve_all, wait_for_log
from headrace.connect.connectors.builtin import builtin_plugins
from headrace.connect.connectors.files import AnyFile
from headrace.connect.converters import full_name
from headrace.connect.overrides import overrides
from headrace.connect.properties import read_properties
from headrace.connect.service import ConnectService
from headrace.connect.state.configs import ConfigLog
from headrace.connect.state.logs import FileLog, MemoryLog
from headrace.connect.state.source_offsets import OffsetLog
from headrace.connect.state.statuses import StatusLog
from headrace.connect.worker.parts import WorkerParts
from headrace.core.addresses import WILDCARD_HOSTS
from headrace.core.errors import HeadraceError
from headrace.http.admission import Admission
from headrace.http.connect.answers import CONNECT_RULES

_LISTENERS: Final = "listeners"
_DEFAULT_LISTENERS: Final = "http://127.0.0.1:8083"
_LOOPBACK: Final = "127.0.0.1"
_OFFSETS: Final = "offset.storage.file.filename"
_REQUIRED: Final = ("bootstrap.servers", "key.converter", "value.converter", _OFFSETS)
_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
_FLUSH_MS: Final = 60_000
_GRACEFUL_MS: Final = 5_000

_log = logging.getLogger(__name__)


def run_standalone(worker_file: Path, connector_files: Sequence[Path], folder: Path) -> None:
    """Run until SIGTERM or SIGINT. Raises HeadraceError."""
    configure_logging()
    worker = read_properties(folder / worker_file)
    connectors = [_connector(folder / file) for file in connector_files]
    missing = [name for name in _REQUIRED if not worker.get(name)]
    if missing:
        raise HeadraceError(
            "invalid_setting", f"{worker_file} has no {missing[0]}, which a standalone worker needs."
        )
    uvloop.run(_run(worker, connectors, folder))


async def _run(worker: Mapping[str, str], connectors: Sequence[dict[str, str]], folder: Path) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    doors_at = _listeners(worker.get(_LISTENERS) or _DEFAULT_LISTENERS)
    parts = _parts(worker, doors_at[0], folder)
    if not await wait_for_log(parts.bootstrap, stopping):
        return
    async with running_connect(parts) as connect:
        configure_logging()
        for config in connectors:
            await asyncio.to_thread(_create, connect.service, config)
        doors = tuple(
            Door(
                name="connect",
                application=connect.application,
                rules=CONNECT_RULES,
                host=host,
                port=port,
                setting=_LISTENERS,
                probe="/connectors",
            )
            for host, port in doors_at
        )
        hosts = {"localhost", *(host for host, _ in doors_at), worker.get("rest.advertised.host.name", "")}
        if hosts & set(WILDCARD_HOSTS):
            hosts.add(socket.gethostname())
        await serve_all(
            doors, stopping, _nothing_streams, admission=Admission(hosts=hosts), say_ready=lambda _: None
        )


def _parts(worker: Mapping[str, str], door: tuple[str, int], folder: Path) -> WorkerParts:
    converters = {name: value for name, value in worker.items() if name.startswith(_CONVERTERS)}
    for name in _CONVERTERS:
        if name in worker and full_name(worker[name]) is None:
            raise HeadraceError("invalid_setting", f"{name}: the class {worker[name]} could not be found.")
    return WorkerParts(
        bootstrap=worker["bootstrap.servers"],
        worker_id=f"{door[0]}:{door[1]}",
        plugins=builtin_plugins(AnyFile(folder), standard_streams=True),
        configs=ConfigLog(MemoryLog),
        statuses=StatusLog(MemoryLog),
        offsets=OffsetLog(FileLog.at(folder / worker[_OFFSETS])),
        converters=converters,
        clients={client: overrides(worker, client, infix=".") for client in ("consumer", "producer")},
        offset_flush_seconds=_milliseconds(worker, "offset.flush.interval.ms", _FLUSH_MS),
        graceful_seconds=_milliseconds(worker, "task.shutdown.graceful.timeout.ms", _GRACEFUL_MS),
    )


def _create(service: ConnectService, config: dict[str, str]) -> None:
    name = config.get("name", "")
    try:
        service.create(name, config, "STARTED")
    except HeadraceError as error:
        raise HeadraceError(error.code, f"The connector {name!r} was not created: {error}") from error
    _log.info("Created connector %s", name)


def _connector(path: Path) -> dict[str, str]:
    """The configuration in a properties file, or in JSON: only that, or `{"name": …, "config": …}`."""
    if path.suffix != ".json":
        return read_properties(path)
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        config = {"name": content["name"], **content["config"]} if "config" in content else content
        return {str(name): str(value) for name, value in config.items() if value is not None}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise HeadraceError(
            "invalid_setting", f"The file {path} holds no connector's configuration: {error}."
        ) from error


def _listeners(text: str) -> list[tuple[str, int]]:
    """Hosts and ports. Without a host, only this machine can connect."""
    found = []
    for each in text.split(","):
        try:
            parts = urlsplit(each.strip())
            port = parts.port
        except ValueError:
            port = None
        if port is None or parts.scheme.lower() != "http":
            raise HeadraceError(
                "invalid_setting",
                f"The listener {each.strip()!r} is not of the form http://HOST:PORT.",
                remedy="TLS is not supported.",
            )
        found.append((parts.hostname or _LOOPBACK, port))
    return found


def _milliseconds(worker: Mapping[str, str], name: str, default: int) -> float:
    try:
        return int(worker.get(name, default)) / 1000
    except ValueError as error:
        raise HeadraceError("invalid_setting", f"{name} = {worker[name]} is not a whole number.") from error


async def _nothing_streams() -> None:
    """No route of this API streams."""
