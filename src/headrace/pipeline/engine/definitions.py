"""Statements that change the catalogue: what each is to change, and what has to be there before.

`definition(statement, …)` gives two functions: `decide`, pure, from the catalogue as it is to what the
statement changes in it, which may be called again when another statement came first; and `prepare`, which
makes topics and is idempotent. Errors have ksqlDB's words. Never writes to the statement log itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.pipeline.catalogue import Catalogue, Column, PersistentQuery, QueryKind, Source
from headrace.pipeline.engine.cluster import DEFAULT, Cluster, Topic
from headrace.pipeline.engine.entities import kind_word
from headrace.pipeline.engine.planner import Planner
from headrace.pipeline.engine.records import (
    Effect,
    PauseQuery,
    PutQuery,
    PutSource,
    PutType,
    RemoveQuery,
    RemoveSource,
    RemoveType,
)
from headrace.pipeline.engine.replacing import check_replacement
from headrace.pipeline.engine.session import Session
from headrace.pipeline.statement_log import Decision
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.expressions import StringLiteral
from headrace.pipeline.statements.suggestions import did_you_mean
from headrace.pipeline.statements.tree import (
    AlterSource,
    ChangeQuery,
    ColumnConstraint,
    CreateAs,
    CreateSource,
    CreateType,
    Drop,
    DropType,
    InsertSelect,
    Property,
    QueryAction,
    SourceKind,
    Statement,
)

_ALL: Final = "ALL"


class NothingToDoError(Exception):
    """IF NOT EXISTS and IF EXISTS: the statement is right and changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    decide: Callable[[Catalogue], Decision]
    prepare: Callable[[Decision], None] = lambda _: None
    # Filled by `prepare`: what the client should know.
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    planner: Planner
    cluster: Cluster
    # Columns of a source whose statement names none, from the registry.
    infer: Callable[[CreateSource], tuple[Column, ...]]

    def definition(  # noqa: PLR0911 - one for each statement
        self, statement: Statement, text: str, session: Session
    ) -> Definition | None:
        """None for a statement that changes nothing here."""
        match statement:
            case CreateSource():
                return self._create(statement, text)
            case CreateAs():
                return self._create_as(statement, text, session)
            case InsertSelect():
                return self._insert(statement, text, session)
            case Drop():
                return Definition(decide=lambda catalogue: _drop(statement, catalogue, text))
            case ChangeQuery():
                return Definition(decide=lambda catalogue: _change(statement, catalogue, text))
            case AlterSource():
                return Definition(decide=lambda catalogue: self._alter(statement, catalogue, text))
            case CreateType():
                return Definition(decide=lambda catalogue: self._create_type(statement, catalogue, text))
            case DropType():
                return Definition(decide=lambda catalogue: _drop_type(statement, catalogue, text))
            case _:
                return None

    def _create(self, statement: CreateSource, text: str) -> Definition:
        warnings: list[str] = []

        def decide(catalogue: Catalogue) -> Decision:
            existing = _existing(statement, catalogue)
            topic = self._topic_of(statement, warnings)
            source = self.planner.plan_source(
                statement,
                catalogue,
                text=text,
                inferred=self.infer(statement),
                partitions=topic.partitions if topic is not None else None,
            )
            if existing is not None:
                check_replacement(existing, source, statement)
            return Decision(
                text=text,
                command=_command(statement.kind, statement.name, "create"),
                message=f"{kind_word(statement.kind)} created",
                effects=(PutSource(source=source),),
            )

        return Definition(decide=decide, prepare=self._make_sink_topic, warnings=warnings)

    def _topic_of(self, statement: CreateSource, warnings: list[str]) -> Topic | None:
        """The topic, if it is there. One that is not, and of which no size is said, is made first.

        ksqlDB refuses the latter. Here topics come with their first event, and statements may come before.
        """
        name = _text_property(statement.properties, "KAFKA_TOPIC")
        topic = self.cluster.topic(name) if name else None
        sized = any(given.name.upper() == "PARTITIONS" for given in statement.properties)
        if topic is not None or not name or sized:
            return topic
        config = {"cleanup.policy": "compact"} if statement.kind is SourceKind.TABLE else {}
        if self.cluster.create_topic(name, config=config):
            warnings.append(
                f"Topic '{name}' did not exist. It was created with the log's own number of partitions; "
                "PARTITIONS in the WITH clause chooses another."
            )
        return self.cluster.topic(name)

    def _make_sink_topic(self, decision: Decision) -> None:
        effect = decision.effects[0]
        assert isinstance(effect, PutSource)
        source = effect.source
        policy = source.cleanup_policy
        if policy is None and source.kind is SourceKind.TABLE:
            policy = "compact" if source.window is None else "compact,delete"
        config = {"cleanup.policy": policy} if policy is not None else {}
        if source.retention_ms is not None:
            config["retention.ms"] = str(source.retention_ms)
        replicas = source.replicas if source.replicas is not None else DEFAULT
        self.cluster.create_topic(
            source.topic, partitions=source.partitions, replicas=replicas, config=config
        )

    def _create_as(self, statement: CreateAs, text: str, session: Session) -> Definition:
        def decide(catalogue: Catalogue) -> Decision:
            existing = _existing(statement, catalogue)
            plan = self.planner.plan_query(statement, catalogue, text=text)
            sink = dataclasses.replace(plan.sink, statement=text)
            topic = self.cluster.topic(sink.topic)
            if topic is not None:
                sized = any(given.name.upper() == "PARTITIONS" for given in statement.properties)
                if sized and sink.partitions != topic.partitions:
                    raise _other_partitions(sink, topic, statement)
                sink = dataclasses.replace(sink, partitions=topic.partitions)
            kind = QueryKind.CREATE_STREAM if statement.kind is SourceKind.STREAM else QueryKind.CREATE_TABLE
            query = PersistentQuery(
                id=f"{kind.value}_{statement.name}",
                kind=kind,
                sink=sink.name,
                sources=tuple(dict.fromkeys(plan.sources)),
                statement=text,
                properties=_kept(session),
            )
            put = PutQuery(query=query)
            if existing is not None:
                check_replacement(existing, sink, statement)
                put = _replacing_query(query, catalogue, statement)
            return Decision(
                text=text,
                command=_command(statement.kind, statement.name, "create"),
                message="Created query with ID {query}",
                effects=(PutSource(source=sink), put),
            )

        return Definition(decide=decide, prepare=self._make_sink_topic)

    def _insert(self, statement: InsertSelect, text: str, session: Session) -> Definition:
        def decide(catalogue: Catalogue) -> Decision:
            target = _known(statement.target, catalogue, statement)
            if target.read_only:
                raise StatementError(
                    f"Cannot insert into read-only {target.kind.value.lower()}: {target.name}", statement.at
                )
            plan = self.planner.plan_query(statement, catalogue, text=text)
            named = plan.query_id
            query = PersistentQuery(
                id=named or QueryKind.INSERT.value,
                kind=QueryKind.INSERT,
                sink=target.name,
                sources=tuple(dict.fromkeys(plan.sources)),
                statement=text,
                properties=_kept(session),
            )
            if named is not None and named in catalogue.queries:
                raise StatementError(f"Query ID '{named}' already exists.", statement.at)
            return Decision(
                text=text,
                command=_command(SourceKind.STREAM, target.name, "create"),
                message="Created query with ID {query}",
                effects=(PutQuery(query=query, numbered=named is None),),
            )

        return Definition(decide=decide)

    def _alter(self, statement: AlterSource, catalogue: Catalogue, text: str) -> Decision:
        source = _known(statement.name, catalogue, statement, kind=statement.kind, verb="ALTER")
        if any(query.kind is not QueryKind.INSERT for query in catalogue.writers_of(source.name)):
            raise StatementError("ALTER command is not supported for CREATE ... AS statements.", statement.at)
        added = []
        taken = {column.name for column in source.columns}
        for column in statement.added:
            if column.name in taken or column.constraint is not ColumnConstraint.NONE:
                reason = "A column with the same name already exists." if column.name in taken else ""
                raise StatementError(
                    f"Cannot add column {column.name} to schema. {reason or 'Keys cannot be added.'}",
                    column.at,
                )
            taken.add(column.name)
            added.append(
                Column(name=column.name, type=self.planner.resolved(column.type, catalogue, column.at))
            )
        altered = dataclasses.replace(source, value=source.value + tuple(added))
        return Decision(
            text=text,
            command=_command(statement.kind, statement.name, "alter"),
            message=f"{kind_word(statement.kind)} {statement.name} altered.",
            effects=(PutSource(source=altered),),
        )

    def _create_type(self, statement: CreateType, catalogue: Catalogue, text: str) -> Decision:
        if statement.name in catalogue.types:
            known = f"{statement.name} is already registered with type {catalogue.types[statement.name]}"
            if statement.if_not_exists:
                raise NothingToDoError(known)
            raise StatementError(f"Cannot register custom type: {known}.", statement.at)
        kind = self.planner.resolved(statement.type, catalogue, statement.at)
        return Decision(
            text=text,
            command=f"type/{statement.name}/create",
            message=f"Registered custom type with name '{statement.name}' and SQL type {kind}",
            effects=(PutType(name=statement.name, type=kind),),
        )


