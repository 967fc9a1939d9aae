"""Zones and offsets in texts, as Java reads them by the format letters V, z, O, X, x and Z."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

from headrace.pipeline.expressions.functions import zones
from headrace.pipeline.expressions.functions.time_fields import Element, Fields, digits_at, starts
from headrace.pipeline.expressions.functions.zones import Zone

_FULL: Final = 4


def _offset(zero: str, *, colon: bool, minutes_needed: bool = True, seconds: bool = False) -> Element:
    def part(text: str, place: int) -> str:
        """The two digits of minutes or seconds, or an empty text."""
        if colon:
            if text[place : place + 1] != ":":
                return ""
            place += 1
        digits = digits_at(text, place, 2)
        return digits if len(digits) == 2 and int(digits) <= 59 else ""

    width = 3 if colon else 2

    def read(text: str, start: int, fields: Fields) -> int | None:
        if starts(text, start, zero):
            return fields.set("offset", 0, start + len(zero))
        if text[start : start + 1] not in ("+", "-"):
            return None
        hours = digits_at(text, start + 1, 2)
        if len(hours) < 2 or int(hours) > 59:
            return None
        end = start + 3
        found = [hours]
        for _ in range(2 if seconds else 1):
            digits = part(text, end)
            if not digits:
                break
            found.append(digits)
            end += width
        if minutes_needed and len(found) == 1:
            return None
        if int(hours) > 23:
            raise ValueError(f"offset {text!r}")
        total = sum(int(each) * unit for each, unit in zip(found, (3600, 60, 1), strict=False))
        return fields.set("offset", -total if text[start] == "-" else total, end)

    return read


def _gmt_offset(*, is_full: bool) -> Element:
    def read(text: str, start: int, fields: Fields) -> int | None:
        if not starts(text, start, "GMT"):
            return None
        end = start + 3
        sign = text[end : end + 1]
        if sign not in ("+", "-"):
            return fields.set("offset", 0, end)
        hours = digits_at(text, end + 1, 2)
        end += 1 + len(hours)
        if not hours or (is_full and len(hours) < 2):
            return None
        total = int(hours) * 3600
        for unit in (60, 1):
            digits = digits_at(text, end + 1, 2)
            if text[end : end + 1] == ":" and len(digits) == 2:
                total += int(digits) * unit
                end += 3
            elif is_full and unit == 60:
                return None
            else:
                break
        return fields.set("offset", -total if sign == "-" else total, end)

    return read


_ZONE_OFFSET: Final = _offset("Z", colon=True, seconds=True)
_PREFIXED_OFFSET: Final = _offset("0", colon=True, seconds=True)


def _zone(names: Callable[[], dict[str, str]]) -> Element:
    """An identifier of a zone, with or without an offset; the longest that fits."""

    def read(text: str, start: int, fields: Fields) -> int | None:
        if text[start : start + 1] in ("+", "-"):
            return _with_offset(text, start, "", fields)
        for prefix in ("UTC", "UT", "GMT"):
            if starts(text, start, prefix) and text[start : start + 4].lower() != "gmt0":
                return _with_offset(text, start + len(prefix), prefix, fields)
        known = {**names(), "z": "Z"}
        for length in range(min(_longest(names), len(text) - start), 0, -1):
            name = known.get(text[start : start + length].lower())
            if name is not None:
                fields.zone = zones.zone(name)
                return start + length
        return None

    return read


@cache
def _longest(names: Callable[[], dict[str, str]]) -> int:
    return max(map(len, names()))


def _with_offset(text: str, place: int, prefix: str, fields: Fields) -> int | None:
    end: int | None = place
    offset = 0
    if place < len(text) and text[place] not in "0Zz":
        inner = Fields()
        end = (_PREFIXED_OFFSET if prefix else _ZONE_OFFSET)(text, place, inner)
        offset = inner.values.get("offset", 0)
    if end is None:
        if not prefix:
            return None
        end, offset = place, 0
    fields.zone = Zone(prefix + zones.offset_name(offset, zero=""), zones.of_offset(offset))
    return end


@cache
def _identifiers() -> dict[str, str]:
    return {name.lower(): name for name in zones.regions()}


# Short names of zones that Java reads, those that are clear and in use. It knows many more.
_SHORT_NAMES: Final = {
    **dict.fromkeys(("est", "edt", "eastern standard time", "eastern daylight time"), "America/New_York"),
    **dict.fromkeys(("cst", "cdt", "central standard time", "central daylight time"), "America/Chicago"),
    **dict.fromkeys(("mst", "mdt", "mountain standard time", "mountain daylight time"), "America/Denver"),
    **dict.fromkeys(("pst", "pdt", "pacific standard time", "pacific daylight time"), "America/Los_Angeles"),
    **dict.fromkeys(("cet", "cest"), "Europe/Paris"),
    **dict.fromkeys(("eet", "eest"), "Europe/Bucharest"),
    **dict.fromkeys(("wet", "west"), "Atlantic/Canary"),
    **dict.fromkeys(("aest", "aedt"), "Australia/Sydney"),
    **{"msk": "Europe/Moscow", "jst": "Asia/Tokyo", "kst": "Asia/Seoul", "sgt": "Asia/Singapore"},
}


@cache
def _short_names() -> dict[str, str]:
    return {**_identifiers(), **{name: zone for name, zone in _SHORT_NAMES.items() if " " not in name}}


@cache
def _long_names() -> dict[str, str]:
    return {
        **_identifiers(),
        **{name: zone for name, zone in _SHORT_NAMES.items() if " " in name},
        "greenwich mean time": "Africa/Abidjan",
        "coordinated universal time": "UTC",
    }


def zone_element(letter: str, count: int) -> Element:
    """What reads that many of that letter of zones."""
    match letter:
        case "V":
            return _zone(_identifiers)
        case "z":
            return _zone(_long_names if count == _FULL else _short_names)
        case "O":
            return _gmt_offset(is_full=count == _FULL)
        case "Z" if count == _FULL:
            return _gmt_offset(is_full=True)
        case "Z":
            return _offset("Z", colon=True, seconds=True) if count > _FULL else _offset("+0000", colon=False)
        case _:
            zero = "Z" if letter == "X" else ("+00", "+0000", "+00:00", "+0000", "+00:00")[count - 1]
            return _offset(zero, colon=count in (3, 5), minutes_needed=count > 1, seconds=count > 3)
