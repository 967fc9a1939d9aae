"""What a client sends, from bytes to messages.

A connection begins with startup packets, which have no type byte: requests for encryption, a cancel
request, or the startup message itself. After that each message is a type byte, a length (int32, which
counts itself) and a body. https://www.postgresql.org/docs/16/protocol-message-formats.html

Invariants: a length above the limit is refused as soon as its four bytes are there, and the buffer never
holds more than what has come; any bytes give messages or a FatalError and nothing else; how the bytes are
split does not change the messages. Never answers anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Final

from headrace.query.postgres.protocol.errors import PROTOCOL_VIOLATION, FatalError

LONGEST_STARTUP: Final = 10_000
# Room for the longest statement that is accepted, if it is ASCII.
LONGEST_MESSAGE: Final = 1_100_000
# Of these the body is short by nature; a client that announces more is not one.
_SHORT_KINDS: Final = frozenset(b"CDEHSXp")
_LONGEST_SHORT: Final = 16 * 1024

_INT16: Final = Struct(">h")
_UINT16: Final = Struct(">H")
_INT32: Final = Struct(">i")
_UINT32: Final = Struct(">I")
_REQUEST_CODE: Final = 1234
_CANCEL: Final = 5678
_SSL: Final = 5679
_GSS: Final = 5680
_LEAST_CANCEL: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptionRequest:
    """SSLRequest or GSSENCRequest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequest:
    """Asks to end what another connection is doing."""

    process: int
    secret: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """The protocol version that a client wants, and its parameters, such as `user`."""

    major: int
    minor: int
    parameters: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Statements in one text, to be answered at once."""

    sql: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parse:
    """A statement under a name. A parameter's type is 0 where the client leaves it open."""

    name: str
    sql: str
    types: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A statement with values becomes a portal. Formats are 0 (text) or 1 (binary)."""

    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    result_formats: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    """`of` is `S` for a statement and `P` for a portal; so it is in Close."""

    of: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Execute:
    """Rows of a portal; 0 asks for all."""

    portal: str
    most_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """Forgets a statement or a portal."""

    of: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """The end of a group of extended messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush:
    """Asks for the answers so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminate:
    """Ends the connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """A message that this door has no use for: passwords, COPY data, function calls."""

    kind: str


Message = (
    EncryptionRequest
    | CancelRequest
    | Startup
    | Query
    | Parse
    | Bind
    | Describe
    | Execute
    | Close
    | Sync
    | Flush
    | Terminate
    | Other
)


class IncomingMessages:
    """`receive` takes bytes, `next_message` gives the messages in them until it gives None."""

    __slots__ = ("_buffer", "_started", "_taken")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._taken = 0
        self._started = False

    @property
    def waiting_bytes(self) -> int:
        return len(self._buffer) - self._taken

    def receive(self, data: bytes) -> None:
        if self._taken:
            del self._buffer[: self._taken]
            self._taken = 0
        self._buffer += data

    def next_message(self) -> Message | None:
        """Raises FatalError for bytes that are not the protocol's."""
        return self._next_regular() if self._started else self._next_startup()

    def _next_startup(self) -> Message | None:
        if self.waiting_bytes < _INT32.size:
            return None
        (length,) = _INT32.unpack_from(self._buffer, self._taken)
        if not 2 * _INT32.size <= length <= LONGEST_STARTUP:
            raise _violation(f"invalid length of startup packet: {length}")
        if self.waiting_bytes < length:
            return None
        body = _Body(self._take(length)[_INT32.size :])
        major, minor = body.uint16(), body.uint16()
        if major == _REQUEST_CODE:
            return _request(minor, body, length)
        self._started = True
        return Startup(major=major, minor=minor, parameters=_parameters(body) if major == 3 else {})

    def _next_regular(self) -> Message | None:
        if self.waiting_bytes < 1 + _INT32.size:
            return None
        kind = self._buffer[self._taken]
        (length,) = _INT32.unpack_from(self._buffer, self._taken + 1)
        if kind not in _KINDS:
            raise _violation(f"invalid frontend message type {kind}")
        limit = _LONGEST_SHORT if kind in _SHORT_KINDS else LONGEST_MESSAGE
        if not _INT32.size <= length <= limit:
            raise _violation(f"invalid message length {length} of {chr(kind)}; at most {limit} are accepted")
        if self.waiting_bytes < 1 + length:
            return None
        body = _Body(self._take(1 + length)[1 + _INT32.size :])
        message = _KINDS[kind](body)
        if not isinstance(message, Other):
            body.end()
        return message

    def _take(self, count: int) -> bytes:
        taken = bytes(memoryview(self._buffer)[self._taken : self._taken + count])
        self._taken += count
        return taken


