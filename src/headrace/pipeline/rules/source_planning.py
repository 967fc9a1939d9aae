"""CREATE STREAM and CREATE TABLE on a topic: statement to source."""

from __future__ import annotations

from typing import Final

from headrace.pipeline.catalogue.catalogue import Catalogue, Column, Format, HeaderColumn, Source
from headrace.pipeline.expressions.named_types import resolved
from headrace.pipeline.expressions.scope import SYSTEM_COLUMNS
from headrace.pipeline.rules.formats import check_columns
from headrace.pipeline.rules.key_types import check_key_type
from headrace.pipeline.rules.properties import SOURCE, Properties
from headrace.pipeline.rules.similar_names import check_names
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.expression_printing import name as written
from headrace.pipeline.statements.tree import ColumnConstraint, ColumnDefinition, CreateSource, SourceKind
from headrace.pipeline.statements.types import BYTES, VARCHAR, ArrayType, StructField, StructType

_ALL_HEADERS: Final = ArrayType(StructType((StructField("KEY", VARCHAR), StructField("VALUE", BYTES))))


def wants_inferred_columns(statement: CreateSource) -> bool:
    """Whether the registry provides the value columns: none are named, and the format has schemas there."""
    properties = Properties.of(statement.properties, SOURCE, statement.at)
    named = any(column.constraint is ColumnConstraint.NONE for column in statement.columns)
    return not named and properties.format("value") is Format.AVRO


def plan_source(
    statement: CreateSource,
    catalogue: Catalogue,
    *,
    text: str = "",
    inferred: tuple[Column, ...] = (),
    inferred_key: tuple[Column, ...] = (),
    partitions: int | None = None,
) -> Source:
    """`partitions` are those of the topic, if it exists; `inferred` are the columns from the registry.

    Raises StatementError.
    """
    check_name(catalogue, statement.kind, statement)
    properties = Properties.of(statement.properties, SOURCE, statement.at)
    topic = properties.filled("KAFKA_TOPIC")
    if topic is None:
        raise StatementError(
            f"{written(statement.name)} needs a topic.",
            statement.at,
            remedy="Name it: WITH (KAFKA_TOPIC='…').",
        )
    value_format = properties.format("value")
    if value_format is None:
        raise StatementError(
            f"{written(statement.name)} needs VALUE_FORMAT.",
            statement.at,
            remedy="For example: WITH (VALUE_FORMAT='JSON').",
        )
    key = _key(statement, catalogue) or inferred_key
    value = _columns(statement, catalogue, ColumnConstraint.NONE) or inferred
    headers = _headers(statement, catalogue)
    key_encoding = properties.encoding("key", properties.format("key") or Format.KAFKA, None, len(key))
    value_encoding = properties.encoding("value", value_format, None, len(value))
    _check_columns(statement, key, value)
    check_names((*key, *value, *headers), statement.at)
    check_columns(key_encoding, key, "key", properties.where_format("key"))
    check_columns(value_encoding, value, "value", properties.where_format("value"))
    window = properties.window()
    if window is not None and not key:
        raise StatementError("A windowed source needs a key column.", properties.where("WINDOW_TYPE"))
    return Source(
        name=statement.name,
        kind=statement.kind,
        topic=topic,
        key=key,
        value=value,
        key_encoding=key_encoding,
        value_encoding=value_encoding,
        headers=headers,
        timestamp=properties.timestamp((*value, *key)),
        window=window,
        partitions=_partitions(properties, partitions),
        read_only=statement.is_source,
        is_global=_is_global(statement.kind, properties),
        statement=text,
        replicas=properties.whole("REPLICAS"),
        retention_ms=properties.retention(is_compacted=statement.kind is SourceKind.TABLE),
    )


