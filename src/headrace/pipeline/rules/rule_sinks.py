"""The sink of a query: a new stream or table, an existing one, or the client."""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.catalogue.catalogue import Column, Encoding, Format, KeyWindow, Source
from headrace.pipeline.expressions.casts import cast
from headrace.pipeline.expressions.coercion import can_widen
from headrace.pipeline.plan import Named, Project
from headrace.pipeline.rules.draft import Draft
from headrace.pipeline.rules.formats import check_columns
from headrace.pipeline.rules.properties import INSERT, SINK, Properties
from headrace.pipeline.rules.rule_sources import known_source
from headrace.pipeline.rules.similar_names import check_names
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.expression_printing import name as written
from headrace.pipeline.statements.expression_printing import type_text
from headrace.pipeline.statements.expressions import NullLiteral
from headrace.pipeline.statements.queries import WindowKind
from headrace.pipeline.statements.tree import CreateAs, InsertSelect, SourceKind


def find_sink(draft: Draft) -> Draft:
    match draft.statement:
        case CreateAs() as statement:
            return replace(draft, sink=_new(draft, statement))
        case InsertSelect() as statement:
            return _existing(draft, statement)
        case _:
            return replace(draft, sink=_asked_for(draft))


def _project(draft: Draft) -> Project:
    assert isinstance(draft.step, Project)
    return draft.step


def _columns(named: tuple[Named, ...]) -> tuple[Column, ...]:
    return tuple(Column(name=each.name, type=each.value.type) for each in named)


def _window(draft: Draft) -> KeyWindow | None:
    """The window of GROUP BY; without GROUP BY that of the source, whose keys are kept."""
    window = draft.select.window
    if window is None:
        return draft.reads[0].source.window if draft.keys and not draft.select.group_by else None
    size = None if window.kind is WindowKind.SESSION else window.size.milliseconds
    return KeyWindow(kind=window.kind, size_ms=size)


def _asked_for(draft: Draft) -> Source:
    project = _project(draft)
    check_names(_columns(project.values), draft.select.at)
    return Source(
        name="",
        kind=draft.kind,
        topic="",
        key=(),
        value=_columns(project.values),
        key_encoding=Encoding(format=Format.NONE),
        value_encoding=Encoding(format=Format.JSON),
        window=None,
        partitions=1,
        statement=draft.text,
    )


def _new(draft: Draft, statement: CreateAs) -> Source:
    _check_kind(draft, statement)
    _check_name(draft, statement)
    properties = Properties.of(statement.properties, SINK, statement.at)
    project = _project(draft)
    key, value = _columns(project.keys), _columns(project.values)
    check_names((*key, *value), draft.select.at)
    first = draft.reads[0].source
    key_encoding = _key_encoding(draft, properties, first.key_encoding, len(key))
    value_format = properties.format("value") or first.value_encoding.format
    value_encoding = properties.encoding("value", value_format, first.value_encoding, len(value))
    check_columns(key_encoding, key, "key", properties.where_format("key"))
    check_columns(value_encoding, value, "value", properties.where_format("value"))
    is_global = properties.flag("GLOBAL") or False
    if is_global and draft.kind is SourceKind.STREAM:
        raise StatementError("GLOBAL is only for tables.", properties.where("GLOBAL"))
    return Source(
        name=statement.name,
        kind=statement.kind,
        topic=properties.filled("KAFKA_TOPIC") or statement.name,
        key=key,
        value=value,
        key_encoding=key_encoding,
        value_encoding=value_encoding,
        timestamp=properties.timestamp((*value, *key)),
        window=_window(draft),
        partitions=properties.whole("PARTITIONS") or first.partitions,
        is_global=is_global,
        statement=draft.text,
        replicas=properties.whole("REPLICAS") or first.replicas,
        retention_ms=_retention(draft, properties),
        cleanup_policy="compact,delete" if draft.select.window is not None else None,
    )


def _retention(draft: Draft, properties: Properties) -> int | None:
    window = draft.select.window
    is_compacted = draft.kind is SourceKind.TABLE and window is None
    asked = None if window is None or window.retention is None else window.retention.milliseconds
    return properties.retention(is_compacted=is_compacted, window_ms=asked)


