"""Statements and queries back to text, in one normal form: `parse(sql(tree))` gives the tree."""

from __future__ import annotations

from functools import singledispatch

from headrace.pipeline.statements.expression_printing import expression_text, name, quoted, type_text
from headrace.pipeline.statements.expressions import Expression, Node
from headrace.pipeline.statements.queries import (
    Duration,
    Join,
    Select,
    SelectItem,
    SourceReference,
    Star,
    StructStar,
    Window,
    WindowKind,
    Within,
)
from headrace.pipeline.statements.tree import (
    AlterSource,
    AssertSchema,
    AssertTopic,
    ChangeQuery,
    ColumnConstraint,
    ColumnDefinition,
    CreateAs,
    CreateRollup,
    CreateSource,
    CreateType,
    Define,
    Describe,
    DescribeFunction,
    Drop,
    DropRollup,
    DropType,
    Explain,
    InsertSelect,
    InsertValues,
    Print,
    Property,
    Query,
    RunScript,
    SetProperty,
    Show,
    Undefine,
    UnsetProperty,
)


@singledispatch
def sql(node: Node) -> str:
    """A statement, a query or an expression as text, without a semicolon."""
    return expression_text(node)


def _words(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _flag(is_set: bool, words: str) -> str:
    return words if is_set else ""


# Queries.


@sql.register
def _(node: Select) -> str:
    return _words(
        f"SELECT {', '.join(_item(item) for item in node.items)}",
        f"FROM {_source(node.source)}",
        *(_join(join) for join in node.joins),
        "" if node.window is None else f"WINDOW {_window(node.window)}",
        "" if node.where is None else f"WHERE {sql(node.where)}",
        "" if not node.group_by else f"GROUP BY {_keys(node.group_by)}",
        "" if not node.partition_by else f"PARTITION BY {_keys(node.partition_by)}",
        "" if node.having is None else f"HAVING {sql(node.having)}",
        "" if node.emit is None else f"EMIT {node.emit.value}",
        "" if node.limit is None else f"LIMIT {node.limit}",
    )


def _item(item: SelectItem) -> str:
    if isinstance(item, Star):
        return "*" if item.source is None else f"{name(item.source)}.*"
    if isinstance(item, StructStar):
        return f"{sql(item.base)}->*"
    alias = "" if item.alias is None else f" AS {name(item.alias)}"
    return f"{sql(item.expression)}{alias}"


def _source(source: SourceReference) -> str:
    return name(source.name) if source.alias is None else f"{name(source.name)} AS {name(source.alias)}"


def _keys(keys: tuple[Expression, ...]) -> str:
    # Always in parentheses: `(a + b)` alone would be parsed as a list of one.
    return f"({', '.join(sql(key) for key in keys)})"


def _join(join: Join) -> str:
    kind = join.kind.value if join.kind.value == "INNER" else f"{join.kind.value} OUTER"
    within = "" if join.within is None else _within(join.within)
    return _words(f"{kind} JOIN {_source(join.right)}", within, f"ON {sql(join.on)}")


def _within(within: Within) -> str:
    grace = _grace(within.grace)
    if within.before == within.after:
        return _words(f"WITHIN {within.before}", grace)
    return _words(f"WITHIN ({within.before}, {within.after})", grace)


def _grace(grace: Duration | None) -> str:
    return "" if grace is None else f"GRACE PERIOD {grace}"


def _window(window: Window) -> str:
    size = f"{window.size}" if window.kind is WindowKind.SESSION else f"SIZE {window.size}"
    parts = (
        size,
        "" if window.advance is None else f"ADVANCE BY {window.advance}",
        "" if window.retention is None else f"RETENTION {window.retention}",
        _grace(window.grace),
    )
    return f"{window.kind.value} ({', '.join(part for part in parts if part)})"


# Streams, tables, types.


def _create(node: CreateSource | CreateAs) -> str:
    return _words(
        "CREATE",
        _flag(node.or_replace, "OR REPLACE"),
        _flag(isinstance(node, CreateSource) and node.is_source, "SOURCE"),
        node.kind.value,
        _flag(node.if_not_exists, "IF NOT EXISTS"),
        name(node.name),
    )


@sql.register
def _(node: CreateSource) -> str:
    columns = f"({', '.join(_column(column) for column in node.columns)})" if node.columns else ""
    return _words(_create(node), columns, _properties(node.properties))


@sql.register
def _(node: CreateAs) -> str:
    return _words(_create(node), _properties(node.properties), "AS", sql(node.query))


def _column(column: ColumnDefinition) -> str:
    constraint = column.constraint.value
    if column.constraint is ColumnConstraint.HEADERS and column.header is not None:
        constraint = f"HEADER({quoted(column.header)})"
    return _words(name(column.name), type_text(column.type), constraint)


def _properties(properties: tuple[Property, ...]) -> str:
    if not properties:
        return ""
    return f"WITH ({', '.join(f'{name(each.name)} = {sql(each.value)}' for each in properties)})"


@sql.register
def _(node: Drop) -> str:
    return _words(
        "DROP",
        node.kind.value,
        _flag(node.if_exists, "IF EXISTS"),
        name(node.name),
        _flag(node.delete_topic, "DELETE TOPIC"),
    )


@sql.register
def _(node: AlterSource) -> str:
    added = ", ".join(f"ADD COLUMN {name(column.name)} {type_text(column.type)}" for column in node.added)
    return f"ALTER {node.kind.value} {name(node.name)} {added}"


@sql.register
def _(node: CreateType) -> str:
    exists = _flag(node.if_not_exists, "IF NOT EXISTS")
    return _words("CREATE TYPE", exists, name(node.name), "AS", type_text(node.type))


@sql.register
def _(node: DropType) -> str:
    return _words("DROP TYPE", _flag(node.if_exists, "IF EXISTS"), name(node.name))


@sql.register
def _(node: CreateRollup) -> str:
    return _words(
        "CREATE",
        _flag(node.or_replace, "OR REPLACE"),
        "ROLLUP",
        _flag(node.if_not_exists, "IF NOT EXISTS"),
        name(node.name),
        "AS",
        sql(node.query),
    )


@sql.register
def _(node: DropRollup) -> str:
    return _words("DROP ROLLUP", _flag(node.if_exists, "IF EXISTS"), name(node.name))


# Rows and queries.


@sql.register
def _(node: Query) -> str:
    return sql(node.select)


@sql.register
def _(node: InsertSelect) -> str:
    return _words(f"INSERT INTO {name(node.target)}", _properties(node.properties), sql(node.query))


@sql.register
def _(node: InsertValues) -> str:
    columns = f"({', '.join(name(column) for column in node.columns)})" if node.columns else ""
    values = f"VALUES ({', '.join(sql(value) for value in node.values)})"
    return _words(f"INSERT INTO {name(node.target)}", columns, values)


@sql.register
def _(node: ChangeQuery) -> str:
    return f"{node.action.value} {'ALL' if node.query_id is None else name(node.query_id)}"


@sql.register
def _(node: Explain) -> str:
    if node.statement is not None:
        return f"EXPLAIN {sql(node.statement)}"
    return f"EXPLAIN {name(node.query_id or '')}"


@sql.register
def _(node: Print) -> str:
    return _words(
        f"PRINT {quoted(node.topic)}",
        _flag(node.from_beginning, "FROM BEGINNING"),
        "" if node.interval is None else f"INTERVAL {node.interval}",
        "" if node.limit is None else f"LIMIT {node.limit}",
    )


# Listing, and sessions.


@sql.register
def _(node: Show) -> str:
    return _words("SHOW", node.what.value, _flag(node.extended, "EXTENDED"))


@sql.register
def _(node: Describe) -> str:
    what = f"{node.all_of.value}S" if node.all_of is not None else name(node.name or "")
    return _words("DESCRIBE", what, _flag(node.extended, "EXTENDED"))


@sql.register
def _(node: DescribeFunction) -> str:
    return f"DESCRIBE FUNCTION {name(node.name)}"


@sql.register
def _(node: Define) -> str:
    return f"DEFINE {name(node.name)} = {quoted(node.value)}"


@sql.register
def _(node: Undefine) -> str:
    return f"UNDEFINE {name(node.name)}"


@sql.register
def _(node: SetProperty) -> str:
    return f"SET {quoted(node.name)} = {quoted(node.value)}"


@sql.register
def _(node: UnsetProperty) -> str:
    return f"UNSET {quoted(node.name)}"


@sql.register
def _(node: RunScript) -> str:
    return f"RUN SCRIPT {quoted(node.path)}"


def _timeout(timeout: Duration | None) -> str:
    return "" if timeout is None else f"TIMEOUT {timeout}"


@sql.register
def _(node: AssertTopic) -> str:
    return _words(
        "ASSERT",
        _flag(not node.exists, "NOT EXISTS"),
        f"TOPIC {quoted(node.topic)}",
        _properties(node.properties),
        _timeout(node.timeout),
    )


@sql.register
def _(node: AssertSchema) -> str:
    return _words(
        "ASSERT",
        _flag(not node.exists, "NOT EXISTS"),
        "SCHEMA",
        "" if node.subject is None else f"SUBJECT {quoted(node.subject)}",
        "" if node.schema_id is None else f"ID {node.schema_id}",
        _timeout(node.timeout),
    )
