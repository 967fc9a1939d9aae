"""Patterns of Joda's DateTimeFormat, as TIME_FORMAT and TIME_PARSE take them, in terms of DuckDB's.

`yyyy-MM-dd HH:mm:ss` becomes `%Y-%m-%d %H:%M:%S`. Where DuckDB's strftime has no counterpart, a piece of the
text is an expression of its own. A letter that neither can express is an error: never a wrong text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from headrace.query.druid.errors import DruidSqlError
from headrace.query.druid.zones import Zone

ISO: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSZZ"

# By letter and count; where the count is missing, the one of the longest below it.
_BOTH_WAYS: Final[dict[str, dict[int, str]]] = {
    "M": {1: "%-m", 2: "%m", 3: "%b", 4: "%B"},
    "d": {1: "%-d", 2: "%d"},
    "D": {1: "%-j", 3: "%j"},
    "H": {1: "%-H", 2: "%H"},
    "h": {1: "%-I", 2: "%I"},
    "m": {1: "%-M", 2: "%M"},
    "s": {1: "%-S", 2: "%S"},
    "a": {1: "%p"},
    "E": {1: "%a", 4: "%A"},
}
_YEARS: Final = frozenset("yYu")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Letters of one kind, or (without a letter) text."""

    letter: str
    count: int = 0
    text: str = ""


def formatted(utc: str, pattern: str, zone: Zone) -> str:
    """A template for the text of a timestamp, whose SQL is `utc`: a template, too, such as `{0}`."""
    local = zone.local(utc)
    parts: list[str] = []
    codes = ""
    for piece in _pieces(pattern):
        code = _output_code(piece, zone)
        if code is not None:
            codes += code
            continue
        if codes:
            parts.append(f"strftime({local}, {_literal(codes)})")
            codes = ""
        parts.append(_output_expression(piece, local, utc, pattern))
    if codes or not parts:
        parts.append(f"strftime({local}, {_literal(codes)})")
    return f"({' || '.join(parts)})"


def parsed(text: str, pattern: str, zone: Zone) -> str:
    """SQL for the timestamp of UTC that a text stands for; null if the text does not match."""
    pieces = list(_pieces(pattern))
    codes = "".join(_input_code(piece, pattern) for piece in pieces)
    if any(piece.letter == "Z" for piece in pieces):
        return f"timezone('UTC', try_strptime({text}, {_literal(codes)}))"
    return zone.instant(f"try_strptime({text}, {_literal(codes)})")


def _pieces(pattern: str) -> Iterator[_Piece]:
    position = 0
    while position < len(pattern):
        letter = pattern[position]
        if letter == "'":
            end = pattern.find("'", position + 1)
            if end < 0:
                raise DruidSqlError(f"The time pattern '{pattern[:80]}' has a quote without its end")
            yield _Piece(letter="", text=pattern[position + 1 : end] or "'")
            position = end + 1
        elif letter.isascii() and letter.isalpha():
            rest = pattern[position:]
            count = len(rest) - len(rest.lstrip(letter))
            yield _Piece(letter=letter, count=count)
            position += count
        else:
            yield _Piece(letter="", text=letter)
            position += 1


def _common_code(piece: _Piece) -> str | None:
    if not piece.letter:
        return piece.text.replace("%", "%%")
    if piece.letter in _YEARS:
        return "%y" if piece.count == 2 else "%Y"
    by_count = _BOTH_WAYS.get(piece.letter)
    if by_count is None:
        return None
    fitting = [count for count in by_count if count <= piece.count]
    return by_count[max(fitting)]


def _output_code(piece: _Piece, zone: Zone) -> str | None:  # noqa: PLR0911
    match piece.letter:
        case "S" if piece.count == 3:
            return "%g"
        case "S" if piece.count == 6:
            return "%f"
        case "S" if piece.count == 9:
            return "%n"
        case "x":
            return "%G"
        case "w" if piece.count == 2:
            return "%V"
        case "e":
            return "%u"
        case "Z" if zone.is_utc:
            return {1: "+0000", 2: "Z"}.get(piece.count, "UTC")
        case "Z" if piece.count >= 3:
            return zone.name.replace("%", "%%")
        case "z" if zone.minutes is not None:
            return zone.name
        case _:
            return _common_code(piece)


def _output_expression(piece: _Piece, local: str, utc: str, pattern: str) -> str:
    match piece.letter:
        case "S" if piece.count < 6:
            return f"left(strftime({local}, '%f'), {piece.count})"
        case "k":
            return _padded(f"(extract(hour FROM {local}) + 23) % 24 + 1", piece.count)
        case "K":
            return _padded(f"extract(hour FROM {local}) % 12", piece.count)
        case "w":
            return f"CAST(extract(week FROM {local}) AS VARCHAR)"
        case "Z":
            minutes = f"date_diff('minute', {utc}, {local})"
            colon = "" if piece.count == 1 else ":"
            # Braces are doubled, because what this returns is a template.
            return (
                f"format('{{{{}}}}{{{{:02d}}}}{colon}{{{{:02d}}}}', "
                f"CASE WHEN {minutes} < 0 THEN '-' ELSE '+' END, "
                f"abs({minutes}) // 60, abs({minutes}) % 60)"
            )
        case _:
            raise _unsupported(piece, pattern)


def _padded(number: str, count: int) -> str:
    return f"CAST({number} AS VARCHAR)" if count == 1 else f"lpad(CAST({number} AS VARCHAR), 2, '0')"


def _input_code(piece: _Piece, pattern: str) -> str:
    if piece.letter == "S":
        return "%f" if piece.count > 3 else "%g"
    if piece.letter == "Z" and piece.count < 3:
        return "%z"
    code = _common_code(piece)
    if code is None:
        raise _unsupported(piece, pattern)
    # Joda takes numbers of fewer digits, and so does strptime without the dash.
    return code.replace("%-", "%")


def _unsupported(piece: _Piece, pattern: str) -> DruidSqlError:
    return DruidSqlError(
        f"The letters {piece.letter * min(piece.count, 10)} of the time pattern '{pattern[:80]}' "
        "are not supported here",
        remedy="Supported are y, Y, M, d, D, E, a, H, h, m, s, S and Z; for output also e, k, K, w, x and z.",
        unsupported=True,
    )


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
