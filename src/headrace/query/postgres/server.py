"""The door: listens, takes connections through startup, and carries bytes between sockets and sessions.

Owns every connection and its tasks. One task reads messages ahead, so that a client that goes away is
noticed while its question runs; another handles them in order. Invariants: at most `MOST_CONNECTIONS`
sessions, and as many connections again in startup, which lasts at most `STARTUP_SECONDS`; of one client at
most `AHEAD_BYTES` and one message wait; a client that takes nothing of its answer for `SEND_SECONDS` is
disconnected; whatever one connection does, the others go on. There is no password: like every door, this
one listens where the settings say.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hmac
import itertools
import logging
import secrets
import socket
from typing import Final

from headrace.core.errors import HeadraceError
from headrace.query.postgres.engine import Engine
from headrace.query.postgres.protocol import incoming, outgoing
from headrace.query.postgres.protocol.errors import (
    FEATURE_NOT_SUPPORTED,
    INTERNAL,
    PROTOCOL_VIOLATION,
    SHUTTING_DOWN,
    TOO_MANY_CONNECTIONS,
    FatalError,
    PostgresError,
)
from headrace.query.postgres.questions import Questions, Translators
from headrace.query.postgres.session import Session
from headrace.query.postgres.settings import REPORTED, SERVER_VERSION, Settings
from headrace.query.postgres.translation import Session as SessionFacts

MOST_CONNECTIONS: Final = 100
STARTUP_SECONDS: Final = 10.0
SEND_SECONDS: Final = 60.0
AHEAD_BYTES: Final = 256 * 1024
_READ_BYTES: Final = 64 * 1024
_AHEAD_MESSAGES: Final = 256
_MOST_ENCRYPTION_REQUESTS: Final = 2
# Version 3.2 differs from 3.0 in the length of the key alone.
_LONG_KEY_MINOR: Final = 2
_KEY_BYTES: Final = {0: 4, _LONG_KEY_MINOR: 32}
_MAJOR: Final = 3
VERSION_TEXT: Final = f"PostgreSQL {SERVER_VERSION} (Headrace; questions are answered by DuckDB)"

_log = logging.getLogger(__name__)

# Each with its size in bytes.
_Messages = asyncio.Queue[tuple[incoming.Message | FatalError, int]]


class PostgresServer:
    """`await start()`, then `await stop()`. `port` is the port in use."""

    def __init__(
        self,
        engine: Engine,
        *,
        host: str,
        port: int,
        most_connections: int = MOST_CONNECTIONS,
        startup_seconds: float = STARTUP_SECONDS,
        send_seconds: float = SEND_SECONDS,
    ) -> None:
        self.engine = engine
        self.translators = Translators()
        self.startup_seconds = startup_seconds
        self.send_seconds = send_seconds
        self._host = host
        self._wanted_port = port
        self._most_connections = most_connections
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._sessions: dict[int, _Connection] = {}
        self._processes = itertools.count(1)

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def sessions(self) -> int:
        """How many connections are past startup."""
        return len(self._sessions)

    async def start(self) -> None:
        """Raises HeadraceError if the port is taken."""
        try:
            self._server = await asyncio.start_server(
                self._accept, self._host, self._wanted_port, limit=_READ_BYTES
            )
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise HeadraceError(
                "port_in_use",
                f"Port {self._wanted_port} of {self._host} is taken.",
                remedy="Set postgres_port to another one.",
            ) from error

    async def stop(self) -> None:
        """End every session with FATAL 57P01."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.translators.close()

    def admit(self, connection: _Connection) -> int:
        """The process number of a new session. Raises FatalError if there are too many."""
        if len(self._sessions) >= self._most_connections:
            raise FatalError(
                TOO_MANY_CONNECTIONS,
                "sorry, too many clients already",
                hint=f"At most {self._most_connections} connections are accepted.",
            )
        process = next(number for number in self._processes if number not in self._sessions)
        self._sessions[process] = connection
        return process

    def leave(self, process: int) -> None:
        self._sessions.pop(process, None)

    def cancel(self, request: incoming.CancelRequest) -> None:
        """Stop what a session is doing. As in PostgreSQL, the one who asks gets no answer."""
        connection = self._sessions.get(request.process)
        if connection is not None and hmac.compare_digest(connection.secret, request.secret):
            connection.stop_question()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= 2 * self._most_connections:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await _Connection(self, reader, writer).serve()
        except asyncio.CancelledError:
            pass  # The server stops; asyncio would report a task that ends so.
        finally:
            self._tasks.discard(task)


