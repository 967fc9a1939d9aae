"""SELECT and its parts."""

from __future__ import annotations

from headrace.pipeline.statements.cursor import Cursor
from headrace.pipeline.statements.errors import StatementError, SyntaxProblemError
from headrace.pipeline.statements.expression_parser import UNITS, ExpressionParser
from headrace.pipeline.statements.expressions import Expression
from headrace.pipeline.statements.position import Position
from headrace.pipeline.statements.queries import (
    Duration,
    Emit,
    Join,
    JoinKind,
    Select,
    SelectExpression,
    SelectItem,
    SourceReference,
    Star,
    StructStar,
    Window,
    WindowKind,
    Within,
)

# Words that may follow a source, so they are not aliases, although ksqlDB would allow them as names.
_BEHIND_SOURCE = frozenset({"EMIT", "PARTITION"})


class QueryParser:
    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._expressions = ExpressionParser(cursor)

    def select(self) -> Select:
        cursor = self._cursor
        at = cursor.at
        cursor.expect_word("SELECT")
        items = [self._item()]
        while cursor.accept_symbol(","):
            items.append(self._item())
        cursor.expect_word("FROM")
        source = self._source()
        joins = []
        while (join := self._join()) is not None:
            joins.append(join)
        window = self._window() if cursor.accept_word("WINDOW") else None
        where = self._expressions.expression() if cursor.accept_word("WHERE") else None
        group_by = self._keys() if self._accept_by("GROUP") else ()
        partition_by = self._keys() if self._accept_by("PARTITION") else ()
        having = self._expressions.expression() if cursor.accept_word("HAVING") else None
        emit = Emit(cursor.expect_word("CHANGES", "FINAL")) if cursor.accept_word("EMIT") else None
        limit = cursor.expect_integer("a number of rows") if cursor.accept_word("LIMIT") else None
        return Select(
            tuple(items),
            source,
            tuple(joins),
            window,
            where,
            group_by,
            partition_by,
            having,
            emit,
            limit,
            at=at,
        )

    def duration(self) -> Duration:
        cursor = self._cursor
        at = cursor.at
        amount = cursor.expect_integer("a whole number")
        return Duration(amount, UNITS[cursor.expect_word(*UNITS)], at=at)

    # Columns and sources.

    def _item(self) -> SelectItem:
        cursor = self._cursor
        at = cursor.at
        if cursor.accept_symbol("*"):
            return Star(at=at)
        if cursor.at_name() and cursor.at_symbol(".", ahead=1) and cursor.at_symbol("*", ahead=2):
            source = cursor.move().value
            cursor.move()
            cursor.move()
            return Star(source, at=at)
        expression = self._expressions.expression()
        if cursor.at_symbol("->") and cursor.at_symbol("*", ahead=1):
            cursor.move()
            cursor.move()
            return StructStar(expression, at=at)
        if cursor.accept_word("AS"):
            return SelectExpression(expression, cursor.expect_name("a name for the column"), at=at)
        return SelectExpression(expression, cursor.accept_name("a name for the column"), at=at)

    def _source(self) -> SourceReference:
        cursor = self._cursor
        at = cursor.at
        name = cursor.expect_name("the name of a stream or table")
        if cursor.accept_word("AS"):
            return SourceReference(name, cursor.expect_name("an alias"), at=at)
        if cursor.token.value in _BEHIND_SOURCE:
            return SourceReference(name, at=at)
        return SourceReference(name, cursor.accept_name("an alias"), at=at)

    def _join(self) -> Join | None:
        cursor = self._cursor
        at = cursor.at
        kind = JoinKind.INNER
        if (word := cursor.accept_word("INNER", "LEFT", "RIGHT", "FULL")) is not None:
            kind = JoinKind(word)
            if kind is not JoinKind.INNER:
                cursor.accept_word("OUTER")
            cursor.expect_word("JOIN")
        elif not cursor.accept_word("JOIN"):
            return None
        right = self._source()
        within = self._within() if cursor.accept_word("WITHIN") else None
        cursor.expect_word("ON")
        return Join(kind, right, self._expressions.expression(), within, at=at)

    def _within(self) -> Within:
        cursor = self._cursor
        at = cursor.previous.at
        if cursor.accept_symbol("("):
            before = self.duration()
            cursor.expect_symbol(",")
            after = self.duration()
            cursor.expect_symbol(")")
        else:
            before = after = self.duration()
        return Within(before, after, self._grace(), at=at)

    def _grace(self) -> Duration | None:
        if not self._cursor.accept_words("GRACE", "PERIOD"):
            return None
        return self.duration()

    # Windows and groups.

    def _window(self) -> Window:
        cursor = self._cursor
        at = cursor.at
        kinds = tuple(kind.value for kind in WindowKind)
        # A window may have a name, which has no meaning.
        if cursor.token.value not in kinds and cursor.at_name() and cursor.ahead().value in kinds:
            cursor.move()
        kind = WindowKind(cursor.expect_word(*kinds))
        cursor.expect_symbol("(")
        advance = None
        if kind is not WindowKind.SESSION:
            cursor.expect_word("SIZE")
        size = self._positive(self.duration())
        if kind is WindowKind.HOPPING:
            cursor.expect_symbol(",")
            cursor.expect_word("ADVANCE")
            cursor.expect_word("BY")
            advance = self._positive(self.duration())
            if advance.milliseconds > size.milliseconds:
                raise StatementError(
                    f"A hopping window cannot advance by {advance}, more than its size of {size}.",
                    advance.at,
                    remedy="Records between two windows would belong to none.",
                )
        retention, grace = self._window_options(size)
        cursor.expect_symbol(")")
        return Window(kind, size, advance, retention, grace, at=at)

    def _window_options(self, size: Duration) -> tuple[Duration | None, Duration | None]:
        cursor = self._cursor
        retention = grace = None
        while cursor.accept_symbol(","):
            at = cursor.at
            if retention is None and grace is None and cursor.accept_word("RETENTION"):
                retention = self.duration()
            elif grace is None and (found := self._grace()) is not None:
                grace = found
            else:
                cursor.fail()
            if retention is not None and retention.milliseconds < size.milliseconds + (
                grace.milliseconds if grace is not None else 0
            ):
                raise StatementError(
                    f"RETENTION {retention} is shorter than the window and its grace period.",
                    at,
                    remedy="Retention must cover both.",
                )
        return retention, grace

    def _positive(self, duration: Duration) -> Duration:
        if duration.amount <= 0:
            raise SyntaxProblemError("The size of a window must be greater than zero.", duration.at)
        return duration

    def _accept_by(self, word: str) -> Position | None:
        return self._cursor.at if self._cursor.accept_words(word, "BY") else None

    def _keys(self) -> tuple[Expression, ...]:
        """`a, b`, or the same in parentheses."""
        cursor = self._cursor
        if cursor.at_symbol("(") and self._whole_list_in_parentheses():
            cursor.move()
            return self._expressions.listed(")")
        found = [self._expressions.value()]
        while cursor.accept_symbol(","):
            found.append(self._expressions.value())
        return tuple(found)

    def _whole_list_in_parentheses(self) -> bool:
        """Not in `(a + b) * 2`: the token after the closing parenthesis decides."""
        cursor = self._cursor
        depth = ahead = 0
        while True:
            token = cursor.ahead(ahead)
            if cursor.at_symbol("(", ahead):
                depth += 1
            elif cursor.at_symbol(")", ahead):
                depth -= 1
            if depth == 0 or not token.value:
                break
            ahead += 1
        behind = cursor.ahead(ahead + 1)
        return behind.value in ("", ";", "HAVING", "EMIT", "LIMIT", "PARTITION")
