"""Puts a Connect worker together: its state, its plugins, the worker, and the service in front of it.

One for the process of the platform, with its state in topics, and one for `connect-standalone`, with its
state in memory and the offsets of sources in a file. Invariant: whatever was started is stopped, in reverse
order.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from headrace.client.cluster import Cluster
from headrace.connect.offset_changes import OffsetChanges
from headrace.connect.service import ConnectService
from headrace.connect.worker.parts import WorkerParts
from headrace.connect.worker.worker import Worker
from headrace.http.connect.app import create_connect_app


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningConnect:
    """The service, and the application that serves it."""

    service: ConnectService
    application: Any


@contextlib.asynccontextmanager
async def running_connect(parts: WorkerParts) -> AsyncIterator[RunningConnect]:
    """Start the state, then the worker. Raises log_unavailable, invalid_setting."""
    cluster = Cluster(parts.bootstrap)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(asyncio.to_thread, cluster.close)
        logs = (parts.configs, parts.statuses, parts.offsets)
        for log in logs:
            stack.push_async_callback(asyncio.to_thread, log.stop)
        started = await asyncio.gather(
            *(asyncio.to_thread(log.start) for log in logs), return_exceptions=True
        )
        for failure in started:
            if failure is not None:
                raise failure
        worker = Worker(parts)
        worker.start()
        stack.push_async_callback(asyncio.to_thread, worker.stop)
        service = ConnectService(parts, worker)
        application = create_connect_app(service, OffsetChanges(service), cluster_id=cluster.id)
        yield RunningConnect(service=service, application=application)
