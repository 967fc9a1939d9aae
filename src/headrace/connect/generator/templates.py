"""Templates for made-up records: JSON in whose texts `{{…}}` stands for something generated.

    {"id": "{{sequence}}", "user": "user-{{integer 1 100}}", "kind": "{{choice view:8|buy:1}}", "at":
    "{{now}}"}

A text that is one placeholder gets the generated value with its type; in a longer text, and in keys, it is
written as text. Placeholders: `sequence [first]`, `integer low high`, `number low high [digits]`,
`choice a|b|c` (each with an optional weight, `a:3`), `boolean [probability]`, `uuid`, `text [length]`,
`now` (the clock, ISO 8601), `now_ms`, `time [days]` (a moment within so many days before 2024, by the seed).

A pure function: the same template, seed and number give the same record, except for `now` and `now_ms`. So a
source goes on after a restart without remembering more than a number.
"""

from __future__ import annotations

import json
import random
import re
import string
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

_PLACEHOLDER: Final = re.compile(r"\{\{\s*(\w+)\s*([^{}]*?)\s*\}\}")
_EPOCH: Final = datetime(2024, 1, 1, tzinfo=UTC)
_LONGEST_TEXT: Final = 100_000
# Of all texts of a record: no topic takes more.
_LONGEST_TEXTS: Final = 1_000_000
_DEEPEST: Final = 50
_WORD: Final = 10

# The number of the record and its own source of chance, to a value.
Generated = Callable[[int, random.Random], Any]


class Template:
    """Raises ValueError for a template that cannot be used."""

    def __init__(self, text: str, *, is_json: bool = True) -> None:
        if is_json:
            try:
                content = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"the template is not JSON: {error}") from error
        else:
            content = text
        lengths = (found[2] for found in _PLACEHOLDER.finditer(text) if found[1] == "text")
        if sum(int(each) for each in lengths if each.isdecimal()) > _LONGEST_TEXTS:
            raise ValueError(f"the texts of a record have at most {_LONGEST_TEXTS} characters")
        self._make = _compiled(content)

    def record(self, seed: int, number: int) -> Any:
        """The record with this number, from 0."""
        return self._make(number, random.Random(f"{seed}/{number}"))


def _compiled(content: Any, depth: int = 0) -> Generated:
    if depth > _DEEPEST:
        raise ValueError("the template is nested too deeply")
    if isinstance(content, str):
        return _compiled_text(content)
    if isinstance(content, Mapping):
        fields = [(_compiled_text(key), _compiled(each, depth + 1)) for key, each in content.items()]
        return lambda number, chance: {
            str(key(number, chance)): value(number, chance) for key, value in fields
        }
    if isinstance(content, Sequence):
        items = [_compiled(each, depth + 1) for each in content]
        return lambda number, chance: [item(number, chance) for item in items]
    return lambda _number, _chance: content


def _compiled_text(text: str) -> Generated:
    whole = _PLACEHOLDER.fullmatch(text)
    if whole is not None:
        return _placeholder(whole[1], whole[2])
    parts: list[str | Generated] = []
    position = 0
    for found in _PLACEHOLDER.finditer(text):
        parts += [text[position : found.start()], _placeholder(found[1], found[2])]
        position = found.end()
    parts.append(text[position:])
    if len(parts) == 1:
        return lambda _number, _chance: text
    return lambda number, chance: "".join(
        part if isinstance(part, str) else _shown(part(number, chance)) for part in parts
    )


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _placeholder(name: str, rest: str) -> Generated:
    makers: dict[str, Callable[..., Generated]] = {
        "sequence": _sequence,
        "integer": _integer,
        "number": _number,
        "boolean": _boolean,
        "text": _text,
        "time": _time,
    }
    if name == "choice":
        return _choice(rest)
    if name == "uuid":
        return lambda _number, chance: str(uuid.UUID(int=chance.getrandbits(128), version=4))
    if name == "now":
        return lambda _number, _chance: (
            datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        )
    if name == "now_ms":
        return lambda _number, _chance: time.time_ns() // 1_000_000
    if name not in makers:
        known = ", ".join(sorted({*makers, "choice", "uuid", "now", "now_ms"}))
        raise ValueError(f"there is no placeholder `{name}`; there are {known}")
    try:
        return makers[name](*rest.split())
    except (TypeError, ValueError) as error:
        raise ValueError(f"the placeholder `{name} {rest}` is not right: {error}") from error


def _sequence(first: str = "0") -> Generated:
    start = int(first)
    return lambda number, _chance: start + number


def _integer(low: str, high: str) -> Generated:
    lowest, highest = int(low), int(high)
    if lowest > highest:
        raise ValueError("the first number is larger than the second")
    return lambda _number, chance: chance.randint(lowest, highest)


def _number(low: str, high: str, digits: str = "2") -> Generated:
    lowest, highest, places = float(low), float(high), int(digits)
    return lambda _number, chance: round(chance.uniform(lowest, highest), places)


def _boolean(probability: str = "0.5") -> Generated:
    likely = float(probability)
    return lambda _number, chance: chance.random() < likely


def _text(length: str = str(_WORD)) -> Generated:
    count = int(length)
    if not 0 <= count <= _LONGEST_TEXT:
        raise ValueError(f"a text has at most {_LONGEST_TEXT} characters")
    return lambda _number, chance: "".join(chance.choices(string.ascii_lowercase, k=count))


def _time(days: str = "1") -> Generated:
    seconds = int(days) * 86_400
    return lambda _number, chance: (
        (_EPOCH - timedelta(milliseconds=chance.randrange(seconds * 1000)))
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


def _choice(rest: str) -> Generated:
    choices, weights = [], []
    for each in rest.split("|"):
        value, colon, weight = each.strip().rpartition(":")
        is_weighted = bool(colon) and weight.isascii() and weight.isdigit()
        choices.append(value if is_weighted else each.strip())
        weights.append(int(weight) if is_weighted else 1)
    if not sum(weights):
        raise ValueError(f"the placeholder `choice {rest}` chooses nothing")
    return lambda _number, chance: chance.choices(choices, weights)[0]