def _command(kind: SourceKind, name: str, action: str) -> str:
    # ksqlDB quotes the name in the ids of CREATE only.
    return f"{kind.value.lower()}/{f'`{name}`' if action == 'create' else name}/{action}"


def _existing(statement: CreateSource | CreateAs, catalogue: Catalogue) -> Source | None:
    """What is to be replaced; raises if something of that name is in the way."""
    found = catalogue.sources.get(statement.name)
    if found is None or statement.or_replace:
        return found
    message = (
        f"Cannot add {statement.kind.value.lower()} `{statement.name}`: "
        f"A {found.kind.value.lower()} with the same name already exists."
    )
    if statement.if_not_exists:
        raise NothingToDoError(message)
    raise StatementError(message, statement.at)


def _replacing_query(query: PersistentQuery, catalogue: Catalogue, statement: CreateAs) -> PutQuery:
    """A replaced query keeps its id, and with it its place in its sources."""
    former = [known for known in catalogue.writers_of(query.sink) if known.kind is not QueryKind.INSERT]
    if not former:
        raise StatementError(
            f"Cannot replace {query.sink}: no query writes it.",
            statement.at,
            remedy=f"DROP {statement.kind.value} {query.sink} first.",
        )
    return PutQuery(
        query=dataclasses.replace(query, id=former[0].id, paused=former[0].paused), numbered=False
    )


