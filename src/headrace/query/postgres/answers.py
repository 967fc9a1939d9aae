"""Rows on their way to a client: from the engine's answer, or from a command about the session.

An `Answer` is read forwards once, in pieces, by Execute, FETCH or COPY. Invariants: rows are encoded when
they are sent, so an answer that is held takes the engine's memory and no more; the bytes that wait for a
slow client are bounded by `PIECE_BYTES` and one row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Final

from headrace.query.postgres.commands import CopyOut
from headrace.query.postgres.protocol import outgoing, types
from headrace.query.postgres.protocol.encoding import Encoder, encoder
from headrace.query.postgres.protocol.errors import INVALID_BINARY, PROTOCOL_VIOLATION, PostgresError
from headrace.query.postgres.protocol.outgoing import Field
from headrace.query.sql import QueryResult

PIECE_BYTES: Final = 64 * 1024
_QUOTED_IN_CSV: Final = re.compile(r"[\"\r\n]|^\\\.$")
_COPY_ESCAPES: Final = {
    "\\": "\\\\",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\b": "\\b",
    "\f": "\\f",
    "\v": "\\v",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnShape:
    """A column's name as PostgreSQL gives it, and its DuckDB type."""

    name: str
    duckdb: str

    def field(self, form: int) -> Field:
        kind = types.type_of(self.duckdb)
        modifier = types.modifier_of(self.duckdb)
        return Field(name=self.name, oid=kind.oid, size=kind.size, modifier=modifier, format=form)


class Answer:
    """Columns, rows, and how far they have been read."""

    def __init__(self, columns: Sequence[ColumnShape], rows: Sequence[Sequence[object]]) -> None:
        self.columns = tuple(columns)
        self._rows = rows
        self._at = 0

    @classmethod
    def of_texts(cls, names: Sequence[str], rows: Sequence[Sequence[str | None]]) -> Answer:
        return cls([ColumnShape(name=name, duckdb="VARCHAR") for name in names], rows)

    @classmethod
    def of_result(cls, result: QueryResult, names: Sequence[str | None]) -> Answer:
        return cls(shapes(result.columns, result.types, names), result.rows)

    def next_rows(self, most: int) -> Sequence[Sequence[object]]:
        """The next rows, all of them if `most` is negative."""
        end = len(self._rows) if most < 0 else min(len(self._rows), self._at + most)
        start, self._at = self._at, end
        rows = self._rows[start:end]
        if end == len(self._rows):
            # Nothing is left to read, so a portal that stays open holds no rows.
            self._rows, self._at = (), 0
        return rows


def shapes(
    columns: Sequence[str], duckdb_types: Sequence[str], names: Sequence[str | None]
) -> tuple[ColumnShape, ...]:
    """The columns of an answer; `names` has PostgreSQL's names where they differ."""
    known = names if len(names) == len(columns) else [None] * len(columns)
    return tuple(
        ColumnShape(name=own or column, duckdb=kind)
        for column, kind, own in zip(columns, duckdb_types, known, strict=True)
    )


def formats_of(count: int, formats: Sequence[int]) -> list[int]:
    """The format of each of `count` values: none given means text, one given is for all."""
    if len(formats) <= 1:
        return [formats[0] if formats else 0] * count
    if len(formats) != count:
        raise PostgresError(PROTOCOL_VIOLATION, f"bind message has {len(formats)} formats for {count} values")
    return list(formats)


def data_rows(
    columns: Sequence[ColumnShape], rows: Sequence[Sequence[object]], formats: Sequence[int]
) -> Iterator[bytes]:
    """DataRow messages, several in a piece."""
    encoders = _encoders(columns, formats)
    return _pieces(outgoing.data_row(_encoded(row, encoders)) for row in rows)


def copied(
    columns: Sequence[ColumnShape], rows: Sequence[Sequence[object]], options: CopyOut
) -> Iterator[bytes]:
    """CopyData messages with a line each, several in a piece."""
    encoders = _encoders(columns, [0] * len(columns))

    def line(values: Sequence[str | None]) -> bytes:
        shown = (options.null if value is None else _copy_value(value, options) for value in values)
        return outgoing.copy_data((options.delimiter.join(shown) + "\n").encode())

    def lines() -> Iterator[bytes]:
        if options.header:
            yield line([column.name for column in columns])
        for row in rows:
            yield line([None if value is None else value.decode() for value in _encoded(row, encoders)])

    return _pieces(lines())


def _copy_value(text: str, options: CopyOut) -> str:
    if options.csv:
        quotes = options.delimiter in text or text == options.null or _QUOTED_IN_CSV.search(text)
        return '"' + text.replace('"', '""') + '"' if quotes else text
    escaped = "".join(_COPY_ESCAPES.get(letter, letter) for letter in text)
    return (
        escaped if options.delimiter == "\t" else escaped.replace(options.delimiter, "\\" + options.delimiter)
    )


def _encoders(columns: Sequence[ColumnShape], formats: Sequence[int]) -> list[Encoder]:
    return [encoder(column.duckdb, binary=form == 1) for column, form in zip(columns, formats, strict=True)]


def _encoded(row: Sequence[object], encoders: Sequence[Encoder]) -> list[bytes | None]:
    try:
        return [None if value is None else encode(value) for value, encode in zip(row, encoders, strict=True)]
    except (ValueError, TypeError, OverflowError, AttributeError, StructError) as error:
        raise PostgresError(
            INVALID_BINARY,
            f"a value of the answer cannot be sent in the format that was asked for: {error}",
            hint="Cast the column to text.",
        ) from error


def _pieces(messages: Iterator[bytes]) -> Iterator[bytes]:
    pending: list[bytes] = []
    size = 0
    for message in messages:
        pending.append(message)
        size += len(message)
        if size >= PIECE_BYTES:
            yield b"".join(pending)
            pending, size = [], 0
    if pending:
        yield b"".join(pending)
