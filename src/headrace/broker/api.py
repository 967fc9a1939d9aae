"""How an API is declared and answered.

`broker/apis/__init__.py` lists the APIs; one file in that folder answers each and ends with its `HANDLER`.
Most handlers take and return messages of `kio` (`Typed`). The two APIs that carry records take the bytes of
the request and return pieces of a reply (`Raw`).

Invariants: an API's file is imported with the first request for it, with the classes of `kio` that it needs.
A handler runs on the event loop and never blocks it; if the reply has to wait, the handler returns an
awaitable. The bytes of a request are valid only until the handler returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol

from headrace.broker.answers import Later, convert_later
from headrace.wire.messages import Messages, Reply, Request, snake_case
from headrace.wire.pieces import Piece

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

# A reply without its header. None means no reply at all (acks=0).
Body = bytes | list[Piece] | None


class Peer(Protocol):
    """The connection that a request came on."""

    @property
    def address(self) -> str: ...
    def hold_until(self, future: asyncio.Future[None], /) -> None:
        """Take no later request of this connection before this is done."""


class Context(NamedTuple):
    """What a handler knows about a request besides its message."""

    version: int
    client_id: str | None
    connection: Peer


class Served(NamedTuple):
    """One version of an API. `answer` raises WireError if the request cannot be read."""

    # Whether headers and bodies of this version have tagged fields (KIP-482).
    flexible: bool
    answer: Callable[[Broker, memoryview, Context], Later[Body]]


class Handler(Protocol):
    """Answers an API."""

    def at(self, version: int) -> Served: ...


class Typed(Generic[Request, Reply]):
    """Takes and returns messages, whose classes have the fields of all versions."""

    def __init__(
        self,
        request: type[Request],
        reply: type[Reply],
        handle: Callable[[Broker, Request, Context], Later[Reply]],
    ) -> None:
        self.messages: Final = Messages(request, reply)
        self._handle: Final = handle

    def at(self, version: int) -> Served:
        flexible, read, write = self.messages.at(version)
        handle = self._handle

        def answer(broker: Broker, body: memoryview, context: Context) -> Later[Body]:
            reply = handle(broker, read(body), context)
            return convert_later(reply, write) if isinstance(reply, Awaitable) else write(reply)

        return Served(flexible, answer)


class Raw:
    """Takes and returns bytes. From the version `flexible_from` on they have tagged fields."""

    def __init__(
        self, flexible_from: int, handle: Callable[[Broker, memoryview, Context], Later[Body]]
    ) -> None:
        self._flexible_from: Final = flexible_from
        self._handle: Final = handle

    def at(self, version: int) -> Served:
        return Served(version >= self._flexible_from, self._handle)


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One API key and its advertised versions."""

    key: int
    name: str
    versions: tuple[int, int]
    # Advertised for old clients, but not served (KIP-896: librdkafka looks at Produce from version 0).
    lowest_served: int | None = None

    def serves(self, version: int) -> bool:
        lowest = self.versions[0] if self.lowest_served is None else self.lowest_served
        return lowest <= version <= self.versions[1]

    @property
    def module(self) -> str:
        """The module that answers it."""
        return f"headrace.broker.apis.api_{self.key:02}_{snake_case(self.name)}"

    def handler(self) -> Handler:
        handler: Handler = import_module(self.module).HANDLER
        return handler