class _Body:
    """Reads the fields of one message."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        if count < 0 or self._at + count > len(self._data):
            raise _violation("insufficient data left in message")
        start = self._at
        self._at += count
        return self._data[start : self._at]

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)

    def text(self) -> str:
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise _violation("invalid string in message")
        taken = self.take(end - self._at + 1)[:-1]
        try:
            return taken.decode("utf-8")
        except UnicodeDecodeError as error:
            raise FatalError("22021", 'invalid byte sequence for encoding "UTF8"') from error

    def letter(self) -> str:
        return chr(self.take(1)[0])

    def int16(self) -> int:
        return int(_INT16.unpack(self.take(_INT16.size))[0])

    def uint16(self) -> int:
        return int(_UINT16.unpack(self.take(_UINT16.size))[0])

    def int32(self) -> int:
        return int(_INT32.unpack(self.take(_INT32.size))[0])

    def uint32(self) -> int:
        return int(_UINT32.unpack(self.take(_UINT32.size))[0])

    def formats(self) -> tuple[int, ...]:
        formats = tuple(self.int16() for _ in range(self.uint16()))
        if any(each not in (0, 1) for each in formats):
            raise _violation("unsupported format code")
        return formats

    def value(self) -> bytes | None:
        length = self.int32()
        return None if length == -1 else self.take(length)

    def end(self) -> None:
        if self._at != len(self._data):
            raise _violation("invalid message format")


def _request(code: int, body: _Body, length: int) -> Message:
    if code in (_SSL, _GSS):
        body.end()
        return EncryptionRequest()
    if code == _CANCEL and length > _LEAST_CANCEL:
        return CancelRequest(process=body.int32(), secret=body.rest())
    raise _violation(f"invalid request code {code}")


def _parameters(body: _Body) -> dict[str, str]:
    parameters: dict[str, str] = {}
    while name := body.text():
        parameters[name] = body.text()
    body.end()
    return parameters


def _parse(body: _Body) -> Message:
    name, sql = body.text(), body.text()
    return Parse(name=name, sql=sql, types=tuple(body.uint32() for _ in range(body.uint16())))


def _bind(body: _Body) -> Message:
    portal, statement = body.text(), body.text()
    formats = body.formats()
    values = tuple(body.value() for _ in range(body.uint16()))
    return Bind(
        portal=portal, statement=statement, formats=formats, values=values, result_formats=body.formats()
    )


def _of(body: _Body) -> str:
    of = body.letter()
    if of not in ("S", "P"):
        raise _violation(f"invalid message subtype {ord(of)}")
    return of


_KINDS: Final[dict[int, Callable[[_Body], Message]]] = {
    ord("B"): _bind,
    ord("C"): lambda body: Close(of=_of(body), name=body.text()),
    ord("D"): lambda body: Describe(of=_of(body), name=body.text()),
    ord("E"): lambda body: Execute(portal=body.text(), most_rows=body.int32()),
    ord("F"): lambda _: Other(kind="F"),
    ord("H"): lambda _: Flush(),
    ord("P"): _parse,
    ord("Q"): lambda body: Query(sql=body.text()),
    ord("S"): lambda _: Sync(),
    ord("X"): lambda _: Terminate(),
    ord("c"): lambda _: Other(kind="c"),
    ord("d"): lambda _: Other(kind="d"),
    ord("f"): lambda _: Other(kind="f"),
    ord("p"): lambda _: Other(kind="p"),
}


def _violation(message: str) -> FatalError:
    return FatalError(PROTOCOL_VIOLATION, message)
