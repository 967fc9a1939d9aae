"""How an API is declared and answered: data for dispatch, ApiVersions and the compatibility page.

`broker/apis/__init__.py` lists the APIs, one file of that folder answers each. Such a file ends with its
`HANDLER`: most take a request of `kio` and give a reply of `kio` (`Typed`); the two that carry records take
the bytes of the request and give pieces of a reply (`Raw`).

Invariants: a file is imported when its API is first asked for, with the classes of `kio` that it needs. A
handler runs on the event loop and never blocks it; a reply that has to wait is awaitable. The bytes of a
request are valid only until the handler returns.
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

# What a handler gives of a reply: everything behind the header. None is no reply at all (acks=0).
Body = bytes | list[Piece] | None


class Peer(Protocol):
    """The connection that a request came on."""

    @property
    def address(self) -> str: ...
    def hold_until(self, future: asyncio.Future[None], /) -> None:
        """Let no later request of this connection overtake one that is done with this."""


class Context(NamedTuple):
    """What a handler knows about its request beside the message."""

    version: int
    client_id: str | None
    connection: Peer


class Served(NamedTuple):
    """One version of an API, ready to be asked. `answer` raises WireError for what cannot be read."""

    # Whether headers and bodies of this version have tagged fields (KIP-482).
    flexible: bool
    answer: Callable[[Broker, memoryview, Context], Later[Body]]


class Handler(Protocol):
    """What answers an API."""

    def at(self, version: int) -> Served: ...


class Typed(Generic[Request, Reply]):
    """Takes and gives messages, of the classes that have the fields of all versions."""

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
    """Takes and gives bytes, which have tagged fields from a version on."""

    def __init__(
        self, flexible_from: int, handle: Callable[[Broker, memoryview, Context], Later[Body]]
    ) -> None:
        self._flexible_from: Final = flexible_from
        self._handle: Final = handle

    def at(self, version: int) -> Served:
        return Served(version >= self._flexible_from, self._handle)


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One API key and the versions that are advertised."""

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
        """The file that answers it."""
        return f"headrace.broker.apis.api_{self.key:02}_{snake_case(self.name)}"

    def handler(self) -> Handler:
        handler: Handler = import_module(self.module).HANDLER
        return handler
