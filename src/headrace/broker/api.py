"""How an API key is declared: as data, from which dispatch, ApiVersions and the compatibility page derive.

One file under `broker/apis/` declares one key. Most take a request of `kio` and give a reply of `kio`; the
two that carry records (`raw`) take the bytes of the request and give pieces of a reply.

Invariants: a handler runs on the event loop and never blocks it; a reply that has to wait is a future. The
bytes of a request are valid only until the handler returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from headrace.wire.messages import Messages, messages

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


class FileSource(Protocol):
    """A file that stays readable for as long as somebody holds it."""

    def pread(self, size: int, position: int, /) -> bytes: ...
    def fileno(self) -> int:
        """For the kernel to read from; negative if it cannot."""


class FilePart(Protocol):
    """Bytes that go from a file to the client without being looked at."""

    @property
    def file(self) -> FileSource: ...
    @property
    def position(self) -> int: ...
    @property
    def size(self) -> int: ...


# What a reply is sent as: buffers and parts of files, in order. None is no reply at all (acks=0).
Pieces = Sequence[bytes | bytearray | memoryview | FilePart] | None
Handler = Callable[["Broker", Any, "Context"], Any | Awaitable[Any]]


def when_done(answer: Any, convert: Callable[[Any], Any]) -> Any:
    """What `convert` makes of an answer: now, or, of a future, a coroutine that gives it later."""
    if not isinstance(answer, asyncio.Future):
        return convert(answer)
    return _convert_later(answer, convert)


async def _convert_later(answer: asyncio.Future[Any], convert: Callable[[Any], Any]) -> Any:
    return convert(await answer)


class Peer(Protocol):
    """The connection that a request came on."""

    @property
    def address(self) -> str: ...
    def hold_until(self, future: asyncio.Future[Any], /) -> None:
        """Let no later request of this connection overtake one that is done with this."""


class Context:
    """What a handler knows about its request beside the message."""

    __slots__ = ("_api", "client_id", "connection", "version")

    def __init__(self, api: Api, version: int, client_id: str | None, connection: Peer) -> None:
        self._api = api
        self.version = version
        self.client_id = client_id
        self.connection = connection

    @property
    def messages(self) -> Messages:
        return self._api.messages(self.version)

    def make(self, name: str, /, **fields: Any) -> Any:
        """A part of the reply, of the class `name` in this version."""
        return self.messages.make(name, **fields)

    def reply(self, **fields: Any) -> Any:
        """The reply itself in this version."""
        return self.messages.reply(**fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One API key: the versions that are advertised, and what answers them."""

    key: int
    name: str
    versions: tuple[int, int]
    handle: Handler
    # Advertised for old clients, but not served (KIP-896: librdkafka looks at Produce from version 0).
    lowest_served: int | None = None
    # Takes and gives bytes; flexible from this version on.
    raw_flexible_from: int | None = None

    @property
    def raw(self) -> bool:
        return self.raw_flexible_from is not None

    def serves(self, version: int) -> bool:
        lowest = self.versions[0] if self.lowest_served is None else self.lowest_served
        return lowest <= version <= self.versions[1]

    def is_flexible(self, version: int) -> bool:
        """Whether headers and bodies of this version have tagged fields (KIP-482)."""
        if self.raw_flexible_from is not None:
            return version >= self.raw_flexible_from
        return self.messages(version).flexible

    def messages(self, version: int) -> Messages:
        return messages(self.name, version, self.versions[1])