class _Connection:
    """One client, from its first byte to its last."""

    def __init__(
        self, server: PostgresServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer
        self._incoming = incoming.IncomingMessages()
        self._questions: Questions | None = None
        # Of messages that wait to be handled, and of the one that was read last.
        self._ahead_bytes = 0
        self._taken_bytes = 0
        self._room = asyncio.Event()
        self.secret = b""

    def stop_question(self) -> None:
        if self._questions is not None:
            self._questions.stop()

    async def serve(self) -> None:
        transport_socket = self._writer.get_extra_info("socket")
        if transport_socket is not None:
            # Notices a machine that has gone away without a word.
            transport_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        process = 0
        try:
            async with asyncio.timeout(self._server.startup_seconds):
                startup = await self._startup()
                if startup is None:
                    return
                process = self._server.admit(self)
                session = await self._greet(startup, process)
            await self._serve_session(session)
        except PostgresError as error:
            fatal = error if isinstance(error, FatalError) else FatalError(error.state, error.message)
            await self._last_words(fatal)
        except (TimeoutError, ConnectionError) as error:
            _log.debug("A PostgreSQL client was disconnected: %r", error)
        except asyncio.CancelledError:
            await self._last_words(FatalError(SHUTTING_DOWN, "the server is shutting down"))
            raise
        except Exception:
            _log.exception("A PostgreSQL session failed.")
            await self._last_words(FatalError(INTERNAL, "the session failed; the log says why"))
        finally:
            self._server.leave(process)
            await self._close()

    async def _close(self) -> None:
        """Close the socket; what the client does not take within a moment is dropped."""
        self._writer.close()
        try:
            async with asyncio.timeout(1):
                await self._writer.wait_closed()
        except (TimeoutError, OSError):
            self._writer.transport.abort()

    async def _startup(self) -> incoming.Startup | None:
        """The startup message; None for a cancel request or a client that goes away."""
        for _ in range(_MOST_ENCRYPTION_REQUESTS + 1):
            message = await self._next_message()
            if isinstance(message, incoming.EncryptionRequest):
                if self._incoming.waiting_bytes:
                    raise FatalError(PROTOCOL_VIOLATION, "received data after an encryption request")
                await self._send(outgoing.NO_ENCRYPTION)
            elif isinstance(message, incoming.CancelRequest):
                self._server.cancel(message)
                return None
            elif isinstance(message, incoming.Startup):
                return message
            elif message is None:
                return None
        raise FatalError(PROTOCOL_VIOLATION, "too many encryption requests")

    async def _greet(self, startup: incoming.Startup, process: int) -> Session:
        parameters = startup.parameters
        if startup.major != _MAJOR:
            raise FatalError(
                FEATURE_NOT_SUPPORTED,
                f"unsupported frontend protocol {startup.major}.{startup.minor}: server supports 3.0 to 3.2",
            )
        if parameters.get("replication", "false").lower() not in ("false", "off", "no", "0"):
            raise FatalError(FEATURE_NOT_SUPPORTED, "replication is not supported; the log speaks Kafka")
        if not parameters.get("user"):
            raise FatalError("28000", "no PostgreSQL user name specified in startup packet")
        minor = _LONG_KEY_MINOR if startup.minor >= _LONG_KEY_MINOR else 0
        unknown = sorted(name for name in parameters if name.startswith("_pq_."))
        answer = []
        if startup.minor != minor or unknown:
            answer.append(outgoing.negotiate_version((_MAJOR << 16) | minor, unknown))
        settings = Settings(parameters["user"])
        warnings = _apply(parameters, settings)
        self.secret = secrets.token_bytes(_KEY_BYTES[minor])
        answer.append(outgoing.AUTHENTICATION_OK)
        answer += (outgoing.parameter_status(name, settings.values[name]) for name in REPORTED)
        answer.append(outgoing.backend_key(process, self.secret))
        answer += map(outgoing.warning, warnings)
        answer.append(outgoing.ready_for_query("I"))
        facts = SessionFacts(user=parameters["user"], process=process, version=VERSION_TEXT)
        self._questions = Questions(self._server.engine, self._server.translators, settings, facts)
        session = Session(self._questions, settings, self._send)
        await self._send(b"".join(answer))
        return session

    async def _serve_session(self, session: Session) -> None:
        messages: _Messages = asyncio.Queue()
        handling = asyncio.create_task(self._handle(session, messages))
        reading = asyncio.create_task(self._read_ahead(messages, handling))
        try:
            await handling
        except asyncio.CancelledError:
            # Either the client is gone, or the server stops, which cancels this task itself.
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
        finally:
            for task in (handling, reading):
                task.cancel()
            await asyncio.gather(handling, reading, return_exceptions=True)

    async def _handle(self, session: Session, messages: _Messages) -> None:
        while True:
            message, size = await messages.get()
            if isinstance(message, incoming.Terminate):
                return
            if isinstance(message, FatalError):
                raise message
            await session.handle(message)
            self._ahead_bytes -= size
            self._room.set()

    async def _read_ahead(self, messages: _Messages, handling: asyncio.Task[None]) -> None:
        """Read until the client is gone, and then stop what it has asked for."""
        try:
            while (message := await self._next_message()) is not None:
                size = self._taken_bytes
                messages.put_nowait((message, size))
                self._ahead_bytes += size
                while self._ahead_bytes > AHEAD_BYTES or messages.qsize() > _AHEAD_MESSAGES:
                    self._room.clear()
                    await self._room.wait()
        except FatalError as error:
            # What came before it is still answered.
            messages.put_nowait((error, 0))
            return
        except ConnectionError:
            pass
        handling.cancel()

    async def _next_message(self) -> incoming.Message | None:
        """The next message, None at the end of the stream."""
        while True:
            waiting = self._incoming.waiting_bytes
            message = self._incoming.next_message()
            if message is not None:
                self._taken_bytes = waiting - self._incoming.waiting_bytes
                return message
            data = await self._reader.read(_READ_BYTES)
            if not data:
                return None
            self._incoming.receive(data)

    async def _send(self, data: bytes) -> None:
        self._writer.write(data)
        async with asyncio.timeout(self._server.send_seconds):
            await self._writer.drain()

    async def _last_words(self, error: FatalError) -> None:
        with contextlib.suppress(OSError, TimeoutError):
            self._writer.write(outgoing.error_response(error))
            async with asyncio.timeout(1):
                await self._writer.drain()


def _apply(parameters: dict[str, str], settings: Settings) -> list[str]:
    """The settings in a startup message. Returns warnings."""
    given = {
        name: value
        for name, value in parameters.items()
        if name not in ("user", "database", "replication", "options") and not name.startswith("_pq_.")
    }
    # `-c name=value` and `--name=value`, as PGOPTIONS has them.
    for option in parameters.get("options", "").replace("-c ", "--").replace("--", "\0").split("\0"):
        name, equals, value = option.strip().partition("=")
        if equals:
            given[name.replace("-", "_")] = value.replace("\\ ", " ")
    try:
        warnings = [settings.set(name, value) for name, value in given.items()]
    except PostgresError as error:
        raise FatalError(error.state, error.message) from error
    settings.keep_as_initial()
    return [warning for warning in warnings if warning]
