"""Checks of joins."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.pipeline.expressions.computed import Computed
from headrace.pipeline.expressions.walking import columns_in
from headrace.pipeline.plan import Read
from headrace.pipeline.rules.key_types import check_key_type
from headrace.pipeline.statements.errors import StatementError, UnsupportedError
from headrace.pipeline.statements.expression_printing import expression_text
from headrace.pipeline.statements.expression_printing import name as written
from headrace.pipeline.statements.expressions import (
    ColumnReference,
    Comparison,
    ComparisonOperator,
    Expression,
    Logical,
)
from headrace.pipeline.statements.queries import Join, JoinKind
from headrace.pipeline.statements.tree import SourceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The sides of one join: the result so far (left), the new source (right), and the expressions in ON."""

    join: Join
    left: SourceKind
    left_reads: tuple[Read, ...]
    right: Read
    on: tuple[Expression, Expression]

    @property
    def by_foreign_key(self) -> bool:
        """Two tables, and the left side is not joined by its primary key."""
        return (
            self.left is SourceKind.TABLE
            and self.right.source.kind is SourceKind.TABLE
            and not any(_is_primary_key(read, self.on[0]) for read in self.left_reads)
        )


def joined_by(join: Join, left: tuple[str, ...], right: str) -> tuple[Expression, Expression]:
    """The sides of ON: first that of the result so far, then that of the new source."""
    on = join.on
    if isinstance(on, Logical):
        raise StatementError(
            f"A join can have only one condition: {expression_text(on)}.",
            on.at,
            remedy="Put the others into WHERE.",
        )
    if not isinstance(on, Comparison) or on.operator is not ComparisonOperator.EQUAL:
        raise StatementError(f"A join needs an equation, and {expression_text(on)} is not one.", on.at)
    sources = [_source_of(side, on) for side in (on.left, on.right)]
    if sources[0] == sources[1]:
        raise StatementError(
            f"Both sides of {expression_text(on)} belong to {written(sources[0])}.",
            on.at,
            remedy="Each side must belong to a different source.",
        )
    if right not in sources:
        raise StatementError(
            f"{expression_text(on)} does not refer to {written(right)}, which is joined here.", on.at
        )
    flipped = sources[0] == right
    other = sources[1] if flipped else sources[0]
    if other not in left:
        raise StatementError(
            f"{written(other)} in {expression_text(on)} is joined later.",
            on.at,
            remedy="A join can refer only to sources before it.",
        )
    return (on.right, on.left) if flipped else (on.left, on.right)


def _source_of(side: Expression, on: Comparison) -> str:
    sources = {column.source for column in columns_in(side)}
    if len(sources) != 1:
        what = "no source" if not sources else "more than one source"
        raise StatementError(
            f"{expression_text(side)} in {expression_text(on)} belongs to {what}.",
            side.at,
            remedy="Each side of a join must belong to exactly one source.",
        )
    (source,) = sources
    assert source is not None
    return source


def check_sources(sides: Sides) -> None:
    """Checks the kinds of sources and of join, WITHIN, and windows."""
    join, right = sides.join, sides.right.source
    if sides.left is SourceKind.TABLE and right.kind is SourceKind.STREAM:
        raise StatementError(
            "A table cannot be joined with a stream, only a stream with a table.",
            join.at,
            remedy="Put the stream first.",
        )
    is_stream_join = sides.left is SourceKind.STREAM and right.kind is SourceKind.STREAM
    if is_stream_join and join.within is None:
        raise StatementError(
            "A join of two streams needs WITHIN.",
            join.at,
            remedy="For example: JOIN … WITHIN 1 HOUR ON ….",
        )
    if not is_stream_join and join.within is not None:
        raise StatementError(
            "WITHIN is only for joins of two streams: a join with a table has no window.",
            join.within.at,
            remedy="Leave it out.",
        )
    if sides.left is SourceKind.STREAM and right.kind is SourceKind.TABLE:
        _check_lookup(sides)
    elif right.kind is SourceKind.TABLE:
        _check_tables(sides)
    _check_windows(sides)


def _check_lookup(sides: Sides) -> None:
    join = sides.join
    if join.kind in (JoinKind.RIGHT, JoinKind.FULL):
        raise StatementError(
            f"A {join.kind.value} join of a stream with a table is not supported: only INNER and LEFT are.",
            join.at,
        )
    if not _is_primary_key(sides.right, sides.on[1]):
        raise StatementError(
            f"A stream joins a table by the table's primary key, but {_equation(sides)} does not use it.",
            join.on.at,
            remedy=_primary_key(sides.right),
        )


def _check_tables(sides: Sides) -> None:
    join = sides.join
    if not _is_primary_key(sides.right, sides.on[1]):
        raise StatementError(
            f"Tables join by the primary key of the right one, but {_equation(sides)} does not use it.",
            join.on.at,
            remedy=_primary_key(sides.right),
        )
    if not sides.by_foreign_key:
        return
    if join.kind in (JoinKind.RIGHT, JoinKind.FULL):
        raise StatementError(
            f"A {join.kind.value} join by a foreign key is not supported: only INNER and LEFT are.", join.at
        )
    if len(sides.left_reads) > 1:
        raise StatementError(
            f"A join by a foreign key must be the first one: {_equation(sides)}.",
            join.on.at,
            remedy="Create a table with the first joins, and join that table.",
        )


def _check_windows(sides: Sides) -> None:
    windowed = [read for read in (*sides.left_reads, sides.right) if read.source.window is not None]
    if windowed:
        raise UnsupportedError(
            f"{written(windowed[0].alias)} is windowed, and windowed sources cannot be joined.",
            sides.join.at,
            remedy="Join first, and aggregate the result of the join with its own query.",
        )


def check_types(sides: Sides, left: Computed, right: Computed) -> None:
    if left.type != right.type:
        raise StatementError(
            f"The sides of {_equation(sides)} differ in type: {left.type} and {right.type}.",
            sides.join.on.at,
            remedy="CAST one of them to the type of the other.",
        )
    check_key_type(left.text, left.type, sides.join.on.at)


def _is_primary_key(read: Read, expression: Expression) -> bool:
    key = read.source.key
    return len(key) == 1 and expression == ColumnReference(key[0].name, read.alias)


def _primary_key(read: Read) -> str:
    names = ", ".join(f"{written(read.alias)}.{written(column.name)}" for column in read.source.key)
    return f"The primary key is {names}."


def _equation(sides: Sides) -> str:
    return expression_text(sides.join.on)
