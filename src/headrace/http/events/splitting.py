"""Splits a request body into the bytes of its events, as they were posted.

Owns the three layouts: one JSON value, a JSON array, one JSON value per line. Invariants: each piece is a
slice of the body, without surrounding white space and never re-encoded; positions in messages are byte
offsets in the body as posted; memory is bounded by the body's size and `MAX_EVENTS`. An array that is not
JSON is rejected as a whole, because after a broken element the next boundary would be a guess; a broken line
affects only itself. Never judges whether a piece is a valid event: that is `examination`.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from headrace.core.errors import HeadraceError

JSON_SPACE: Final = b" \t\r\n"
# Limits the cost of a request with tiny events: a receipt is larger than an event such as `{}`.
MAX_EVENTS: Final = 100_000
# Arrays with more commas may have more than `MAX_EVENTS` elements: they are counted while being read.
_COMMAS_OF_A_COMMON_ARRAY: Final = 10 * MAX_EVENTS

_VALUE: Final = msgspec.json.Decoder(msgspec.Raw)
_ARRAY: Final = msgspec.json.Decoder(list[msgspec.Raw])
# Numbers stay text: they are skipped, and Python refuses to convert very long ones.
_ELEMENT: Final = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)
_SPACE: Final = re.compile(r"[ \t\r\n]*")

Piece = bytes | msgspec.Raw


class UnreadableArrayError(HeadraceError):
    """The array is not JSON; `index` is the element where parsing stopped."""

    def __init__(self, reason: str, *, index: int, position: int) -> None:
        super().__init__(
            "bad_event",
            f"The array is not valid JSON at byte {position}, in or after element {index}: {reason}. "
            "No event of this request was accepted.",
            remedy="Correct the array, or send one event per line as application/x-ndjson: "
            "there a bad line does not affect others.",
        )
        self.index = index


def split_body(body: bytes, *, lines: bool) -> Sequence[Piece]:
    """The events of a body: one per line if `lines`, otherwise by what the body contains."""
    trimmed = body.strip(JSON_SPACE)
    if not trimmed:
        raise HeadraceError(
            "bad_request",
            "The request body is empty.",
            remedy="Send a JSON object, an array of objects, or one object per line.",
        )
    if lines or _starts_with_a_line(trimmed):
        return _split_lines(trimmed)
    if trimmed.startswith(b"["):
        return _split_array(body)
    return [trimmed]


def _starts_with_a_line(trimmed: bytes) -> bool:
    """Whether these are lines of objects, sent as plain JSON.

    A body whose first line is a complete object, with more after it, cannot be one JSON value.
    """
    first, line_break, _ = trimmed.partition(b"\n")
    if not line_break or not first.startswith(b"{"):
        return False
    try:
        _VALUE.decode(first)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _split_lines(trimmed: bytes) -> list[Piece]:
    pieces: list[Piece] = []
    for line in io.BytesIO(trimmed):
        piece = line.strip(JSON_SPACE)
        if piece:
            pieces.append(piece)
            _check_count(pieces)
    return pieces


def _split_array(body: bytes) -> Sequence[Piece]:
    if body.count(b",") <= _COMMAS_OF_A_COMMON_ARRAY:
        try:
            pieces = _ARRAY.decode(body)
        except (msgspec.DecodeError, RecursionError):
            # Parsed again below, element by element: that finds the place of the error, and an element that
            # is merely invalid (an unpaired surrogate, NaN) does not affect the others.
            pass
        else:
            _check_count(pieces)
            return pieces
    return _split_array_by_element(body)


def _split_array_by_element(body: bytes) -> list[Piece]:
    # Bytes that are not UTF-8 pass through as lone surrogates and come back unchanged.
    text = body.decode("utf-8", "surrogateescape")
    pieces: list[Piece] = []
    position = _after_space(text, _after_space(text, 0) + 1)
    if text.startswith("]", position):
        _check_end(text, position + 1, index=0)
        return pieces
    while True:
        index = len(pieces)
        try:
            _, end = _ELEMENT.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise UnreadableArrayError(
                error.msg, index=index, position=_byte_position(text, error.pos)
            ) from error
        except RecursionError as error:
            raise UnreadableArrayError(
                "it is nested too deeply", index=index, position=_byte_position(text, position)
            ) from error
        pieces.append(text[position:end].encode("utf-8", "surrogateescape"))
        _check_count(pieces)
        position = _after_space(text, end)
        if text.startswith("]", position):
            _check_end(text, position + 1, index=index)
            return pieces
        if not text.startswith(",", position):
            raise UnreadableArrayError(
                "expected `,` or `]`", index=index, position=_byte_position(text, position)
            )
        position = _after_space(text, position + 1)


def _check_end(text: str, position: int, *, index: int) -> None:
    end = _after_space(text, position)
    if end != len(text):
        raise UnreadableArrayError(
            "there is more after its end", index=index, position=_byte_position(text, end)
        )


def _check_count(pieces: Sequence[Piece]) -> None:
    if len(pieces) > MAX_EVENTS:
        raise HeadraceError(
            "request_too_large",
            f"The request has more than {MAX_EVENTS} events.",
            remedy="Send them in several requests.",
        )


def _after_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _byte_position(text: str, position: int) -> int:
    return len(text[:position].encode("utf-8", "surrogateescape"))