def _key_encoding(draft: Draft, properties: Properties, inherited: Encoding, columns: int) -> Encoding:
    chosen = properties.format("key")
    keys = draft.select.partition_by
    if keys and isinstance(keys[0], NullLiteral):
        if chosen not in (None, Format.NONE):
            raise StatementError(
                "PARTITION BY NULL removes the key, so KEY_FORMAT has no meaning.",
                properties.where("KEY_FORMAT"),
            )
        return Encoding(format=Format.NONE)
    if chosen is None:
        chosen = Format.KAFKA if inherited.format is Format.NONE and columns else inherited.format
    return properties.encoding("key", chosen, inherited, columns)


def _check_kind(draft: Draft, statement: CreateAs) -> None:
    if draft.kind is not statement.kind:
        raise StatementError(
            f"The result of the query is a {draft.kind.value.lower()}, not a {statement.kind.value.lower()}.",
            statement.at,
            remedy=f"Use CREATE {draft.kind.value} {written(statement.name)} AS ….",
        )


def _check_name(draft: Draft, statement: CreateAs) -> None:
    there = draft.catalogue.sources.get(statement.name)
    if there is None or statement.if_not_exists:
        return
    if there.read_only:
        raise StatementError(f"{written(statement.name)} is read-only.", statement.at)
    if not statement.or_replace or there.kind is not statement.kind:
        remedy = (
            "Drop it first." if there.kind is not statement.kind else "Use CREATE OR REPLACE to change it."
        )
        raise StatementError(
            f"A {there.kind.value.lower()} {written(statement.name)} already exists.",
            statement.at,
            remedy=remedy,
        )


# INSERT INTO.


def _existing(draft: Draft, statement: InsertSelect) -> Draft:
    sink = known_source(draft, statement.target, statement.at)
    shown = written(sink.name)
    Properties.of(statement.properties, INSERT, statement.at).query_id()
    if sink.kind is SourceKind.TABLE:
        raise StatementError(
            f"{shown} is a table, but INSERT INTO … SELECT is only for streams.", statement.at
        )
    if sink.read_only:
        raise StatementError(f"{shown} is read-only, so nothing can be inserted.", statement.at)
    if sink.headers:
        raise StatementError(f"{shown} has columns for headers, so nothing can be inserted.", statement.at)
    if draft.kind is SourceKind.TABLE:
        raise StatementError(
            f"The result of the query is a table, but {shown} is a stream.",
            statement.at,
            remedy="Use CREATE TABLE … AS.",
        )
    project = _project(draft)
    if not _fits(project.keys, sink.key) or not _fits(project.values, sink.value):
        raise StatementError(
            f"The columns of the query do not match {shown}: the query has "
            f"{_schema(_columns(project.keys), _columns(project.values))}.",
            statement.at,
            remedy=f"{shown} has {_schema(sink.key, sink.value)}.",
        )
    new = replace(project, keys=_widened(project.keys, sink.key), values=_widened(project.values, sink.value))
    return replace(draft, step=new, sink=sink)


def _fits(named: tuple[Named, ...], columns: tuple[Column, ...]) -> bool:
    """Columns match by name and position; numbers may be narrower than the column."""
    return [each.name for each in named] == [column.name for column in columns] and all(
        can_widen(each.value.type, column.type) for each, column in zip(named, columns, strict=True)
    )


def _widened(named: tuple[Named, ...], columns: tuple[Column, ...]) -> tuple[Named, ...]:
    result = []
    for each, column in zip(named, columns, strict=True):
        spark = cast(each.value.spark, each.value.type, column.type)
        assert spark is not None
        result.append(replace(each, value=replace(each.value, spark=spark, type=column.type)))
    return tuple(result)


def _schema(key: tuple[Column, ...], value: tuple[Column, ...]) -> str:
    columns = [f"{written(column.name)} {type_text(column.type)} KEY" for column in key]
    columns += [f"{written(column.name)} {type_text(column.type)}" for column in value]
    return ", ".join(columns)
