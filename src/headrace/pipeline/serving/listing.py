"""SHOW, DESCRIBE and EXPLAIN, in ksqlDB's formats. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.client.cluster import Cluster
from headrace.pipeline.catalogue.catalogue import Catalogue, PersistentQuery, Source
from headrace.pipeline.expressions.functions.function import Function, Signature
from headrace.pipeline.expressions.functions.table import ALL as FUNCTIONS
from headrace.pipeline.rules.planning import plan_query
from headrace.pipeline.serving.entities import (
    Entity,
    entity,
    push_query,
    query_description,
    running_query,
    schema_info,
    source_description,
    source_info,
)
from headrace.pipeline.serving.explaining import Explaining
from headrace.pipeline.serving.session import Session, is_prohibited
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.parser import parse
from headrace.pipeline.statements.suggestions import did_you_mean
from headrace.pipeline.statements.tree import (
    CreateAs,
    CreateSource,
    Describe,
    DescribeFunction,
    Explain,
    InsertSelect,
    Query,
    Show,
    Shown,
    SourceKind,
)

RUNNING: Final = "RUNNING"
PAUSED: Final = "PAUSED"
# Topics of the platform and of Kafka itself.
_INTERNAL_PREFIX: Final = "_"
_SHOWN_DEFAULTS: Final = {
    "auto.offset.reset": "latest",
    "ksql.query.pull.table.scan.enabled": "true",
    "ksql.insert.into.values.enabled": "true",
    # Every derived topic holds each record once (decision 0014).
    "processing.guarantee": "exactly_once_v2",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    cluster: Cluster
    explaining: Explaining
    # Push queries of this gateway, by id.
    pushed: Callable[[], Mapping[str, str]] = dict

    def show(  # noqa: PLR0911 - one for each list
        self, statement: Show, catalogue: Catalogue, session: Session, text: str
    ) -> Entity:
        match statement.what:
            case Shown.STREAMS | Shown.TABLES:
                kind = SourceKind.STREAM if statement.what is Shown.STREAMS else SourceKind.TABLE
                return self._sources(kind, catalogue, text, extended=statement.extended)
            case Shown.TOPICS | Shown.ALL_TOPICS:
                return self._topics(
                    text, every=statement.what is Shown.ALL_TOPICS, extended=statement.extended
                )
            case Shown.QUERIES:
                return self._queries(catalogue, text, extended=statement.extended)
            case Shown.FUNCTIONS:
                functions = [
                    {"name": function.name, "type": function.kind.name, "category": ""}
                    for function in FUNCTIONS.values()
                ]
                return entity("function_names", text, functions=functions)
            case Shown.PROPERTIES:
                return _properties(session, text)
            case Shown.TYPES:
                types = {name: schema_info(kind) for name, kind in sorted(catalogue.types.items())}
                return entity("type_list", text, types=types)
            case Shown.VARIABLES:
                variables = [
                    {"name": name, "value": value} for name, value in sorted(session.variables.items())
                ]
                return entity("variables", text, variables=variables)
            case Shown.CONNECTORS:
                return entity("connector_list", text, connectors=[])
            case Shown.ROLLUPS:
                raise AssertionError("answered by `rollups.py`")
            case Shown.CONNECTOR_PLUGINS:
                return entity("connector_plugins_list", text, connectorsPlugins=[])

    def _sources(self, kind: SourceKind, catalogue: Catalogue, text: str, *, extended: bool) -> Entity:
        found = sorted(
            (source for source in catalogue.sources.values() if source.kind is kind),
            key=lambda source: source.name,
        )
        if extended:
            described = [self._described(source, catalogue, extended=True) for source in found]
            return entity("source_descriptions", text, sourceDescriptions=described)
        listed = [source_info(source) for source in found]
        if kind is SourceKind.STREAM:
            return entity("streams", text, streams=listed)
        return entity("tables", text, tables=listed)

    def _topics(self, text: str, *, every: bool, extended: bool) -> Entity:
        listed: list[dict[str, Any]] = []
        for topic in self.cluster.topics().values():
            if every or not topic.name.startswith(_INTERNAL_PREFIX):
                counts = {"consumerCount": 0, "consumerGroupCount": 0} if extended else {}
                listed.append({"name": topic.name, "replicaInfo": list(topic.replicas), **counts})
        return entity("kafka_topics_extended" if extended else "kafka_topics", text, topics=listed)

    def _queries(self, catalogue: Catalogue, text: str, *, extended: bool) -> Entity:
        states = self._states(catalogue)
        queries = list(catalogue.queries.values())
        if extended:
            described = [self._query(query, catalogue, states[query.id]) for query in queries]
            return entity("query_descriptions", text, queryDescriptions=described)
        listed = [running_query(query, catalogue, states[query.id]) for query in queries]
        listed += [push_query(query_id, statement) for query_id, statement in self.pushed().items()]
        return entity("queries", text, queries=listed)

    def _states(self, catalogue: Catalogue) -> dict[str, str]:
        told = self.explaining.states()
        return {
            query.id: PAUSED if query.paused else told.get(query.id, RUNNING)
            for query in catalogue.queries.values()
        }

    def _described(self, source: Source, catalogue: Catalogue, *, extended: bool) -> dict[str, Any]:
        topic = self.cluster.topic(source.topic) if extended else None
        replicas = topic.replicas[0] if topic is not None and topic.replicas else 0
        return source_description(
            source, catalogue, self._states(catalogue), extended=extended, replicas=replicas
        )

    def describe(self, statement: Describe, catalogue: Catalogue, text: str) -> Entity:
        if statement.name is None:
            kind = statement.all_of or SourceKind.STREAM
            described = [
                self._described(source, catalogue, extended=statement.extended)
                for source in sorted(catalogue.sources.values(), key=lambda source: source.name)
                if source.kind is kind
            ]
            return entity("source_descriptions", text, sourceDescriptions=described)
        source = catalogue.sources.get(statement.name)
        if source is None:
            raise StatementError(
                f"Could not find STREAM/TABLE '{statement.name}' in the Metastore. "
                f"{did_you_mean(statement.name, catalogue.sources)}".strip(),
                statement.at,
            )
        described_source = self._described(source, catalogue, extended=statement.extended)
        return entity("sourceDescription", text, sourceDescription=described_source)

    def describe_function(self, statement: DescribeFunction, text: str) -> Entity:
        function = FUNCTIONS.get(statement.name.upper())
        if function is None:
            raise StatementError(
                f"Can't find any functions with the name '{statement.name}'. "
                f"{did_you_mean(statement.name.upper(), FUNCTIONS)}".strip(),
                statement.at,
            )
        return entity(
            "describe_function",
            text,
            name=function.name,
            description=function.description,
            author="",
            version="",
            path="internal",
            functions=[_signature(function, signature) for signature in function.signatures],
            type=function.kind.name,
        )

    def explain(self, statement: Explain, catalogue: Catalogue, text: str) -> Entity:
        if statement.query_id is not None:
            query = catalogue.queries.get(statement.query_id)
            if query is None and statement.query_id in self.pushed():
                return self._explain_pushed(statement.query_id, catalogue, text)
            if query is None:
                raise StatementError(
                    f"Query with id:{statement.query_id} does not exist, use SHOW QUERIES to view the full "
                    f"set of queries. {did_you_mean(statement.query_id, catalogue.queries)}".strip(),
                    statement.at,
                )
            described = self._query(query, catalogue, self._states(catalogue)[query.id])
            return entity("queryDescription", text, queryDescription=described)
        explained = statement.statement
        if isinstance(explained, CreateSource) or not isinstance(explained, (CreateAs, InsertSelect, Query)):
            raise StatementError(
                "The provided statement does not run a ksql query",
                statement.at,
                remedy="EXPLAIN takes a query, CREATE … AS SELECT, INSERT INTO … SELECT, or a query id.",
            )
        plan = plan_query(explained, catalogue, text=text)
        described = query_description(
            None,
            text,
            sink=plan.sink,
            sources=tuple(dict.fromkeys(plan.sources)),
            explained=self.explaining.of_statement(plan),
            state="",
        )
        return entity("queryDescription", text, queryDescription=described)

    def _explain_pushed(self, query_id: str, catalogue: Catalogue, text: str) -> Entity:
        pushed = self.pushed()[query_id]
        (parsed,) = parse(pushed)
        assert isinstance(parsed.statement, Query)
        plan = plan_query(parsed.statement, catalogue, text=pushed)
        described = query_description(
            None,
            pushed,
            sink=plan.sink,
            sources=tuple(dict.fromkeys(plan.sources)),
            explained=self.explaining.of_pushed(plan),
            state=RUNNING,
        )
        return entity("queryDescription", text, queryDescription={**described, "id": query_id})

    def _query(self, query: PersistentQuery, catalogue: Catalogue, state: str) -> dict[str, Any]:
        return query_description(
            query,
            query.statement,
            sink=catalogue.sources.get(query.sink),
            sources=query.sources,
            explained=self.explaining.of_query(query, catalogue),
            state=state,
        )


def _signature(function: Function, signature: Signature) -> dict[str, Any]:
    arguments = [
        {
            "name": parameter.name,
            "type": parameter.type_text,
            "description": "",
            "isVariadic": parameter.is_variadic,
        }
        for parameter in signature.parameters
    ]
    return {
        "arguments": arguments,
        "returnType": signature.return_text,
        "description": function.description,
    }


def _properties(session: Session, text: str) -> Entity:
    values = {**_SHOWN_DEFAULTS, **session.properties}
    listed = [
        {
            "name": name,
            "scope": "KSQL",
            "value": value,
            "editable": not is_prohibited(name),
            "level": "QUERY",
        }
        for name, value in sorted(values.items())
    ]
    return entity(
        "properties",
        text,
        properties=listed,
        overwrittenProperties=sorted(session.properties),
        defaultProperties=sorted(set(_SHOWN_DEFAULTS) - set(session.properties)),
    )
