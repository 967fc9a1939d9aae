"""SHOW, LIST and DESCRIBE."""

from __future__ import annotations

from headrace.pipeline.statements.cursor import Cursor
from headrace.pipeline.statements.errors import UnsupportedError
from headrace.pipeline.statements.position import Position
from headrace.pipeline.statements.tree import (
    Describe,
    DescribeFunction,
    Show,
    Shown,
    SourceKind,
    Statement,
)

_ONE_WORD = tuple(shown.value for shown in Shown if " " not in shown.value)
_EXTENDED = {Shown.STREAMS, Shown.TABLES, Shown.TOPICS, Shown.ALL_TOPICS, Shown.QUERIES}


def parse_show(cursor: Cursor, at: Position) -> Show:
    if cursor.accept_words("CONNECTOR", "PLUGINS"):
        return Show(Shown.CONNECTOR_PLUGINS, at=at)
    if cursor.accept_word("SOURCE", "SINK"):
        cursor.expect_word("CONNECTORS")
        return Show(Shown.CONNECTORS, at=at)
    what = Shown.ALL_TOPICS if cursor.accept_words("ALL", "TOPICS") else Shown(cursor.expect_word(*_ONE_WORD))
    extended = what in _EXTENDED and cursor.accept_word("EXTENDED") is not None
    return Show(what, extended, at=at)


def parse_describe(cursor: Cursor, at: Position) -> Statement:
    if cursor.at_words("CONNECTOR"):
        raise UnsupportedError(
            "DESCRIBE CONNECTOR is not supported.",
            at,
            remedy="Use GET /connectors/NAME of Kafka Connect's API.",
        )
    if cursor.at_words("FUNCTION") and cursor.at_name(ahead=1):
        cursor.move()
        return DescribeFunction(cursor.expect_name("a function"), at=at)
    for word, kind in (("STREAMS", SourceKind.STREAM), ("TABLES", SourceKind.TABLE)):
        if cursor.accept_word(word):
            return Describe(None, cursor.accept_word("EXTENDED") is not None, kind, at=at)
    name = cursor.expect_name("the name of a stream or table")
    return Describe(name, cursor.accept_word("EXTENDED") is not None, at=at)
