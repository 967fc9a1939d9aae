"""JSON read and written in Python, as Spark's functions of JSON do it.

Numbers keep their text, objects the order of their keys and keys that occur twice. Spark is lenient: strings
may stand in single quotes and contain control characters, and what follows the first value is ignored. Its
VARIANT is strict and takes no key twice: `is_strict` says whether it takes the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from headrace.pipeline.expressions.value_casts import double_text

_BLANK: Final = re.compile(r"[ \t\r\n]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?(?![0-9])")
_AFTER_NUMBER: Final = re.compile(r"[ \t\r\n,\]}]|\Z")
_AFTER_LAST_NUMBER: Final = re.compile(r"[ \t\r\n]|\Z")
_WORDS: Final = {"true": True, "false": False, "null": None}
_WORD: Final = re.compile(r"(true|false|null)(?![A-Za-z0-9_$])")
_TEXT: Final = {
    quote: re.compile(rf"{quote}((?:[^{quote}\\]|\\(?:u[0-9A-Fa-f]{{4}}|[\"\\/bfnrt]))*){quote}", re.DOTALL)
    for quote in ('"', "'")
}
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)")
_ESCAPED: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WRITTEN: Final = {value: f"\\{name}" for name, value in _ESCAPED.items()} | {'"': '\\"', "\\": "\\\\"}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_TO_ESCAPE_ALWAYS: Final = re.compile(r'[\x00-\x1f"\\]')
# Spark writes characters beyond U+FFFF as two escapes, except in VARIANTs.
_TO_ESCAPE: Final = re.compile('[\x00-\x1f"\\\\\ud800-\udfff\U00010000-\U0010ffff]')
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_LONGEST_NUMBER: Final = 1000
_DEEPEST: Final = 1000
_DECIMAL_DIGITS: Final = 38


@dataclass(frozen=True, slots=True)
class Number:
    text: str

    @property
    def is_whole(self) -> bool:
        return not set(".eE") & set(self.text)


@dataclass(frozen=True, slots=True)
class Raw:
    """JSON that is written as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Object:
    pairs: tuple[tuple[str, Any], ...]

    def names(self) -> list[str]:
        return list(dict(self.pairs))


