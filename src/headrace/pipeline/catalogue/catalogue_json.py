"""Sources, queries and types as JSON, for the statement log.

Invariant: `read(write(value)) == value` for every value of the catalogue. Fields that are
missing from records of older versions get their defaults.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from headrace.pipeline.catalogue.catalogue import (
    Catalogue,
    Column,
    Encoding,
    Format,
    HeaderColumn,
    KeyWindow,
    PersistentQuery,
    QueryKind,
    Source,
    StartPositions,
    TimestampColumn,
)
from headrace.pipeline.statements.queries import WindowKind
from headrace.pipeline.statements.tree import SourceKind
from headrace.pipeline.statements.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    NamedType,
    ScalarType,
    StructField,
    StructType,
)

# Fields of a source that JSON has as they are.
_PLAIN: Final = (
    "partitions",
    "read_only",
    "is_global",
    "statement",
    "replicas",
    "retention_ms",
    "cleanup_policy",
)


def write_type(value: DataType) -> Any:
    if isinstance(value, ScalarType):
        return value.value
    if isinstance(value, DecimalType):
        return {"decimal": [value.precision, value.scale]}
    if isinstance(value, ArrayType):
        return {"array": write_type(value.element)}
    if isinstance(value, MapType):
        return {"map": [write_type(value.key), write_type(value.value)]}
    if isinstance(value, StructType):
        return {"struct": [[field.name, write_type(field.type)] for field in value.fields]}
    return {"named": value.name}


def read_type(content: Any) -> DataType:
    if isinstance(content, str):
        return ScalarType(content)
    ((kind, inner),) = content.items()
    if kind == "decimal":
        return DecimalType(*inner)
    if kind == "array":
        return ArrayType(read_type(inner))
    if kind == "map":
        return MapType(read_type(inner[0]), read_type(inner[1]))
    if kind == "struct":
        return StructType(tuple(StructField(name, read_type(field)) for name, field in inner))
    return NamedType(inner)


def _write_columns(columns: tuple[Column, ...]) -> list[Any]:
    return [[column.name, write_type(column.type)] for column in columns]


def _read_columns(content: list[Any]) -> tuple[Column, ...]:
    return tuple(Column(name=name, type=read_type(kind)) for name, kind in content)


def _write_encoding(encoding: Encoding) -> dict[str, Any]:
    return {**dataclasses.asdict(encoding), "format": encoding.format.value}


def _read_encoding(content: dict[str, Any]) -> Encoding:
    return Encoding(**{**content, "format": Format(content["format"])})


def write_source(source: Source) -> dict[str, Any]:
    return {
        "name": source.name,
        "kind": source.kind.value,
        "topic": source.topic,
        "key": _write_columns(source.key),
        "value": _write_columns(source.value),
        "key_encoding": _write_encoding(source.key_encoding),
        "value_encoding": _write_encoding(source.value_encoding),
        "headers": [[column.name, write_type(column.type), column.header] for column in source.headers],
        "timestamp": [source.timestamp.name, source.timestamp.format] if source.timestamp else None,
        "window": [source.window.kind.value, source.window.size_ms] if source.window else None,
        **{name: getattr(source, name) for name in _PLAIN},
    }


def read_source(content: dict[str, Any]) -> Source:
    timestamp, window = content.get("timestamp"), content.get("window")
    return Source(
        name=content["name"],
        kind=SourceKind(content["kind"]),
        topic=content["topic"],
        key=_read_columns(content["key"]),
        value=_read_columns(content["value"]),
        key_encoding=_read_encoding(content["key_encoding"]),
        value_encoding=_read_encoding(content["value_encoding"]),
        headers=tuple(
            HeaderColumn(name=name, type=read_type(kind), header=header)
            for name, kind, header in content.get("headers", ())
        ),
        timestamp=TimestampColumn(name=timestamp[0], format=timestamp[1]) if timestamp else None,
        window=KeyWindow(kind=WindowKind(window[0]), size_ms=window[1]) if window else None,
        **{name: content[name] for name in _PLAIN if name in content},
    )


def write_query(query: PersistentQuery) -> dict[str, Any]:
    return {
        "id": query.id,
        "kind": query.kind.value,
        "sink": query.sink,
        "sources": list(query.sources),
        "statement": query.statement,
        "paused": query.paused,
        "properties": [list(entry) for entry in query.properties],
        "found_sources": [write_source(source) for source in query.found_sources],
        "found_types": [[name, write_type(kind)] for name, kind in query.found_types],
        "start": None if query.start is None else dataclasses.asdict(query.start),
    }


def read_query(content: dict[str, Any]) -> PersistentQuery:
    return PersistentQuery(
        id=content["id"],
        kind=QueryKind(content["kind"]),
        sink=content["sink"],
        sources=tuple(content["sources"]),
        statement=content["statement"],
        paused=content.get("paused", False),
        properties=tuple((name, value) for name, value in content.get("properties", ())),
        found_sources=tuple(read_source(source) for source in content.get("found_sources", ())),
        found_types=tuple((name, read_type(kind)) for name, kind in content.get("found_types", ())),
        start=_read_start(content.get("start")),
    )


def _read_start(content: dict[str, Any] | None) -> StartPositions | None:
    if content is None:
        return None
    return StartPositions(
        sources=_read_offsets(content["sources"]),
        sinks=_read_offsets(content["sinks"]),
        statement=content.get("statement", ""),
    )


def _read_offsets(content: dict[str, dict[str, int]]) -> dict[str, dict[int, int]]:
    # JSON has no whole numbers as keys.
    return {topic: {int(number): offset for number, offset in of.items()} for topic, of in content.items()}


def write_catalogue(catalogue: Catalogue) -> dict[str, Any]:
    return {
        "sources": [write_source(source) for source in catalogue.sources.values()],
        "queries": [write_query(query) for query in catalogue.queries.values()],
        "types": [[name, write_type(kind)] for name, kind in catalogue.types.items()],
    }


def read_catalogue(content: dict[str, Any]) -> Catalogue:
    sources = [read_source(entry) for entry in content["sources"]]
    queries = [read_query(entry) for entry in content["queries"]]
    return Catalogue(
        sources={source.name: source for source in sources},
        queries={query.id: query for query in queries},
        types={name: read_type(kind) for name, kind in content["types"]},
    )
