"""The messages of every API but Produce and Fetch, read and written with the classes of `kio`.

`kio` has one class per message and version. A handler knows only the newest one, and `Messages` hides the
others: a request in an older version is read as the newest, with defaults for the fields that it lacks; a
reply is written with the fields of the request's version. If an older version has a field that the newest
dropped, the handler uses a subclass of the newest that adds it
(docs/decisions/0012-handlers-know-the-newest-messages.md).

Invariants: modules of `kio` are imported with the first request in their version (importing all of them would
take seconds and a hundred megabytes). Never interprets a message.
"""

from __future__ import annotations

import datetime
import io
import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Final, Generic, NamedTuple, TypeVar

from kio.serial import entity_writer
from kio.static.protocol import Entity

from headrace.wire.record_batch import Buffer
from headrace.wire.requests import request_reader

NO_THROTTLE: Final = datetime.timedelta(0)

Request = TypeVar("Request", bound=Entity)
Reply = TypeVar("Reply", bound=Entity)


class Codec(NamedTuple, Generic[Request, Reply]):
    """How one version of an API is read and written. `read` raises MalformedRequestError."""

    flexible: bool
    read: Callable[[Buffer], Request]
    write: Callable[[Reply], bytes]


class Messages(Generic[Request, Reply]):
    """Request and reply of one API. `request` and `reply` have the fields of all versions."""

    def __init__(self, request: type[Request], reply: type[Reply]) -> None:
        self.request: Final = request
        self.reply: Final = reply
        self._codecs: Final[dict[int, Codec[Request, Reply]]] = {}

    def at(self, version: int) -> Codec[Request, Reply]:
        if (codec := self._codecs.get(version)) is None:
            sent = of_version(self.request, version)
            write_to = entity_writer(of_version(self.reply, version))

            def write(reply: Reply) -> bytes:
                # The writer reads the attributes of its version, whatever the class of the reply is.
                buffer = io.BytesIO()
                write_to(buffer, reply)
                return buffer.getvalue()

            codec = Codec(sent.__flexible__, request_reader(sent, self.request), write)
            self._codecs[version] = codec
        return codec


def written(message: Entity) -> bytes:
    """The bytes of a message in the version of its own class."""
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def of_version(message: type[Entity], version: int) -> type[Entity]:
    """The class of `kio` for this message in another version."""
    newest = next(each for each in message.__mro__ if each.__module__.startswith("kio."))
    module = import_module(re.sub(r"\.v\d+\.", f".v{version}.", newest.__module__))
    found: type[Entity] = getattr(module, newest.__name__)
    return found


@cache
def snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
