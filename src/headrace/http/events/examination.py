"""Validates the bytes of one event and finds its key.

Invariants: an event that passes is one JSON object (RFC 8259) in valid UTF-8, without unpaired surrogates,
and within the limits of the parser that reads it next (Spark's Jackson). So no event gets a receipt that the
pipeline cannot read. Never changes the bytes, never looks at fields other than the user id.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

from headrace.core.errors import HeadraceError

USER_ID: Final = "User_ID"
# Jackson stops at 1000 levels; half of that leaves room for later wrapping.
MAX_DEPTH: Final = 500
# Jackson's own limits, in bytes as posted.
MAX_NUMBER_BYTES: Final = 1_000
MAX_NAME_BYTES: Final = 50_000
MAX_STRING_BYTES: Final = 20_000_000

_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_STRING: Final = msgspec.json.Decoder(str)
_LOWER_USER_ID: Final = USER_ID.lower()
_NUMBER_BYTES: Final = b"0123456789+-.eE"
_TO_ZEROS: Final = bytes(0x30 if code in _NUMBER_BYTES else 0x20 for code in range(256))
_LONG_NUMBER: Final = b"0" * (MAX_NUMBER_BYTES + 1)
# The only tokens of valid JSON that matter here: strings (with the colon that makes one a name), brackets,
# and numbers that are too long.
_TOKEN: Final = re.compile(
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"([ \t\r\n]*+:)?|[\[{]|[\]}]|[0-9+\-.eE]{%d,}' % (MAX_NUMBER_BYTES + 1),
    re.DOTALL,
)


def event_key(event: bytes, *, max_event_bytes: int) -> bytes | None:
    """The key of a valid event: its user id, or None if it has none. Raises HeadraceError for others."""
    if len(event) > max_event_bytes:
        raise HeadraceError(
            "event_too_large",
            f"The event has {len(event)} bytes; at most {max_event_bytes} are allowed.",
            remedy="Send a smaller event, or raise the setting `max_event_bytes`.",
        )
    try:
        if not event.isascii():
            event.decode("utf-8")
        fields = _OBJECT.decode(event)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _bad_event(_reason(event, error)) from error
    # A shorter event cannot exceed any limit.
    if len(event) > MAX_NUMBER_BYTES and _is_suspect(event):
        _check_limits(event)
    return _key(fields)


def _key(fields: dict[str, msgspec.Raw]) -> bytes | None:
    found = fields.get(USER_ID)
    if found is None:
        for name, value in fields.items():
            if len(name) == len(USER_ID) and name.lower() == _LOWER_USER_ID:
                found = value
                break
        else:
            return None
    text = bytes(found)
    if text.startswith(b'"'):
        return _STRING.decode(text).encode("utf-8")
    return None if text == b"null" else text


def _is_suspect(event: bytes) -> bool:
    """A fast check: whether the event could exceed a limit."""
    return (
        len(event) > MAX_NAME_BYTES
        or event.count(b"{") + event.count(b"[") > MAX_DEPTH
        or _LONG_NUMBER in event.translate(_TO_ZEROS)
    )


def _check_limits(event: bytes) -> None:
    depth = 0
    for token in _TOKEN.finditer(event):
        first = event[token.start()]
        size = token.end() - token.start()
        if first == 0x22:  # "
            if size > MAX_NAME_BYTES and token.group(1) is not None:
                raise _bad_event(f"it has a field name of more than {MAX_NAME_BYTES} bytes")
            if size > MAX_STRING_BYTES:
                raise _bad_event(f"it has a string of more than {MAX_STRING_BYTES} bytes")
        elif first in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise _too_deep()
        elif first in b"]}":
            depth -= 1
        else:
            raise _bad_event(f"it has a number of more than {MAX_NUMBER_BYTES} digits")


def _reason(event: bytes, error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"it is not valid UTF-8 at byte {error.start}"
    if isinstance(error, RecursionError):
        return f"it is nested deeper than {MAX_DEPTH} levels"
    if isinstance(error, msgspec.ValidationError):
        return f"an event must be a JSON object, but this is {_kind_of(event)}"
    return _reason_for_no_json(event)


def _kind_of(event: bytes) -> str:
    kinds = {0x5B: "an array", 0x22: "a string", 0x74: "true", 0x66: "false", 0x6E: "null"}
    return kinds.get(event[0], "a number")


def _reason_for_no_json(event: bytes) -> str:
    """Ask Python's parser, which is slower but says more clearly what is wrong and where."""
    text = event.decode("utf-8")
    if text.startswith("\ufeff"):
        return "it starts with a byte order mark"
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        position = len(text[: error.pos].encode("utf-8"))
        return f"it is not valid JSON at byte {position}: {error.msg}"
    except _ConstantError as error:
        return f"{error} is not JSON"
    except RecursionError:
        return f"it is nested deeper than {MAX_DEPTH} levels"
    return "it has a \\u escape that is half of a surrogate pair"


class _ConstantError(ValueError):
    """NaN or an infinity, which Python's parser accepts and JSON does not have."""


def _refuse_constant(name: str) -> Any:
    raise _ConstantError(name)


def _too_deep() -> HeadraceError:
    return _bad_event(f"it is nested deeper than {MAX_DEPTH} levels")


def _bad_event(reason: str) -> HeadraceError:
    return HeadraceError(
        "bad_event", f"The event was not accepted: {reason}.", remedy="Correct this event and send it again."
    )
