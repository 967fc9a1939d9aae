"""String literals of `.proto` files: the bytes that they mean, and back."""

from __future__ import annotations

import re
from typing import Final

_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_NAMES: Final = {value: name for name, value in _ESCAPES.items()}
_ESCAPE: Final = re.compile(
    r"\\(?:[xX](?P<hex>[0-9A-Fa-f]{1,2})|u(?P<short>[0-9A-Fa-f]{4})|U(?P<long>[0-9A-Fa-f]{8})"
    r"|(?P<octal>[0-7]{1,3})|(?P<other>.))",
    re.DOTALL,
)


def unquoted(literal: str) -> bytes:
    """What a literal means, which has its quotes."""
    found = b""
    place = 1
    for match in _ESCAPE.finditer(literal, 1, len(literal) - 1):
        found += literal[place : match.start()].encode("utf-8", "replace") + _meant(match)
        place = match.end()
    return found + literal[place : len(literal) - 1].encode("utf-8", "replace")


def quoted(content: bytes) -> str:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
        return f'"{"".join(_escaped(each, is_byte=True) for each in text)}"'
    return f'"{"".join(_escaped(each) for each in text)}"'


def _meant(match: re.Match[str]) -> bytes:
    digits = match["short"] or match["long"]
    if digits:
        number = int(digits, 16)
        is_character = number < 0x110000 and not 0xD800 <= number < 0xE000
        return (chr(number) if is_character else "\ufffd").encode("utf-8")
    if match["hex"]:
        return bytes([int(match["hex"], 16)])
    if match["octal"]:
        return bytes([int(match["octal"], 8) & 0xFF])
    return _ESCAPES.get(match["other"], match["other"]).encode("utf-8", "replace")


def _escaped(character: str, *, is_byte: bool = False) -> str:
    if character in _NAMES:
        return f"\\{_NAMES[character]}"
    if character in '"\\':
        return f"\\{character}"
    if character < " " or character == "\x7f" or (is_byte and character > "\x7f"):
        return f"\\{ord(character):03o}"
    return character
