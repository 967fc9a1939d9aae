"""Parts that statements on streams and tables share: columns and WITH clauses."""

from __future__ import annotations

from headrace.pipeline.statements.cursor import Cursor
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.expression_parser import ExpressionParser
from headrace.pipeline.statements.position import Position
from headrace.pipeline.statements.tokens import TokenKind
from headrace.pipeline.statements.tree import ColumnConstraint, ColumnDefinition, Property
from headrace.pipeline.statements.type_parser import parse_type


def parse_columns(cursor: Cursor) -> tuple[ColumnDefinition, ...]:
    """Columns in parentheses; none without parentheses."""
    if not cursor.accept_symbol("("):
        return ()
    columns: list[ColumnDefinition] = []
    while True:
        column = _column(cursor)
        if any(column.name == other.name for other in columns):
            raise StatementError(
                f"There are two columns named {column.name}.", column.at, remedy="Rename one."
            )
        columns.append(column)
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")
    return tuple(columns)


def _column(cursor: Cursor) -> ColumnDefinition:
    at = cursor.at
    name = cursor.expect_name("the name of a column")
    data_type = parse_type(cursor)
    if cursor.accept_words("PRIMARY", "KEY"):
        return ColumnDefinition(name, data_type, ColumnConstraint.PRIMARY_KEY, at=at)
    if cursor.accept_word("KEY"):
        return ColumnDefinition(name, data_type, ColumnConstraint.KEY, at=at)
    if cursor.accept_word("HEADERS"):
        return ColumnDefinition(name, data_type, ColumnConstraint.HEADERS, at=at)
    if cursor.accept_word("HEADER"):
        cursor.expect_symbol("(")
        header = cursor.expect_text("the key of a header")
        cursor.expect_symbol(")")
        return ColumnDefinition(name, data_type, ColumnConstraint.HEADERS, header, at=at)
    return ColumnDefinition(name, data_type, at=at)


def parse_properties(cursor: Cursor) -> tuple[Property, ...]:
    """`WITH (name = value, …)`; none without WITH."""
    if not cursor.accept_word("WITH"):
        return ()
    cursor.expect_symbol("(")
    found: list[Property] = []
    literals = ExpressionParser(cursor)
    while True:
        at = cursor.at
        name = _property_name(cursor)
        cursor.expect_symbol("=")
        value = literals.literal()
        if value is None:
            cursor.fail()
        _check_once(name, found, at)
        found.append(Property(name, value, at=at))
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")
    return tuple(found)


def _property_name(cursor: Cursor) -> str:
    text = cursor.accept_kind(TokenKind.TEXT, "the name of a property")
    name = cursor.expect_name("the name of a property") if text is None else text.value
    # Case-insensitive, quoted or not.
    return name.upper()


def _check_once(name: str, found: list[Property], at: Position) -> None:
    if any(name == other.name for other in found):
        raise StatementError(f"The property {name} is given twice.", at, remedy="Leave one out.")
