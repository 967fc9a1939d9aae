"""The embedded broker as a server: opens the logs, listens, does housekeeping, and stops cleanly.

Start: it binds the port, opens the logs (with recovery after an unclean stop), then accepts connections.
Stop: it accepts no more connections, completes waiting fetches with what is there, sends replies, syncs
records to disk, and closes the logs with the mark of a clean stop. Housekeeping (retention, deletion,
checkpoints, compaction) runs on timers of this event loop.

Invariants: everything but syncing runs on one event loop, so nothing in the broker needs a lock; this class
owns every task and timer. Never interprets a request.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from headrace.broker.apis import ALL
from headrace.broker.broker import Broker
from headrace.broker.configs.store import ConfigStore, static_log_config
from headrace.broker.connection import Connection
from headrace.broker.dispatch import Dispatcher
from headrace.broker.group_commit import GroupCommit
from headrace.broker.settings import BrokerSettings
from headrace.broker.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from headrace.core.errors import HeadraceError
from headrace.log.folder.data_folder import DataFolder
from headrace.log.partition.partition_log import PartitionLog

_log = logging.getLogger(__name__)

CHECKPOINT_SECONDS: Final = 5.0
# How often to check for something to compact, until there is something for the first time.
COMPACTION_LOOK_SECONDS: Final = 2.0
# How long clients have to take their replies when the broker stops.
DRAIN_SECONDS: Final = 5.0


class BrokerServer:
    """`await start()`, then `await stop()`. `port` is the port in use."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._connections: set[Connection] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._server: asyncio.Server | None = None
        self._logs: DataFolder | None = None
        self._broker: Broker | None = None
        self._group_commit: GroupCommit | None = None

    @property
    def port(self) -> int:
        assert self._broker is not None
        return self._broker.port

    @property
    def broker(self) -> Broker:
        assert self._broker is not None
        return self._broker

    async def start(self) -> None:
        """Raises HeadraceError if the port is taken, or the folder is in use or unreadable."""
        settings = self._settings
        listener = _bind(settings.host, settings.port)
        try:
            self._open_logs()
        except BaseException:
            listener.close()
            raise
        broker = self.broker
        broker.port = listener.getsockname()[1]
        # Connections inherit it. With Kafka's size librdkafka consumes 10% faster than with Linux's default
        # of several megabytes (docs/benchmarks.md).
        if (send_buffer := broker.configs.number("socket.send.buffer.bytes")) >= 0:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        broker.configs.announce(broker.port)
        dispatch = Dispatcher(broker, ALL)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(
                dispatch,
                broker.configs.number("socket.request.max.bytes"),
                self._connections.add,
                self._connections.discard,
            ),
            sock=listener,
            backlog=broker.configs.number("socket.listen.backlog.size"),
        )
        self._start_coordinators(broker)
        self._own(self._keep_house())
        self._own(self._checkpoint())
        self._own(self._close_idle())
        self._own(self._clean())

    async def stop(self) -> None:
        """Stop gracefully. Replies that a client does not take in time are dropped."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._broker is not None:
            self._broker.waiting.complete_all()
            for shards in self._broker.shards_in_use:
                shards.close()
        for connection in tuple(self._connections):
            connection.close()
        deadline = asyncio.get_running_loop().time() + DRAIN_SECONDS
        while self._connections and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)
        for connection in tuple(self._connections):
            connection.abort()
        if self._broker is not None:
            for shards in self._broker.shards_in_use:
                shards.end()
        if self._group_commit is not None:
            await self._group_commit.stop()
        if self._logs is not None:
            self._logs.close()

    async def kill(self) -> None:
        """Stop as a crash would: no replies, no more writes. For tests in the same process."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._broker is not None:
            for shards in self._broker.shards_in_use:
                shards.close()
                shards.end()
        for connection in tuple(self._connections):
            connection.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._group_commit is not None:
            await self._group_commit.kill()
        if self._logs is not None:
            self._logs.abandon()

    def _open_logs(self) -> None:
        settings = self._settings
        logs = DataFolder.open(
            settings.data_dir,
            config_of=static_log_config(settings),
            durable=settings.fsync == "always",
            reserving=True,
        )
        self._logs = logs
        configs = ConfigStore(settings, logs)
        logs.remove_expired_producers(time.time_ns() // 1_000_000)
        self._group_commit = GroupCommit(
            settings.fsync, settings.fsync_interval_ms, self._flushed, logs.reserving
        )
        self._group_commit.start()
        self._broker = Broker(settings, logs, configs, self._group_commit)

    def _flushed(self, log: PartitionLog) -> None:
        self.broker.wake(log)

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(work))

    def _start_coordinators(self, broker: Broker) -> None:
        """Load the groups and transactions of earlier runs."""
        if CONSUMER_OFFSETS in broker.logs.topics:
            broker.groups.shards.start()
        if TRANSACTION_STATE in broker.logs.topics:
            broker.transactions.shards.start()
            self._own(self._resume_transactions(broker))

    @staticmethod
    async def _resume_transactions(broker: Broker) -> None:
        if broker.groups.shards.loading:
            await broker.groups.shards.all_loaded.wait()
        await broker.transactions.resume()

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(self.broker.configs.number("log.retention.check.interval.ms") / 1000)
            _attempt("housekeeping", lambda: self.broker.logs.housekeep(self.broker.now_ms()))

    async def _checkpoint(self) -> None:
        while True:
            await asyncio.sleep(CHECKPOINT_SECONDS)
            _attempt("the checkpoint", lambda: self.broker.logs.checkpoint(self.broker.now_ms()))

    async def _clean(self) -> None:
        """Compaction. Its modules are imported once there is something to compact."""
        broker = self.broker
        while not any(
            topic.partitions[0].config.compact and any(log.has_closed_segments for log in topic.partitions)
            for topic in broker.logs.topics.values()
        ):
            backoff = max(1, broker.configs.number("log.cleaner.backoff.ms")) / 1000
            await asyncio.sleep(min(COMPACTION_LOOK_SECONDS, backoff))
        from headrace.broker.log_cleaning import LogCleaning  # noqa: PLC0415
        from headrace.log.compaction.cleaner import Cleaner  # noqa: PLC0415

        cleaner = Cleaner(broker.logs)
        await LogCleaning(cleaner, broker.configs, broker.now_ms, broker.logs.sync_closed).run()

    async def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            seconds = self.broker.configs.number("connections.max.idle.ms") / 1000
            await asyncio.sleep(max(0.1, min(60.0, seconds / 10)))
            for connection in tuple(self._connections):
                if not connection.busy and loop.time() - connection.last_active > seconds:
                    connection.close()


def _attempt(what: str, work: Callable[[], object]) -> None:
    """Log a failure of housekeeping; the next round tries again."""
    try:
        work()
    except Exception:
        _log.exception("%s failed; the next round tries again", what)


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _name, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise HeadraceError(
            "invalid_setting",
            f"The broker cannot listen on {host}: {error.strerror}.",
            remedy="Give an address of this machine with --host.",
        ) from error
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise HeadraceError(
                "port_in_use",
                f"Port {port} on {host} is in use.",
                remedy="Stop the process that listens there, or choose another port with --port.",
            ) from error
        raise HeadraceError(
            "invalid_setting",
            f"The broker cannot listen on {host}:{port}: {error.strerror}.",
            remedy="Choose another address or port.",
        ) from error
    return listener