def check_name(catalogue: Catalogue, kind: SourceKind, statement: CreateSource) -> None:
    there = catalogue.sources.get(statement.name)
    if statement.or_replace and (statement.is_source or (there is not None and there.read_only)):
        raise StatementError(
            f"{written(statement.name)} is read-only, so CREATE SOURCE cannot have OR REPLACE.", statement.at
        )
    if there is None or statement.if_not_exists:
        return
    if not statement.or_replace or there.kind is not kind:
        remedy = "Drop it first." if there.kind is not kind else "Use CREATE OR REPLACE to change it."
        raise StatementError(
            f"A {there.kind.value.lower()} {written(statement.name)} already exists.",
            statement.at,
            remedy=remedy,
        )


def _is_global(kind: SourceKind, properties: Properties) -> bool:
    is_global = properties.flag("GLOBAL") or False
    if is_global and kind is SourceKind.STREAM:
        raise StatementError("GLOBAL is only for tables.", properties.where("GLOBAL"))
    return is_global


def _partitions(properties: Properties, there: int | None) -> int:
    wanted = properties.whole("PARTITIONS")
    if there is not None and wanted is not None and wanted != there:
        raise StatementError(
            f"The topic has {there} partitions, not {wanted}.",
            properties.where("PARTITIONS"),
            remedy="Leave PARTITIONS out.",
        )
    return there or wanted or 1


# Columns.


def _key(statement: CreateSource, catalogue: Catalogue) -> tuple[Column, ...]:
    wanted, other = ColumnConstraint.KEY, ColumnConstraint.PRIMARY_KEY
    if statement.kind is SourceKind.TABLE:
        wanted, other = other, wanted
    for column in statement.columns:
        if column.constraint is other:
            raise StatementError(
                f"{written(column.name)} is {other.value}, and a {statement.kind.value.lower()} has "
                f"{wanted.value} columns.",
                column.at,
                remedy=f"Say {wanted.value}.",
            )
        if column.constraint is wanted:
            data_type = resolved(column.type, catalogue.types, column.at)
            check_key_type(written(column.name), data_type, column.at)
    return _columns(statement, catalogue, wanted)


def _columns(
    statement: CreateSource, catalogue: Catalogue, constraint: ColumnConstraint
) -> tuple[Column, ...]:
    return tuple(
        Column(name=column.name, type=resolved(column.type, catalogue.types, column.at))
        for column in statement.columns
        if column.constraint is constraint
    )


def _headers(statement: CreateSource, catalogue: Catalogue) -> tuple[HeaderColumn, ...]:
    found = []
    for column in statement.columns:
        if column.constraint is ColumnConstraint.HEADERS:
            _check_header(column, catalogue)
            data_type = resolved(column.type, catalogue.types, column.at)
            found.append(HeaderColumn(name=column.name, type=data_type, header=column.header))
    if sum(column.header is None for column in found) > 1:
        raise StatementError("Only one column can be HEADERS.", statement.at)
    return tuple(found)


def _check_header(column: ColumnDefinition, catalogue: Catalogue) -> None:
    own = resolved(column.type, catalogue.types, column.at)
    wanted = _ALL_HEADERS if column.header is None else BYTES
    if own != wanted:
        what = "HEADERS" if column.header is None else f"HEADER('{column.header}')"
        raise StatementError(f"{written(column.name)} is {own}, and {what} gives {wanted}.", column.at)


def _check_columns(statement: CreateSource, key: tuple[Column, ...], value: tuple[Column, ...]) -> None:
    for column in statement.columns:
        if column.name.upper() in SYSTEM_COLUMNS:
            raise StatementError(f"{column.name} is a reserved name, which columns cannot have.", column.at)
    if statement.kind is SourceKind.TABLE and not key:
        raise StatementError(
            f"The table {written(statement.name)} needs a primary key.",
            statement.at,
            remedy="For example: (ID INT PRIMARY KEY, …). Other columns may come from the registry.",
        )
    if not key and not value and not statement.columns:
        raise StatementError(
            f"{written(statement.name)} has no columns.",
            statement.at,
            remedy="Name them; with VALUE_FORMAT='AVRO' they may come from the registry.",
        )
    names = {column.name for column in key}
    for doubled in (column.name for column in value if column.name in names):
        raise StatementError(f"There are two columns named {written(doubled)}.", statement.at)