def _known(
    name: str, catalogue: Catalogue, statement: Any, *, kind: SourceKind | None = None, verb: str = ""
) -> Source:
    source = catalogue.sources.get(name)
    if source is None:
        called = kind_word(kind) if kind is not None else "Source"
        hint = did_you_mean(name, catalogue.sources)
        raise StatementError(f"{called} {name} does not exist. {hint}".strip(), statement.at)
    if kind is not None and source.kind is not kind:
        raise StatementError(
            f"Incompatible data source type is {source.kind.value}, but statement was {verb} {kind.value}",
            statement.at,
        )
    return source


def _drop(statement: Drop, catalogue: Catalogue, text: str) -> Decision:
    if statement.if_exists and statement.name not in catalogue.sources:
        raise NothingToDoError(f"Source `{statement.name}` does not exist.")
    source = _known(statement.name, catalogue, statement, kind=statement.kind, verb="DROP")
    own = [query for query in catalogue.writers_of(source.name) if query.kind is not QueryKind.INSERT]
    readers = [query.id for query in catalogue.readers_of(source.name)]
    writers = [query.id for query in catalogue.writers_of(source.name) if query not in own]
    if readers or writers:
        raise StatementError(
            f"Cannot drop {source.name}.\n"
            f"The following queries read from this source: [{', '.join(readers)}].\n"
            f"The following queries write into this source: [{', '.join(writers)}].\n"
            f"You need to terminate them before dropping {source.name}.",
            statement.at,
        )
    if statement.delete_topic and source.read_only:
        raise StatementError(f"Cannot delete topic for read-only source: {source.name}", statement.at)
    effects: tuple[Effect, ...] = (
        *(RemoveQuery(id=query.id) for query in own),
        RemoveSource(name=source.name),
    )
    return Decision(
        text=text,
        command=_command(statement.kind, source.name, "drop"),
        message=f"Source `{source.name}` (topic: {source.topic}) was dropped.",
        effects=effects,
    )


def _change(statement: ChangeQuery, catalogue: Catalogue, text: str) -> Decision:
    if statement.query_id is not None and statement.query_id not in catalogue.queries:
        hint = did_you_mean(statement.query_id, catalogue.queries)
        raise StatementError(f"Unknown queryId: {statement.query_id}. {hint}".strip(), statement.at)
    ids = [statement.query_id] if statement.query_id is not None else list(catalogue.queries)
    effects: tuple[Effect, ...]
    if statement.action is QueryAction.TERMINATE:
        effects = tuple(RemoveQuery(id=query_id) for query_id in ids)
    else:
        paused = statement.action is QueryAction.PAUSE
        effects = tuple(PauseQuery(id=query_id, paused=paused) for query_id in ids)
    done = {
        QueryAction.TERMINATE: "Query terminated.",
        QueryAction.PAUSE: "Query paused.",
        QueryAction.RESUME: "Query resumed.",
    }
    return Decision(
        text=text,
        command=f"{statement.action.value.lower()}/{statement.query_id or _ALL}/execute",
        message=done[statement.action],
        effects=effects,
    )


def _drop_type(statement: DropType, catalogue: Catalogue, text: str) -> Decision:
    if statement.name not in catalogue.types:
        if statement.if_exists:
            raise NothingToDoError(f"Type '{statement.name}' does not exist")
        hint = did_you_mean(statement.name, catalogue.types)
        raise StatementError(f"Type {statement.name} does not exist. {hint}".strip(), statement.at)
    return Decision(
        text=text,
        command=f"type/{statement.name}/drop",
        message=f"Dropped type '{statement.name}'",
        effects=(RemoveType(name=statement.name),),
    )


def _kept(session: Session) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(session.properties.items()))


def _other_partitions(sink: Source, topic: Topic, statement: CreateAs) -> StatementError:
    return StatementError(
        f"A Kafka topic with the name '{sink.topic}' already exists, with different partition/replica "
        f"configuration than required. KSQL expects {sink.partitions} partitions "
        f"(topic has {topic.partitions}).",
        statement.at,
        remedy="Leave PARTITIONS out, or name another KAFKA_TOPIC.",
    )


def _text_property(properties: tuple[Property, ...], name: str) -> str | None:
    return next(
        (
            given.value.value
            for given in properties
            if given.name.upper() == name and isinstance(given.value, StringLiteral)
        ),
        None,
    )
