"""Formats of dates and times from the letters that are supported, and texts in these formats."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime, timedelta

from headrace.pipeline.expressions.functions.time_formats import ALL_LETTERS
from headrace.pipeline.expressions.functions.time_printing import printed
from headrace.pipeline.expressions.functions.zones import zone

DATE_LETTERS = "GyuDMLdQqEF"
TIME_LETTERS = "ahHkKmsS"
ALL = DATE_LETTERS + TIME_LETTERS + "VzOXxZ"
READABLE = "GyuDMLdEahHkKmsSVOXxZ"
ZONES = (
    *("UTC", "GMT", "Z", "Europe/London", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"),
    *("+05:30", "-3", "+010203", "UTC+01:00", "Etc/GMT+3", "GMT0", "Nowhere", "EST"),
)
_MOST = {**dict.fromkeys("GMLQqEz", 4), **dict.fromkeys("dhHkKms", 2), **dict.fromkeys("XxZ", 5)} | {
    **{"y": 6, "u": 6, "D": 3, "F": 1, "a": 1, "S": 9, "V": 2, "O": 4}
}
_BETWEEN = ("", "-", ":", " ", "'T'", "'o''c'", "[", "]", "['x']", "/", "'S'", "é")
_YEARS = ("yyyy", "yy", "uuuu", "yyyyy", "yyyy G")
_TIMES = (
    *("", "HH:mm", "HH:mm:ss", "hh:mm a", "HHmmss", "HHmmssSSS", "HH:mm:ss.SSS", "H:m:s", "kk:mm", "K:mm a"),
    *("HH:mm:ss.S", "HH:mm:ss.SSSSSSSSS", "[HH:mm[:ss]]", "ssSS", "HHmmS", "h a", "HH h", "H a", "mm:ss"),
)
_ZONES = ("", "", "", "X", "XXX", "XX", "XXXX", "XXXXX", "x", "xxx", "Z", "ZZZZ", "ZZZZZ", "O", "OOOO", "VV")


def a_moment(chance: random.Random) -> datetime:
    if chance.random() < 0.1:
        return chance.choice((datetime.min, datetime.max)).replace(tzinfo=UTC)
    days = chance.randrange(25_000) if chance.random() < 0.8 else chance.randrange(-719_000, 2_900_000)
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
        days=days, microseconds=chance.randrange(86_400 * 10**6)
    )


def a_format(chance: random.Random, letters: str, most: int = 4) -> str:
    parts = []
    for _ in range(chance.randint(0, most)):
        letter = chance.choice(letters)
        counts = {"V": (2,), "O": (1, 4)}.get(letter) or range(
            1, _MOST[letter] + 1 + (chance.random() < 0.03)
        )
        parts += [letter * chance.choice(counts), chance.choice(_BETWEEN)]
    return "".join(parts)


def a_usual_format(chance: random.Random) -> str:
    date = [
        chance.choice(_YEARS),
        *(
            (chance.choice(("MM", "M", "MMM", "MMMM")), chance.choice(("dd", "d")))
            if chance.random() < 0.8
            else ("DDD",)
        ),
        *(("EEE",) if chance.random() < 0.2 else ()),
    ]
    return (
        chance.choice(("-", "/", " ", "")).join(date)
        + chance.choice((" ", "'T'", ""))
        + chance.choice(_TIMES)
        + chance.choice(_ZONES)
    )


def a_text_and_format(chance: random.Random, letters: str = READABLE) -> tuple[str, str]:
    """Years of `y` and `yyy`, and long numbers after a sign, are read with constant formats only."""
    while True:
        is_usual = letters == READABLE and chance.random() < 0.5
        form = a_usual_format(chance) if is_usual else a_format(chance, letters)
        where = zone(chance.choice(ZONES[:-2]))
        try:
            text = printed(form, ALL_LETTERS, a_moment(chance), where)
        except (ValueError, OverflowError):
            continue
        changed = _changed(chance, text or "2021-05-03 12:30")
        if not re.search(r"(?<![uy])(?:[uy]|[uy]{3})(?![uy])", form) and not re.search(r"[+-]\d{6}", changed):
            return changed, form


def _changed(chance: random.Random, text: str) -> str:
    if not text or chance.random() < 0.6:
        return text
    place = chance.randrange(len(text))
    other = chance.choice("0123456789+-: aZ")
    return chance.choice(
        (
            text[:place] + other + text[place + 1 :],
            text[:place] + text[place + 1 :],
            text[:place] + other + text[place:],
            text.swapcase(),
            text + " ",
        )
    )
