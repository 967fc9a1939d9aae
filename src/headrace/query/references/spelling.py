"""Clauses that are ours in a statement, replaced by what DuckDB and the other dialects can read.

| in the statement | after it |
|---|---|
| `events AS OF VERSION 12` | `"events@v12" AS "events"` |
| `events AS OF TIMESTAMP '2026-03-14 10:00:00' e` | `"events@2026-03-14 10:00:00" e` |
| `events [FOR] VERSION AS OF 12`, `… TIMESTAMP AS OF '…'` (Spark, Delta, Trino) | the same |
| `events e AT (VERSION => 12)`, `AT (TIMESTAMP => '…')` (DuckDB) | the same |
| `… WITH (freshness = lake)` at the end | nothing; `freshness` says it |

None of these is SQL that DuckDB or PostgreSQL would take otherwise, so no other statement changes. Invariant:
a statement without these clauses stays as it is, letter by letter. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.core.errors import HeadraceError
from headrace.query.references.moments import named_moment, table_of
from headrace.query.references.words import Kind, Piece, pieces
from headrace.query.table_snapshot import quoted

# Most statements have none of our clauses, which this tells without cutting them into words.
_MAYBE: Final = re.compile(r"\bOF\b|\bAT\b|\bfreshness\b", re.IGNORECASE)
_UNITS: Final = {
    "VERSION": "VERSION",
    "SYSTEM_VERSION": "VERSION",
    "TIMESTAMP": "TIMESTAMP",
    "SYSTEM_TIME": "TIMESTAMP",
}
_TIME_WORDS: Final = frozenset({"TIMESTAMP", "TIMESTAMPTZ", "DATE"})
# What may follow a table without an alias. Everything else that is a word is an alias.
_AFTER_TABLE: Final = frozenset({
    "ANTI", "ASOF", "AT", "CROSS", "EXCEPT", "FETCH", "FOR", "FULL", "GROUP", "HAVING", "INNER", "INTERSECT",
    "JOIN", "LATERAL", "LEFT", "LIMIT", "NATURAL", "OFFSET", "ON", "ORDER", "OUTER", "PIVOT", "POSITIONAL",
    "QUALIFY", "RIGHT", "SELECT", "SEMI", "TABLESAMPLE", "UNION", "UNPIVOT", "USING", "WHERE", "WINDOW",
    "WITH",
})  # fmt: skip
# What may stand before a table.
_BEFORE_TABLE: Final = frozenset({"FROM", "JOIN", ",", "(", "TABLE"})
# Behind ALL and DISTINCT stands a column: `SELECT DISTINCT version AS of`.
_NO_NAME: Final = _AFTER_TABLE | _BEFORE_TABLE | {"ALL", "DISTINCT"}
_AS_OF: Final = ["AS", "OF"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Respelled:
    """A statement without our clauses. `freshness` is empty if it does not say any."""

    sql: str
    freshness: str = ""


@dataclass(frozen=True, slots=True)
class _Edit:
    """Replaces the text between two places."""

    start: int
    end: int
    text: str


def respelled(sql: str) -> Respelled:
    """Raises bad_request if one of our clauses has something else than a number or a text."""
    if not _MAYBE.search(sql):
        return Respelled(sql=sql)
    found = pieces(sql)
    freshness, edits = _freshness(found)
    done = 0
    for index, piece in enumerate(found):
        if piece.kind is not Kind.WORD or piece.start < done:
            continue
        edit = _as_of(found, index) or _of_unit(found, index) or _at(found, index)
        if edit is not None:
            edits.append(edit)
            done = edit.end
    edits.sort(key=lambda edit: edit.start)
    parts: list[str] = []
    position = 0
    for edit in edits:
        parts += (sql[position : edit.start], edit.text)
        position = edit.end
    return Respelled(sql="".join([*parts, sql[position:]]), freshness=freshness)


def with_freshness(sql: str, freshness: str) -> str:
    """The statement with the clause that says it, unless it is empty."""
    # The line break ends a comment at the end of the statement.
    return f"{sql.rstrip().rstrip(';')}\nWITH (freshness = '{quoted_text(freshness)}')" if freshness else sql


def quoted_text(text: str) -> str:
    return text.replace("'", "''")


def moments_in(sql: str, tables: Iterable[str]) -> list[str]:
    """The names in a respelled statement that mean a table at a version, of these tables."""
    folded = {name.casefold() for name in tables}
    named = {piece.value for piece in pieces(sql) if piece.kind is Kind.NAME} if "@" in sql else set()
    return sorted(name for name in named if table_of(name, folded) is not None)


def _words(found: Sequence[Piece], start: int, number: int) -> list[str]:
    return [piece.word for piece in found[max(start, 0) : start + number]]


def _freshness(found: Sequence[Piece]) -> tuple[str, list[_Edit]]:
    """`WITH (freshness = lake)` at the end."""
    end = len(found)
    while end and found[end - 1].word == ";":
        end -= 1
    clause = found[max(end - 6, 0) : end]
    if [piece.word for piece in clause[:4]] != ["WITH", "(", "FRESHNESS", "="] or clause[-1].word != ")":
        return "", []
    return clause[4].value.lower(), [_Edit(clause[0].start, clause[-1].end, "")]


def _as_of(found: Sequence[Piece], index: int) -> _Edit | None:
    """`events AS OF VERSION 12`; `index` is that of AS."""
    if _words(found, index, 2) != _AS_OF or index + 2 >= len(found):
        return None
    unit = found[index + 2].word
    if unit not in ("VERSION", "TIMESTAMP"):
        return None
    first = _name_before(found, index)
    return None if first is None else _before_alias(found, first, index, unit, index + 3)


def _of_unit(found: Sequence[Piece], index: int) -> _Edit | None:
    """`events FOR VERSION AS OF 12`; `index` is that of VERSION."""
    unit = _UNITS.get(found[index].word)
    if unit is None or _words(found, index + 1, 2) != _AS_OF:
        return None
    end = index - 1 if index and found[index - 1].word == "FOR" else index
    first = _name_before(found, end)
    return None if first is None else _before_alias(found, first, end, unit, index + 3)


def _at(found: Sequence[Piece], index: int) -> _Edit | None:
    """`events e AT (VERSION => 12)`; `index` is that of AT."""
    if _words(found, index, 2) != ["AT", "("] or _words(found, index + 3, 1) != ["=>"]:
        return None
    unit = found[index + 2].word
    if unit not in ("VERSION", "TIMESTAMP"):
        return None
    value, after = _value(found, index + 4, unit)
    if _words(found, after, 1) != [")"]:
        raise _not_understood(unit)
    end = index
    alias = ""
    first = _name_before(found, end)
    if first is None or (first > 0 and found[first - 1].word not in _BEFORE_TABLE):
        # The alias stands before AT here.
        alias, end = _alias_before(found, index)
        first = _name_before(found, end)
    if first is None:
        return None
    name = _name(found, first, end, unit, value)
    return _Edit(
        found[first].start, found[after].end, f"{name} {alias or f'AS {quoted(found[end - 1].value)}'}"
    )


def _alias_before(found: Sequence[Piece], index: int) -> tuple[str, int]:
    """The alias that ends before `index`, with names of columns if it has them, and where the table ends."""
    last = index - 1
    start = last
    if found[last].word == ")":
        while start > 0 and found[start].word != "(":
            start -= 1
        start -= 1
    end = start - 1 if start > 0 and found[start - 1].word == "AS" else start
    written = " ".join(piece.text for piece in found[start:index])
    return f"AS {written}", end


def _before_alias(found: Sequence[Piece], first: int, end: int, unit: str, at: int) -> _Edit:
    value, after = _value(found, at, unit)
    name = _name(found, first, end, unit, value)
    if not _alias_follows(found, after):
        name += f" AS {quoted(found[end - 1].value)}"
    return _Edit(found[first].start, found[after - 1].end, name)


def _name_before(found: Sequence[Piece], end: int) -> int | None:
    """Where the name begins that ends before `end`; it may have qualifiers."""
    first = end - 1
    if first < 0 or not _is_name(found[first]):
        return None
    while first >= 2 and found[first - 1].word == "." and _is_name(found[first - 2]):
        first -= 2
    return first


def _is_name(piece: Piece) -> bool:
    return piece.kind is Kind.NAME or (piece.kind is Kind.WORD and piece.word not in _NO_NAME)


def _name(found: Sequence[Piece], first: int, end: int, unit: str, value: str) -> str:
    table = found[end - 1].value
    moment = named_moment(table, version=int(value)) if unit == "VERSION" else named_moment(table, at=value)
    qualifiers = "".join(piece.text for piece in found[first : end - 1])
    return f"{qualifiers}{quoted(moment)}"


def _value(found: Sequence[Piece], at: int, unit: str) -> tuple[str, int]:
    """The constant at this place, and what follows it."""
    pieces_ = found[at : at + 2]
    if not pieces_:
        raise _not_understood(unit)
    if unit == "VERSION":
        if pieces_[0].kind not in (Kind.NUMBER, Kind.TEXT) or not pieces_[0].value.isascii():
            raise _not_understood(unit)
        if not pieces_[0].value.isdigit() or len(pieces_[0].value) > 18:
            raise _not_understood(unit)
        return pieces_[0].value, at + 1
    typed = pieces_[0].word in _TIME_WORDS
    value = pieces_[1] if typed and len(pieces_) == 2 else pieces_[0]
    if value.kind is not Kind.TEXT:
        raise _not_understood(unit)
    return value.value, at + 1 + typed


def _alias_follows(found: Sequence[Piece], after: int) -> bool:
    if after >= len(found):
        return False
    piece = found[after]
    return piece.kind is Kind.NAME or (piece.kind is Kind.WORD and piece.word not in _AFTER_TABLE)


def _not_understood(unit: str) -> HeadraceError:
    example = "12" if unit == "VERSION" else "'2026-03-14 10:00:00'"
    what = "a number" if unit == "VERSION" else "a time as text"
    return HeadraceError(
        "bad_request",
        f"`AS OF {unit}` takes {what}, and no expression or parameter.",
        remedy=f"Write for example `AS OF {unit} {example}`.",
    )