class JsonReader:
    """Reads the first value of a text. Raises ValueError if it is not JSON."""

    def __init__(self, text: str) -> None:
        # What strict readers do not take; halves are those of a character beyond U+FFFF.
        self.has_controls = self.has_repeated_keys = self.has_halves = self._has_single_quotes = False
        self._text = text
        try:
            self.value, end = self._read(self._blank(0), 0)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
        # Whether it could be the last element of an array, as JSON_CONCAT has it in Spark.
        self.is_last = text[self._blank(end) :][:1] in ("", "]")

    @property
    def is_strict(self) -> bool:
        return not (self.has_controls or self.has_repeated_keys or self.has_halves or self._has_single_quotes)

    def _read(self, place: int, depth: int) -> tuple[Any, int]:
        first = self._text[place : place + 1]
        if first in ("{", "["):
            if depth >= _DEEPEST:
                raise ValueError("nested too deeply")
            return (self._object if first == "{" else self._array)(place + 1, depth + 1)
        if first in ('"', "'"):
            return self._string(place)
        word = _WORD.match(self._text, place)
        if word is not None:
            return _WORDS[word[1]], word.end()
        number = _NUMBER.match(self._text, place)
        after = _AFTER_NUMBER if depth else _AFTER_LAST_NUMBER
        if number is None or not after.match(self._text, number.end()):
            raise ValueError(f"no value at {place}")
        if sum(map(str.isdigit, number[0])) > _LONGEST_NUMBER:
            raise ValueError("a number too long")
        return Number(number[0]), number.end()

    def _string(self, place: int) -> tuple[str, int]:
        quote = self._text[place : place + 1]
        found = _TEXT[quote].match(self._text, place) if quote in _TEXT else None
        if found is None:
            raise ValueError(f"no text at {place}")
        self.has_controls |= _CONTROL.search(found[1]) is not None
        text = _ESCAPE.sub(_unescaped, found[1])
        # Escaped halves of one character become that character.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        self._has_single_quotes |= quote == "'"
        self.has_halves |= _SURROGATE.search(text) is not None
        return text, found.end()

    def _array(self, place: int, depth: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        place = self._blank(place)
        if self._text[place : place + 1] == "]":
            return found, place + 1
        while True:
            value, place = self._read(self._blank(place), depth)
            found.append(value)
            place, is_last = self._after(place, "]")
            if is_last:
                return found, place

    def _object(self, place: int, depth: int) -> tuple[Object, int]:
        found: list[tuple[str, Any]] = []
        place = self._blank(place)
        if self._text[place : place + 1] == "}":
            return Object(()), place + 1
        while True:
            key, place = self._string(self._blank(place))
            place = self._blank(place)
            if self._text[place : place + 1] != ":":
                raise ValueError(f"no colon at {place}")
            value, place = self._read(self._blank(place + 1), depth)
            found.append((key, value))
            place, is_last = self._after(place, "}")
            if is_last:
                self.has_repeated_keys |= len(dict(found)) < len(found)
                return Object(tuple(found)), place

    def _after(self, place: int, end: str) -> tuple[int, bool]:
        place = self._blank(place)
        found = self._text[place : place + 1]
        if found not in (",", end):
            raise ValueError(f"neither a comma nor {end} at {place}")
        return place + 1, found == end

    def _blank(self, place: int) -> int:
        found = _BLANK.match(self._text, place)
        assert found is not None
        return found.end()


def _unescaped(escape: re.Match[str]) -> str:
    body = escape[1]
    return chr(int(body[1:], 16)) if len(body) > 1 else _ESCAPED.get(body, body)


def written(value: Any, quote: Callable[[str], str] | None = None) -> str:
    """In short, numbers with a fraction as doubles."""
    text_of = quote or quoted
    match value:
        case Object(pairs):
            return "{" + ",".join(f"{text_of(key)}:{written(each, quote)}" for key, each in pairs) + "}"
        case list():
            return f"[{','.join(written(each, quote) for each in value)}]"
        case str():
            return text_of(value)
        case Number(text):
            return str(int(text)) if value.is_whole else double_json(float(text))
        case Raw(text):
            return text
        case _:
            return _constant(value)


def written_as_variant(value: Any) -> str:
    """As Spark writes a VARIANT of what `written` gives: keys in alphabetical order, decimals in short."""
    match value:
        case Object(pairs):
            return variants_written(sorted(pairs, key=_key))
        case list():
            return f"[{','.join(map(written_as_variant, value))}]"
        case str():
            return quoted_plainly(value)
        case Number():
            shown = written(value)
            return shown if shown.startswith('"') else _variant_number(shown)
        case _:
            return written(value)


def variants_written(pairs: Iterable[tuple[str, Any]]) -> str:
    """An object of VARIANTs, its keys in the order given."""
    return "{" + ",".join(f"{quoted_plainly(key)}:{written_as_variant(each)}" for key, each in pairs) + "}"


def merged(objects: Iterable[Object]) -> dict[str, Any]:
    """The last value of each key; Spark sorts the keys of each object."""
    return {key: value for each in objects for key, value in sorted(each.pairs, key=_key)}


def _key(pair: tuple[str, Any]) -> bytes:
    return pair[0].encode()


def _variant_number(text: str) -> str:
    if set("eE") & set(text):
        return double_json(float(text))
    number = Decimal(text)
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    if len(number.as_tuple().digits) > _DECIMAL_DIGITS or -exponent > _DECIMAL_DIGITS:
        return double_json(float(text))
    shown = f"{number:f}"
    shown = shown.rstrip("0").rstrip(".") if "." in shown else shown
    return "0" if shown in ("-0", "") else shown


def quoted_plainly(text: str) -> str:
    """As `to_json` and VARIANTs have it in Spark."""
    return f'"{_TO_ESCAPE_ALWAYS.sub(_escaped, text)}"'


def quoted(text: str) -> str:
    return f'"{_TO_ESCAPE.sub(_escaped, text)}"'


def _escaped(character: re.Match[str]) -> str:
    if character[0] in _WRITTEN:
        return _WRITTEN[character[0]]
    units = character[0].encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


def double_json(number: float) -> str:
    shown = double_text(number)
    return f'"{shown}"' if shown[-1].isalpha() else shown


def _constant(value: bool | None) -> str:
    return "null" if value is None else "true" if value else "false"


def as_text(value: Any) -> str:
    """A text as it is, everything else in JSON. Raises ValueError if it is no Unicode."""
    found = value if isinstance(value, str) else written(value)
    found.encode()
    return found
