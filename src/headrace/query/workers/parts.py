"""The parts of one answer: rows as Python values or Arrow's bytes, never more than the limits allow.

Invariants: a part has about `PART_BYTES`, so an answer of any size takes little memory; timestamps with a
zone are in UTC. Belongs to `answering.py`, which chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import duckdb
import pyarrow as pa

from headrace.core.errors import HeadraceError
from headrace.query.questions import Question, QuestionLimits
from headrace.query.workers.limits import MEGABYTE

# Large enough to be worth a frame, small enough for everybody's memory.
PART_BYTES: Final = 256 * 1024
MOST_ROWS: Final = 8192
_FIRST_ROWS: Final = 16
_WITH_ZONE: Final = "TIMESTAMP WITH TIME ZONE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where the parts of an answer go."""

    columns: Callable[[Sequence[str], Sequence[str]], None]
    data: Callable[[bytes | bytearray], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a query returns."""

    columns: tuple[str, ...]
    types: tuple[str, ...]


class Counter:
    """How much of an answer there is. Raises answer_too_large beyond the limits."""

    def __init__(self, limits: QuestionLimits) -> None:
        self._limits = limits
        self.rows = 0
        self._bytes = 0

    def add_rows(self, number: int) -> None:
        self.rows += number
        if self.rows > self._limits.rows:
            raise _too_much(f"{self._limits.rows} rows")

    def add_bytes(self, number: int) -> None:
        self._bytes += number
        if self._bytes > self._limits.answer_megabytes * MEGABYTE:
            raise _too_much(f"{self._limits.answer_megabytes} MB")


class Rows:
    """The rows of a query as Python values, in parts of about the same size in bytes."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, question: Question, shape: Shape) -> None:
        self._connection = connection
        self._question = question
        self.columns, self.types = shape.columns, shape.types
        # The caller sets it after each part, and so steers how many rows the next one has.
        self.last_part_bytes = 0

    def parts(self) -> Iterator[Sequence[tuple[object, ...]]]:
        sql = self._question.sql
        with_zone = [kind == _WITH_ZONE for kind in self.types]
        if any(_WITH_ZONE in kind for kind in self.types):
            sql = _without_zones(_without_end(self._connection, sql), self.types)
        self._connection.execute(sql, parameters_of(self._question))
        size = _FIRST_ROWS
        while rows := self._connection.fetchmany(size):
            if any(with_zone):
                rows = [tuple(map(_with_zone_again, row, with_zone)) for row in rows]
            yield rows
            if self.last_part_bytes * 2 <= PART_BYTES:
                size = min(size * 2, MOST_ROWS)
            elif self.last_part_bytes > PART_BYTES:
                size = max(1, size // 2)


class FrameSink:
    """A file to which Arrow writes; it passes on parts of limited size."""

    closed = False

    def __init__(self, output: Output, counter: Counter) -> None:
        self._output = output
        self._counter = counter
        self._part = bytearray()

    def write(self, content: Any) -> int:
        view = memoryview(content).cast("B")
        self._counter.add_bytes(len(view))
        for start in range(0, len(view), PART_BYTES):
            self._part += view[start : start + PART_BYTES]
            if len(self._part) >= PART_BYTES:
                self.flush()
        return len(view)

    def flush(self) -> None:
        if self._part:
            self._output.data(self._part)
            self._part = bytearray()

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing: the frames go on."""


def shape_of(connection: duckdb.DuckDBPyConnection, question: Question) -> Shape:
    """What the query returns. It is not run: this must be known before, see `_without_zones`."""
    try:
        relation = connection.sql(question.sql, params=parameters_of(question))
    except duckdb.Error:
        # The same error, with the line that it is in.
        connection.execute(question.sql, parameters_of(question))
        raise
    return Shape(columns=tuple(relation.columns), types=tuple(str(kind) for kind in relation.types))


def arrow_reader(connection: duckdb.DuckDBPyConnection, question: Question) -> pa.RecordBatchReader:
    """The rows of a query as Arrow."""
    return connection.execute(question.sql, parameters_of(question)).to_arrow_reader(MOST_ROWS)


def parameters_of(question: Question) -> list[object] | None:
    return list(question.parameters) or None


def _too_much(limit: str) -> HeadraceError:
    return HeadraceError(
        "answer_too_large",
        f"The answer has more than {limit}.",
        remedy="Add a LIMIT, narrow the WHERE, or aggregate.",
    )


def _without_end(connection: duckdb.DuckDBPyConnection, sql: str) -> str:
    """The statement without trailing semicolons. A comment may contain one too, or follow one."""
    while ";" in sql:
        head, _, tail = sql.rpartition(";")
        try:
            ended = not connection.extract_statements(tail) and len(connection.extract_statements(head)) == 1
        except duckdb.ParserException:
            ended = False
        if not ended:
            break
        sql = head
    return sql


def _without_zones(sql: str, types: tuple[str, ...]) -> str:
    """The same query with timestamps in UTC: DuckDB's client needs a package we lack for zoned ones."""
    names = [f"c{number}" for number in range(len(types))]
    values = (
        f"CAST({name} AS {kind.replace(_WITH_ZONE, 'TIMESTAMP')})" if _WITH_ZONE in kind else name
        for name, kind in zip(names, types, strict=True)
    )
    # The line break ends a comment at the end of the statement.
    return f"SELECT {', '.join(values)} FROM ({sql}\n) AS answer({', '.join(names)})"


def _with_zone_again(value: object, zoned: bool) -> object:
    return value.replace(tzinfo=UTC) if zoned and isinstance(value, datetime) else value
