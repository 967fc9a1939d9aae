"""The shell's output: answers of ksqlDB's REST API as tables and sentences, rows as they arrive.

Plain text without colours: it may go to a file. Unknown entities are printed as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

_NARROWEST: Final = 8
_WIDEST: Final = 60


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A table with columns as wide as their content."""
    texts = [[cell(value) for value in row] for row in rows]
    widths = [
        max([len(heading), *(len(row[number]) for row in texts)]) for number, heading in enumerate(headings)
    ]

    def line(cells: Sequence[str]) -> str:
        return " " + " | ".join(text.ljust(width) for text, width in zip(cells, widths, strict=True)).rstrip()

    rule = "-" * (sum(widths) + 3 * len(widths) - 1)
    return [line(headings), rule, *(line(row) for row in texts), rule]


def cell(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


class RowTable:
    """A table whose rows arrive one by one: columns share the width equally, and long cells are folded."""

    def __init__(self, headings: Sequence[str], width: int) -> None:
        share = (width - 1) // max(1, len(headings)) - 3
        self._width = min(_WIDEST, max(_NARROWEST, share))
        self._rule = "+" + "+".join("-" * (self._width + 2) for _ in headings) + "+"
        self._headings = headings

    def begin(self) -> list[str]:
        return [self._rule, *self.row(self._headings), self._rule]

    def row(self, values: Sequence[object]) -> list[str]:
        folded = [self._folded(cell(value)) for value in values]
        lines = []
        for number in range(max((len(parts) for parts in folded), default=0)):
            parts = [part[number] if number < len(part) else "" for part in folded]
            lines.append("|" + "|".join(f" {part.ljust(self._width)} " for part in parts) + "|")
        return lines

    def end(self) -> list[str]:
        return [self._rule]

    def _folded(self, text: str) -> list[str]:
        flat = text.replace("\n", "\\n")
        return [flat[start : start + self._width] for start in range(0, len(flat), self._width)] or [""]


Entity = dict[str, Any]


def _sources(kind: str, title: str) -> Callable[[Entity], list[str]]:
    def show(entity: Entity) -> list[str]:
        rows = [
            (
                source["name"],
                source["topic"],
                source.get("keyFormat"),
                source.get("valueFormat"),
                source.get("isWindowed"),
            )
            for source in entity[kind]
        ]
        return table((title, "Kafka Topic", "Key Format", "Value Format", "Windowed"), rows)

    return show


def _queries(entity: Entity) -> list[str]:
    rows = [
        (query["id"], query["queryType"], query["state"], ", ".join(query["sinks"]), query["queryString"])
        for query in entity["queries"]
    ]
    return table(("Query ID", "Query Type", "Status", "Sink Name", "Query String"), rows)


def _topics(entity: Entity) -> list[str]:
    rows = [
        (topic["name"], len(topic["replicaInfo"]), next(iter(topic["replicaInfo"]), 0))
        for topic in entity["topics"]
    ]
    return table(("Kafka Topic", "Partitions", "Partition Replicas"), rows)


def _rollups(entity: Entity) -> list[str]:
    rows = [
        (each["name"], each["table"], each["state"], each["version"], each["groups"], each["message"])
        for each in entity["rollups"]
    ]
    return table(("Rollup", "Table", "State", "Version", "Groups", "Message"), rows)


def schema(info: dict[str, Any]) -> str:
    """A type, as a person would write it."""
    kind = info["type"]
    if kind == "STRING":
        return "VARCHAR"
    if kind == "ARRAY":
        return f"ARRAY<{schema(info['memberSchema'])}>"
    if kind == "MAP":
        return f"MAP<VARCHAR, {schema(info['memberSchema'])}>"
    if kind == "STRUCT":
        return (
            "STRUCT<"
            + ", ".join(f"{field['name']} {schema(field['schema'])}" for field in info["fields"])
            + ">"
        )
    if info.get("parameters"):
        return f"{kind}({info['parameters']['precision']}, {info['parameters']['scale']})"
    return str(kind)


def _description(about: dict[str, Any]) -> list[str]:
    marks = {"KEY": "(primary key)" if about["type"] == "TABLE" else "(key)", "HEADER": "(header)"}
    rows = [
        (field["name"], f"{schema(field['schema'])} {marks.get(field.get('type', ''), '')}".strip())
        for field in about["fields"]
    ]
    lines = [f"Name                 : {about['name']}"]
    if about["extended"]:
        lines += [
            f"Type                 : {about['type']}",
            f"Timestamp field      : {about['timestamp'] or 'Not set - using <ROWTIME>'}",
            f"Key format           : {about['keyFormat']}",
            f"Value format         : {about['valueFormat']}",
            f"Kafka topic          : {about['topic']} (partitions: {about['partitions']}, "
            f"replication: {about['replication']})",
            f"Statement            : {about['statement']}",
        ]
    lines += table(("Field", "Type"), rows)
    for title, field in (("read from", "readQueries"), ("write to", "writeQueries")):
        lines += [
            f"Queries that {title} this {about['type']}: {query['id']} ({query['state']})"
            for query in about[field]
        ]
    return lines


def _explained(about: dict[str, Any]) -> list[str]:
    named = [f"ID                   : {about['id']}", f"Status               : {about['state']}"]
    return [
        *(named if about["id"] else []),
        f"SQL                  : {about['statementText']}",
        f"Sources              : {', '.join(about['sources'])}",
        *([f"Sinks                : {', '.join(about['sinks'])}"] if about["sinks"] else []),
        "",
        *about["executionPlan"].splitlines(),
        "",
        *about["topology"].splitlines(),
    ]


def _function(entity: Entity) -> list[str]:
    lines = [f"Name        : {entity['name']}", f"Type        : {entity['type']}", f"{entity['description']}"]
    for form in entity["functions"]:
        given = ", ".join(
            f"{argument['name']} {argument['type']}{'...' if argument['isVariadic'] else ''}"
            for argument in form["arguments"]
        )
        lines.append(f"  {entity['name']}({given}) -> {form['returnType']}")
    return lines


def _each(field: str, show: Callable[[Any], list[str]]) -> Callable[[Entity], list[str]]:
    return lambda entity: [line for about in entity[field] for line in (*show(about), "")]


_SHAPES: Final[dict[str, Callable[[Entity], list[str]]]] = {
    "currentStatus": lambda entity: [entity["commandStatus"]["message"]],
    "warning_entity": lambda entity: [entity["message"]],
    "streams": _sources("streams", "Stream Name"),
    "tables": _sources("tables", "Table Name"),
    "queries": _queries,
    "rollups": _rollups,
    "kafka_topics": _topics,
    "kafka_topics_extended": _topics,
    "sourceDescription": lambda entity: _description(entity["sourceDescription"]),
    "source_descriptions": _each("sourceDescriptions", _description),
    "queryDescription": lambda entity: _explained(entity["queryDescription"]),
    "query_descriptions": _each("queryDescriptions", _explained),
    "describe_function": _function,
    "function_names": lambda entity: table(
        ("Function Name", "Type"), [(found["name"], found["type"]) for found in entity["functions"]]
    ),
    "type_list": lambda entity: table(
        ("Type Name", "Schema"), [(name, schema(info)) for name, info in entity["types"].items()]
    ),
    "variables": lambda entity: table(
        ("Variable", "Value"), [(found["name"], found["value"]) for found in entity["variables"]]
    ),
    "properties": lambda entity: table(
        ("Property", "Value"), [(found["name"], found["value"]) for found in entity["properties"]]
    ),
    "assert_topic": lambda entity: [
        f"Topic {entity['topicName']} {'exists' if entity['exists'] else 'does not exist'}."
    ],
    "assert_schema": lambda entity: [f"The schema {'exists' if entity['exists'] else 'does not exist'}."],
}


def entity_lines(entity: Entity) -> list[str]:
    """An answer of `/ksql`."""
    show = _SHAPES.get(entity.get("@type", ""))
    lines = show(entity) if show is not None else [json.dumps(entity, indent=2, ensure_ascii=False)]
    return lines + [f"WARNING: {warning['message']}" for warning in entity.get("warnings", ())]
