"""Answers in the shapes of ksqlDB's REST API: its `KsqlEntity` classes, as dicts for JSON. No logic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headrace.pipeline.catalogue.catalogue import Catalogue, Column, PersistentQuery, Source
from headrace.pipeline.catalogue.records import Outcome
from headrace.pipeline.statements.tree import SourceKind
from headrace.pipeline.statements.types import (
    VARCHAR,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructType,
)

Entity = dict[str, Any]
SUCCESS: Final = "SUCCESS"


def entity(kind: str, text: str, warnings: Iterable[str] = (), **fields: Any) -> Entity:
    listed = [{"message": warning} for warning in warnings]
    return {"@type": kind, "statementText": text, **fields, "warnings": listed}


def command_status(text: str, outcome: Outcome, warnings: Iterable[str] = ()) -> Entity:
    return entity(
        "currentStatus",
        text,
        warnings,
        commandId=outcome.command,
        commandStatus=status(outcome),
        commandSequenceNumber=outcome.offset,
    )


def status(outcome: Outcome) -> dict[str, Any]:
    return {"status": SUCCESS, "message": outcome.message, "queryId": outcome.query_id}


def warning(text: str, message: str) -> Entity:
    return entity("warning_entity", text, message=message)


def type_text(kind: DataType) -> str:
    """A type as in the header of an answer, where texts are STRING."""
    if kind is VARCHAR:
        return "STRING"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{type_text(kind.element)}>"
    if isinstance(kind, MapType):
        return f"MAP<{type_text(kind.key)}, {type_text(kind.value)}>"
    if isinstance(kind, StructType):
        return "STRUCT<" + ", ".join(f"`{field.name}` {type_text(field.type)}" for field in kind.fields) + ">"
    return str(kind)


def schema_text(columns: Iterable[Column], keys: Iterable[str] = ()) -> str:
    """The schema in the header of an answer."""
    marked = set(keys)
    return ", ".join(
        f"`{column.name}` {type_text(column.type)}{' KEY' if column.name in marked else ''}"
        for column in columns
    )


def schema_info(kind: DataType) -> dict[str, Any]:
    fields: list[dict[str, Any]] | None = None
    member: dict[str, Any] | None = None
    parameters: dict[str, int] | None = None
    name = type_text(kind).partition("<")[0].partition("(")[0]
    if isinstance(kind, StructType):
        fields = [{"name": field.name, "schema": schema_info(field.type)} for field in kind.fields]
    elif isinstance(kind, ArrayType):
        member = schema_info(kind.element)
    elif isinstance(kind, MapType):
        member = schema_info(kind.value)
    elif isinstance(kind, DecimalType):
        parameters = {"precision": kind.precision, "scale": kind.scale}
    info: dict[str, Any] = {"type": name, "fields": fields, "memberSchema": member}
    return {**info, "parameters": parameters} if parameters else info


def field_infos(source: Source) -> list[dict[str, Any]]:
    fields = [
        {"name": column.name, "schema": schema_info(column.type), "type": "KEY"} for column in source.key
    ]
    fields += [{"name": column.name, "schema": schema_info(column.type)} for column in source.value]
    for header in source.headers:
        about = {"type": "HEADER"} | ({"headerKey": header.header} if header.header is not None else {})
        fields.append({"name": header.name, "schema": schema_info(header.type), **about})
    return fields


def source_info(source: Source) -> dict[str, Any]:
    return {
        "type": source.kind.value,
        "name": source.name,
        "topic": source.topic,
        "keyFormat": source.key_encoding.format.value,
        "valueFormat": source.value_encoding.format.value,
        "isWindowed": source.window is not None,
    }


def running_query(query: PersistentQuery, catalogue: Catalogue, state: str) -> dict[str, Any]:
    sink = catalogue.sources.get(query.sink)
    return {
        "queryString": query.statement,
        "sinks": [query.sink],
        "sinkKafkaTopics": [sink.topic] if sink is not None else [],
        "id": query.id,
        "statusCount": {state: 1},
        "queryType": "PERSISTENT",
        "state": f"{state}:1",
    }


def push_query(query_id: str, text: str) -> dict[str, Any]:
    return {
        "queryString": text,
        "sinks": [],
        "sinkKafkaTopics": [],
        "id": query_id,
        "statusCount": {"RUNNING": 1},
        "queryType": "PUSH",
        "state": "RUNNING:1",
    }


def source_description(
    source: Source, catalogue: Catalogue, states: Mapping[str, str], *, extended: bool, replicas: int
) -> dict[str, Any]:
    def listed(queries: Iterable[PersistentQuery]) -> list[dict[str, Any]]:
        return [running_query(query, catalogue, states[query.id]) for query in queries]

    return {
        "name": source.name,
        "windowType": source.window.kind.value if source.window is not None else None,
        "readQueries": listed(catalogue.readers_of(source.name)),
        "writeQueries": listed(catalogue.writers_of(source.name)),
        "fields": field_infos(source),
        "type": source.kind.value,
        "timestamp": source.timestamp.name if source.timestamp is not None else "",
        "statistics": "",
        "errorStats": "",
        "extended": extended,
        "keyFormat": source.key_encoding.format.value,
        "valueFormat": source.value_encoding.format.value,
        "topic": source.topic,
        "partitions": source.partitions if extended else 0,
        "replication": replicas if extended else 0,
        "statement": source.statement,
        "queryOffsetSummaries": [],
        "sourceConstraints": [],
    }


def query_description(
    query: PersistentQuery | None,
    text: str,
    *,
    sink: Source | None,
    sources: Iterable[str],
    explained: tuple[str, str],
    state: str,
) -> dict[str, Any]:
    """`explained` is our plan, and Spark's plan in place of ksqlDB's Kafka Streams topology."""
    plan, topology = explained
    return {
        "id": query.id if query is not None else "",
        "statementText": text,
        "windowType": sink.window.kind.value if sink is not None and sink.window is not None else None,
        "fields": field_infos(sink) if sink is not None else [],
        "sources": list(sources),
        "sinks": [query.sink] if query is not None else [],
        "topology": topology,
        "executionPlan": plan,
        "overriddenProperties": dict(query.properties) if query is not None else {},
        "ksqlHostQueryStatus": {},
        "queryType": "PERSISTENT" if query is not None else "PUSH",
        "queryErrors": [],
        "tasksMetadata": [],
        "state": state,
    }


def kind_word(kind: SourceKind) -> str:
    return kind.value.capitalize()
