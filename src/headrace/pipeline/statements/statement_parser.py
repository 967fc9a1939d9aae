"""Parses one statement at a cursor. SHOW, LIST and DESCRIBE are in `show_parser.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from headrace.pipeline.statements.cursor import Cursor
from headrace.pipeline.statements.errors import StatementError, UnsupportedError
from headrace.pipeline.statements.expression_parser import ExpressionParser
from headrace.pipeline.statements.position import Position
from headrace.pipeline.statements.queries import Duration
from headrace.pipeline.statements.query_parser import QueryParser
from headrace.pipeline.statements.show_parser import parse_describe, parse_show
from headrace.pipeline.statements.source_parser import parse_columns, parse_properties
from headrace.pipeline.statements.tokens import TokenKind
from headrace.pipeline.statements.tree import (
    AlterSource,
    AssertSchema,
    AssertTopic,
    ChangeQuery,
    ColumnDefinition,
    CreateAs,
    CreateRollup,
    CreateSource,
    CreateType,
    Define,
    Drop,
    DropRollup,
    DropType,
    Explain,
    InsertSelect,
    InsertValues,
    Print,
    Query,
    QueryAction,
    RunScript,
    SetProperty,
    SourceKind,
    Statement,
    Undefine,
    UnsetProperty,
)
from headrace.pipeline.statements.type_parser import parse_type

_ACTIONS = tuple(action.value for action in QueryAction)


class StatementParser:
    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._queries = QueryParser(cursor)

    def statement(self) -> Statement:
        cursor = self._cursor
        at = cursor.at
        parsers: dict[str, Callable[[Position], Statement]] = {
            "CREATE": self._create,
            "INSERT": self._insert,
            "SHOW": lambda at: parse_show(cursor, at),
            "LIST": lambda at: parse_show(cursor, at),
            "DESCRIBE": lambda at: parse_describe(cursor, at),
            "EXPLAIN": self._explain,
            "PRINT": self._print,
            "DROP": self._drop,
            "ALTER": self._alter,
            "SET": self._set,
            "UNSET": self._unset,
            "DEFINE": self._define,
            "UNDEFINE": lambda at: Undefine(cursor.expect_name("a variable"), at=at),
            "RUN": self._run,
            "ASSERT": self._assert,
        }
        if cursor.at_words("SELECT"):
            return Query(self._queries.select(), at=at)
        cursor.note("SELECT")
        if (action := cursor.accept_word(*_ACTIONS)) is not None:
            return self._change_query(QueryAction(action), at)
        return parsers[cursor.expect_word(*parsers)](at)

    # Streams, tables, types.

    def _create(self, at: Position) -> Statement:
        cursor = self._cursor
        or_replace = cursor.accept_words("OR", "REPLACE")
        if not or_replace and cursor.accept_word("TYPE"):
            return self._create_type(at)
        if cursor.accept_word("ROLLUP"):
            return self._create_rollup(at, or_replace=or_replace)
        if cursor.at_words("SINK", "CONNECTOR") or cursor.at_words("SOURCE", "CONNECTOR"):
            _refuse_connectors(at, "CREATE CONNECTOR")
        is_source = cursor.accept_word("SOURCE") is not None
        kind = SourceKind(cursor.expect_word("STREAM", "TABLE"))
        if_not_exists = self._if("NOT", "EXISTS")
        name = cursor.expect_name(f"the name of the {kind.value.lower()}")
        columns = parse_columns(cursor)
        properties = parse_properties(cursor)
        as_at = cursor.at
        if not columns and cursor.accept_word("AS"):
            if is_source:
                raise StatementError(
                    f"CREATE SOURCE {kind.value} cannot have a query.", as_at, remedy="Leave SOURCE out."
                )
            return CreateAs(
                kind=kind,
                name=name,
                query=self._queries.select(),
                properties=properties,
                or_replace=or_replace,
                if_not_exists=if_not_exists,
                at=at,
            )
        return CreateSource(
            kind=kind,
            name=name,
            columns=columns,
            properties=properties,
            or_replace=or_replace,
            if_not_exists=if_not_exists,
            is_source=is_source,
            at=at,
        )

    def _create_type(self, at: Position) -> CreateType:
        cursor = self._cursor
        if_not_exists = self._if("NOT", "EXISTS")
        name = cursor.expect_name("the name of the type")
        cursor.expect_word("AS")
        return CreateType(name, parse_type(cursor), if_not_exists, at=at)

    def _create_rollup(self, at: Position, *, or_replace: bool) -> CreateRollup:
        cursor = self._cursor
        if_not_exists = self._if("NOT", "EXISTS")
        name = cursor.expect_name("the name of the rollup")
        cursor.expect_word("AS")
        return CreateRollup(name, self._queries.select(), or_replace, if_not_exists, at=at)

    def _drop(self, at: Position) -> Statement:
        cursor = self._cursor
        if cursor.at_words("CONNECTOR"):
            _refuse_connectors(at, "DROP CONNECTOR")
        word = cursor.expect_word("STREAM", "TABLE", "TYPE", "ROLLUP")
        if_exists = self._if("EXISTS")
        name = cursor.expect_name(f"the name of the {word.lower()}")
        if word == "TYPE":
            return DropType(name, if_exists, at=at)
        if word == "ROLLUP":
            return DropRollup(name, if_exists, at=at)
        delete_topic = cursor.accept_words("DELETE", "TOPIC")
        return Drop(SourceKind(word), name, if_exists, delete_topic, at=at)

    def _alter(self, at: Position) -> Statement:
        cursor = self._cursor
        if cursor.at_words("SYSTEM"):
            raise UnsupportedError(
                "ALTER SYSTEM is not supported.", at, remedy="SET changes a property of the session."
            )
        kind = SourceKind(cursor.expect_word("STREAM", "TABLE"))
        name = cursor.expect_name(f"the name of the {kind.value.lower()}")
        added: list[ColumnDefinition] = []
        while True:
            cursor.expect_word("ADD")
            cursor.accept_word("COLUMN")
            column_at = cursor.at
            column = cursor.expect_name("the name of a column")
            if any(column == other.name for other in added):
                raise StatementError(
                    f"There are two columns named {column}.", column_at, remedy="Rename one."
                )
            added.append(ColumnDefinition(column, parse_type(cursor), at=column_at))
            if not cursor.accept_symbol(","):
                return AlterSource(kind, name, tuple(added), at=at)

    def _if(self, *words: str) -> bool:
        return self._cursor.accept_words("IF", *words)

    # Rows and queries.

    def _insert(self, at: Position) -> Statement:
        cursor = self._cursor
        cursor.expect_word("INTO")
        target = cursor.expect_name("the name of a stream or table")
        columns: tuple[str, ...] = ()
        columns_at = cursor.at
        if cursor.accept_symbol("("):
            columns = self._names(columns_at)
        if cursor.accept_word("VALUES"):
            values_at = cursor.at
            cursor.expect_symbol("(")
            values = ExpressionParser(cursor).listed(")")
            if columns and len(columns) != len(values):
                raise StatementError(
                    f"{len(columns)} columns are named, but {len(values)} values are given.", values_at
                )
            return InsertValues(target=target, columns=columns, values=values, at=at)
        if columns:
            cursor.fail()
        properties = parse_properties(cursor)
        return InsertSelect(target=target, query=self._queries.select(), properties=properties, at=at)

    def _names(self, at: Position) -> tuple[str, ...]:
        cursor = self._cursor
        names = [cursor.expect_name("a column")]
        while cursor.accept_symbol(","):
            names.append(cursor.expect_name("a column"))
        cursor.expect_symbol(")")
        if len(set(names)) < len(names):
            raise StatementError("A column is named twice.", at)
        return tuple(names)

    def _explain(self, at: Position) -> Explain:
        cursor = self._cursor
        beginning = cursor.token
        words = ("SELECT", "CREATE", "INSERT")
        if beginning.kind is TokenKind.WORD and beginning.value in words:
            return Explain(statement=self.statement(), at=at)
        cursor.note(*words)
        return Explain(query_id=cursor.expect_name("the id of a query"), at=at)

    def _change_query(self, action: QueryAction, at: Position) -> ChangeQuery:
        if self._cursor.accept_word("ALL"):
            return ChangeQuery(action, None, at=at)
        return ChangeQuery(action, self._cursor.expect_name("the id of a query"), at=at)

    def _print(self, at: Position) -> Print:
        cursor = self._cursor
        topic = self._resource("the name of a topic")
        from_beginning = cursor.accept_words("FROM", "BEGINNING")
        interval = limit = None
        if cursor.accept_word("INTERVAL", "SAMPLE"):
            interval = cursor.expect_integer("a number of records")
        if cursor.accept_word("LIMIT"):
            limit = cursor.expect_integer("a number of records")
        return Print(topic, from_beginning, interval, limit, at=at)

    # Sessions.

    def _set(self, at: Position) -> SetProperty:
        name = self._cursor.expect_text("the name of a property")
        self._cursor.expect_symbol("=")
        return SetProperty(name, self._cursor.expect_text("a value"), at=at)

    def _unset(self, at: Position) -> UnsetProperty:
        return UnsetProperty(self._cursor.expect_text("the name of a property"), at=at)

    def _define(self, at: Position) -> Define:
        name = self._cursor.expect_name("a variable")
        self._cursor.expect_symbol("=")
        return Define(name, self._cursor.expect_text("a value"), at=at)

    def _run(self, at: Position) -> RunScript:
        self._cursor.expect_word("SCRIPT")
        return RunScript(self._cursor.expect_text("the path of a file"), at=at)

    def _assert(self, at: Position) -> Statement:
        cursor = self._cursor
        exists = not cursor.accept_words("NOT", "EXISTS")
        if cursor.expect_word("TOPIC", "SCHEMA") == "TOPIC":
            topic = self._resource("the name of a topic")
            return AssertTopic(topic, parse_properties(cursor), exists, self._timeout(), at=at)
        subject = self._resource("a subject") if cursor.accept_word("SUBJECT") else None
        schema_id = cursor.expect_integer("the id of a schema") if cursor.accept_word("ID") else None
        if subject is None and schema_id is None:
            cursor.fail()
        return AssertSchema(subject, schema_id, exists, self._timeout(), at=at)

    def _timeout(self) -> Duration | None:
        return self._queries.duration() if self._cursor.accept_word("TIMEOUT") else None

    def _resource(self, called: str) -> str:
        """A topic or subject. It is case-sensitive, so an unquoted name is taken as written."""
        cursor = self._cursor
        if (text := cursor.accept_kind(TokenKind.TEXT, called)) is not None:
            return text.value
        return cursor.expect_written_name(called)


def _refuse_connectors(at: Position, what: str) -> NoReturn:
    raise UnsupportedError(
        f"{what} is not supported.",
        at,
        remedy="Create connectors with Kafka Connect's API (POST /connectors).",
    )
