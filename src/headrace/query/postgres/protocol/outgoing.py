"""What the server sends, from values to bytes.

Each function gives one whole message. Never keeps anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final

from headrace.query.postgres.protocol.errors import WARNING, FatalError, PostgresError

_LENGTH: Final = Struct(">i")
_INT16: Final = Struct(">h")
_UINT16: Final = Struct(">H")
_FIELD: Final = Struct(">ihihih")
_NULL: Final = _LENGTH.pack(-1)

NO_ENCRYPTION: Final = b"N"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A column as RowDescription names it: its type's oid, size in bytes and modifier, and its format."""

    name: str
    oid: int
    size: int
    modifier: int = -1
    format: int = 0


def _message(kind: bytes, *parts: bytes) -> bytes:
    length = _LENGTH.size + sum(map(len, parts))
    return b"".join((kind, _LENGTH.pack(length), *parts))


def _text(text: str) -> bytes:
    # A zero byte ends a text in this protocol, and half a surrogate pair has no bytes in UTF-8.
    return text.replace("\0", "").encode("utf-8", errors="replace") + b"\0"


AUTHENTICATION_OK: Final = _message(b"R", _LENGTH.pack(0))
BIND_COMPLETE: Final = _message(b"2")
CLOSE_COMPLETE: Final = _message(b"3")
COPY_DONE: Final = _message(b"c")
EMPTY_QUERY_RESPONSE: Final = _message(b"I")
NO_DATA: Final = _message(b"n")
PARSE_COMPLETE: Final = _message(b"1")
PORTAL_SUSPENDED: Final = _message(b"s")


def negotiate_version(minor: int, unknown: Sequence[str]) -> bytes:
    """The newest minor version that the server speaks, and the options that it does not know."""
    return _message(b"v", _LENGTH.pack(minor), _LENGTH.pack(len(unknown)), *map(_text, unknown))


def parameter_status(name: str, value: str) -> bytes:
    return _message(b"S", _text(name), _text(value))


def backend_key(process: int, secret: bytes) -> bytes:
    return _message(b"K", _LENGTH.pack(process), secret)


def ready_for_query(status: str) -> bytes:
    """`I`: idle, `T`: in a transaction, `E`: in one that failed."""
    return _message(b"Z", status.encode())


def command_complete(tag: str) -> bytes:
    return _message(b"C", _text(tag))


def parameter_description(oids: Sequence[int]) -> bytes:
    return _message(b"t", _UINT16.pack(len(oids)), *(_LENGTH.pack(oid) for oid in oids))


def row_description(fields: Sequence[Field]) -> bytes:
    parts = [_UINT16.pack(len(fields))]
    for field in fields:
        parts += (_text(field.name), _FIELD.pack(0, 0, field.oid, field.size, field.modifier, field.format))
    return _message(b"T", *parts)


def data_row(values: Sequence[bytes | None]) -> bytes:
    parts = [_UINT16.pack(len(values))]
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            parts += (_LENGTH.pack(len(value)), value)
    return _message(b"D", *parts)


def copy_out_response(columns: int) -> bytes:
    return _message(b"H", b"\0", _INT16.pack(columns), _INT16.pack(0) * columns)


def copy_data(data: bytes) -> bytes:
    return _message(b"d", data)


def error_response(error: PostgresError) -> bytes:
    severity = "FATAL" if isinstance(error, FatalError) else "ERROR"
    return _message(b"E", *_fields(severity, error.state, error.message, error.hint, error.position))


def warning(message: str, *, state: str = WARNING) -> bytes:
    return _message(b"N", *_fields("WARNING", state, message, "", None))


def notice(message: str) -> bytes:
    return _message(b"N", *_fields("NOTICE", "00000", message, "", None))


def _fields(severity: str, state: str, message: str, hint: str, position: int | None) -> Iterable[bytes]:
    yield b"S" + _text(severity)
    yield b"V" + _text(severity)
    yield b"C" + _text(state)
    yield b"M" + _text(message)
    if hint:
        yield b"H" + _text(hint)
    if position is not None:
        yield b"P" + _text(str(position))
    yield b"\0"
