"""The ASGI application behind `POST /events` and `GET /health`. No framework: microseconds count here.

Invariants: a response is sent after the log has acknowledged the events; a body that did not arrive whole is
never written; a body larger than the setting allows is rejected while it streams in, not after it was read.
Never changes the bytes of an event.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.http.admission import DoorRules, Refusal
from headrace.http.events.delivery import LogWriter, LogWriterOptions, OutgoingEvent, Place
from headrace.http.events.examination import event_key
from headrace.http.events.replies import Problem, Receipt, Reply, problem
from headrace.http.events.splitting import Piece, UnreadableArrayError, split_body

_log = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Alongside = Callable[[], Coroutine[Any, Any, None]]

ROUTES: Final[dict[str, str]] = {"/events": "POST", "/health": "GET"}
JSON_TYPES: Final = frozenset({"application/json", "text/json"})
LINE_TYPES: Final = frozenset(
    {
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonlines",
        "application/x-jsonlines",
        "application/jsonl",
    }
)
_HEALTH_SECONDS: Final = 2.0
# A larger body is split in a thread, so that other requests can continue.
_BYTES_PER_TURN: Final = 1_048_576
_EVENTS_PER_TURN: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class _Response:
    status: int
    body: bytes
    allow: str = ""


@dataclass(slots=True, kw_only=True)
class Counters:
    """Events counted since this process started."""

    accepted: int = 0
    rejected: int = 0
    unknown: int = 0


class EventsApplication:
    """One per worker process."""

    def __init__(self, settings: Settings, *, alongside: Alongside | None = None) -> None:
        self._settings = settings
        self._alongside = alongside
        self._writer: LogWriter | None = None
        self.counters = Counters()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] != "http":
            raise ValueError(f"this application answers HTTP, not {scope['type']}")
        arrived_ms = time.time_ns() // 1_000_000
        try:
            response = await self._respond(scope, receive, arrived_ms)
        except HeadraceError as error:
            response = _error(error, allow=ROUTES.get(scope["path"], ""))
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(response.body))]
        if response.status == 405:
            headers.append((b"allow", response.allow.encode("ascii")))
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.body})

    async def _respond(self, scope: Message, receive: Receive, arrived_ms: int) -> _Response:
        path: str = scope["path"]
        method: str = scope["method"]
        allowed = ROUTES.get(path)
        if allowed is None:
            raise HeadraceError(
                "no_such_page", f"There is nothing at {path}.", remedy="Events go to POST /events."
            )
        if method != allowed:
            raise HeadraceError(
                "method_not_allowed", f"{path} does not support {method}.", remedy=f"Use {allowed} {path}."
            )
        if path == "/health":
            await self._log_writer.check(_HEALTH_SECONDS)
            return _Response(status=200, body=b'{"status":"ok"}')
        headers = dict(scope["headers"])
        lines = _is_lines(headers)
        body = await _read_body(headers, receive, self._settings.max_request_bytes)
        return await self._take(body, lines=lines, arrived_ms=arrived_ms)

    async def _take(self, body: bytes, *, lines: bool, arrived_ms: int) -> _Response:
        try:
            if len(body) > _BYTES_PER_TURN:
                pieces = await asyncio.to_thread(split_body, body, lines=lines)
            else:
                pieces = split_body(body, lines=lines)
        except UnreadableArrayError as error:
            self.counters.rejected += 1
            return _error(error, rejected=(problem(error.index, error),))
        reply = Reply()
        indexes, events = await self._examine(pieces, reply)
        outcomes = await self._log_writer.write(events, timestamp_ms=arrived_ms)
        for index, outcome in zip(indexes, outcomes, strict=True):
            if isinstance(outcome, Place):
                reply.accepted.append(
                    Receipt(index, self._settings.events_topic, outcome.partition, outcome.offset)
                )
            elif outcome.certain:
                reply.reject(index, outcome.error)
            else:
                reply.unknown.append(_unknown(index, outcome.error))
        reply.rejected.sort(key=lambda each: each.index)
        self.counters.accepted += len(reply.accepted)
        self.counters.rejected += len(reply.rejected)
        self.counters.unknown += len(reply.unknown)
        return _Response(status=reply.status, body=reply.encode())

    async def _examine(self, pieces: Iterable[Piece], reply: Reply) -> tuple[list[int], list[OutgoingEvent]]:
        """The valid events with their indexes; the others are put into the reply."""
        indexes: list[int] = []
        events: list[OutgoingEvent] = []
        for index, piece in enumerate(pieces):
            if index % _EVENTS_PER_TURN == _EVENTS_PER_TURN - 1:
                await asyncio.sleep(0)
            value = bytes(piece)
            try:
                key = event_key(value, max_event_bytes=self._settings.max_event_bytes)
            except HeadraceError as error:
                reply.reject(index, error)
            else:
                indexes.append(index)
                events.append(OutgoingEvent(value, key))
        return indexes, events

    @property
    def _log_writer(self) -> LogWriter:
        if self._writer is None:
            raise RuntimeError("the application was not started: it needs a server that supports lifespan")
        return self._writer

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        settings = self._settings
        self._writer = LogWriter(
            LogWriterOptions(
                bootstrap=settings.bootstrap,
                topic=settings.events_topic,
                partitions=settings.default_partitions,
                max_event_bytes=settings.max_event_bytes,
                timeout_ms=settings.ingest_timeout_ms,
            ),
            on_fatal=_end_this_worker,
        )
        beside = asyncio.create_task(self._alongside()) if self._alongside is not None else None
        await send({"type": "lifespan.startup.complete"})
        await receive()
        if beside is not None:
            beside.cancel()
        await self._writer.close()
        await send({"type": "lifespan.shutdown.complete"})


def create_events_app(settings: Settings, *, alongside: Alongside | None = None) -> EventsApplication:
    """The application, for an ASGI server that supports lifespan. `alongside` runs on its event loop from
    start to end.
    """
    return EventsApplication(settings, alongside=alongside)


def _refusal(error: HeadraceError) -> Refusal:
    response = _error(error)
    return Refusal(status=response.status, media_type="application/json", body=response.body)


EVENTS_RULES: Final = DoorRules(refusal=_refusal, checked_by_route=frozenset({"/events"}))


async def _read_body(headers: dict[bytes, bytes], receive: Receive, limit: int) -> bytes:
    announced = headers.get(b"content-length")
    expected = int(announced) if announced is not None and announced.isdigit() else None
    if expected is not None and expected > limit:
        raise _request_too_large(limit)
    chunks: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _incomplete()
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise _request_too_large(limit)
        chunks.append(chunk)
        more = message.get("more_body", False)
    if expected is not None and size < expected:
        raise _incomplete()
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _is_lines(headers: dict[bytes, bytes]) -> bool:
    """Whether the client declares one event per line. Raises unsupported_media_type."""
    encoding = headers.get(b"content-encoding", b"identity").decode("latin-1").strip().lower()
    if encoding not in {"", "identity"}:
        raise _unsupported(f"The content encoding {encoding!r} is not supported.", "Send it uncompressed.")
    media_type, *parameters = headers.get(b"content-type", b"").decode("latin-1").lower().split(";")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip(' "') not in {"utf-8", "utf8", "us-ascii"}:
            raise _unsupported(f"The charset {value.strip()} is not supported.", "Send UTF-8.")
    media_type = media_type.strip()
    if media_type in LINE_TYPES:
        return True
    if media_type in JSON_TYPES or media_type.endswith("+json"):
        return False
    raise _unsupported(
        f"The content type {media_type} is not supported." if media_type else "The content type is missing.",
        "Send JSON as application/json, or one event per line as application/x-ndjson.",
    )


def _unsupported(message: str, remedy: str) -> HeadraceError:
    return HeadraceError("unsupported_media_type", message, remedy=remedy)


def _request_too_large(limit: int) -> HeadraceError:
    return HeadraceError(
        "request_too_large",
        f"The request body has more than {limit} bytes.",
        remedy="Send the events in several requests, or raise the setting `max_request_bytes`.",
    )


def _incomplete() -> HeadraceError:
    return HeadraceError(
        "bad_request",
        "The connection ended before the whole body arrived. No event of this request was accepted.",
        remedy="Send the request again.",
    )


def _unknown(index: int, error: HeadraceError) -> Problem:
    return Problem(
        index,
        error.code,
        f"{error.message} It may still be in the log.",
        "Look for it before you send it again, or send it again if duplicates are acceptable.",
    )


def _error(error: HeadraceError, *, rejected: tuple[Problem, ...] = (), allow: str = "") -> _Response:
    """The response to a request none of whose events was accepted."""
    body = {**error.as_json(), "accepted": (), "rejected": rejected, "unknown": ()}
    return _Response(status=error.http_status, body=msgspec.json.encode(body), allow=allow)


def _end_this_worker(reason: str) -> None:
    """The producer can no longer write: drain, end, and let the server start a new worker."""
    _log.error("the producer failed for good; this worker ends: %s", reason)
    os.kill(os.getpid(), signal.SIGTERM)
