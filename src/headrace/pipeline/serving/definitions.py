"""Statements that change the catalogue: the changes of each, and what must exist before them.

`definition(statement, …)` returns two functions. `decide` is pure: it takes the current catalogue and returns
the statement's changes; it may be called again if another statement was logged first. `prepare` creates
topics and is idempotent. Errors have ksqlDB's words. Never writes to the statement log itself.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from headrace.client.cluster import DEFAULT, Cluster
from headrace.client.message_sizes import derived_topic_config, event_topic_config
from headrace.client.topics import COMPACTED, TopicIdentity
from headrace.core.settings import Settings
from headrace.pipeline.catalogue.catalogue import Catalogue, Column, PersistentQuery, QueryKind, Source
from headrace.pipeline.catalogue.records import (
    PutQuery,
    PutSource,
    PutType,
)
from headrace.pipeline.catalogue.statement_log import Decision
from headrace.pipeline.expressions.named_types import resolved
from headrace.pipeline.rules.planning import plan_again, plan_query, plan_source
from headrace.pipeline.rules.similar_names import check_names
from headrace.pipeline.runs.synced_topics import keep_synced, synced_topics
from headrace.pipeline.serving.dropping import changed, dropped, dropped_type
from headrace.pipeline.serving.entities import kind_word
from headrace.pipeline.serving.named import NothingToDoError, command_id, in_the_way, known
from headrace.pipeline.serving.replacing import (
    check_not_written,
    check_replacement,
    check_upgrade,
    replaced_query,
)
from headrace.pipeline.serving.session import Session
from headrace.pipeline.serving.start_positions import start_positions
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.expressions import StringLiteral
from headrace.pipeline.statements.position import Position
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
    SourceKind,
    Statement,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    decide: Callable[[Catalogue], Decision]
    prepare: Callable[[Decision], None] = lambda _: None
    # Messages for the client.
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    cluster: Cluster
    settings: Settings
    # The columns from the registry, for a source whose statement names none.
    infer: Callable[[CreateSource], tuple[Column, ...]]
    # Raises StatementError if the registry would refuse the schemas of a sink.
    check_sink: Callable[[Source, Position], None]

    def definition(  # noqa: PLR0911 - one for each statement
        self, statement: Statement, text: str, session: Session
    ) -> Definition | None:
        """None for a statement that does not change the catalogue."""
        match statement:
            case CreateSource():
                return self._create(statement, text)
            case CreateAs():
                return self._create_as(statement, text, session)
            case InsertSelect():
                return self._insert(statement, text, session)
            case Drop():
                return Definition(decide=lambda catalogue: dropped(statement, catalogue, text))
            case ChangeQuery():
                return Definition(decide=lambda catalogue: changed(statement, catalogue, text))
            case AlterSource():
                return Definition(decide=lambda catalogue: self._alter(statement, catalogue, text))
            case CreateType():
                return Definition(decide=lambda catalogue: self._create_type(statement, catalogue, text))
            case DropType():
                return Definition(decide=lambda catalogue: dropped_type(statement, catalogue, text))
            case _:
                return None

    def _create(self, statement: CreateSource, text: str) -> Definition:
        warnings: list[str] = []

        def decide(catalogue: Catalogue) -> Decision:
            existing = in_the_way(statement, catalogue)
            topic = self._topic_of(statement, warnings)
            source = plan_source(
                statement,
                catalogue,
                text=text,
                inferred=self.infer(statement),
                partitions=topic.partitions if topic is not None else None,
            )
            if existing is not None:
                check_not_written(catalogue, existing, statement)
                check_replacement(existing, source, statement)
            return Decision(
                text=text,
                command=command_id(statement.kind, statement.name, "create"),
                message=f"{kind_word(statement.kind)} created",
                effects=(PutSource(source=source),),
            )

        return Definition(decide=decide, prepare=self._make_sink_topic, warnings=warnings)

    def _topic_of(self, statement: CreateSource, warnings: list[str]) -> TopicIdentity | None:
        """The topic, if it exists. If it does not, and the statement has no PARTITIONS, it is created first.

        ksqlDB refuses such a statement. Here the first event creates a topic, and statements may come
        earlier.
        """
        name = _text_property(statement.properties, "KAFKA_TOPIC")
        topic = self.cluster.topic(name) if name else None
        sized = any(given.name.upper() == "PARTITIONS" for given in statement.properties)
        if topic is not None or not name or sized:
            return topic
        config = event_topic_config(self.settings.max_event_bytes)
        if statement.kind is SourceKind.TABLE:
            config |= COMPACTED
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
        replicas = source.replicas if source.replicas is not None else DEFAULT
        config = derived_topic_config(self.settings) | source.topic_config
        self.cluster.create_topic(
            source.topic, partitions=source.partitions, replicas=replicas, config=config
        )

    def _keep_synced(self, names: Iterable[str], warnings: list[str]) -> None:
        """So that what the query derives is derived once, whatever happens to the machine."""
        warnings[:] = keep_synced(self.cluster, names)

    def _create_as(self, statement: CreateAs, text: str, session: Session) -> Definition:
        synced: set[str] = set()
        warnings: list[str] = []

        def decide(catalogue: Catalogue) -> Decision:
            existing = in_the_way(statement, catalogue)
            plan = plan_query(statement, catalogue, text=text)
            synced.update(synced_topics(plan, catalogue))
            sink = dataclasses.replace(plan.sink, statement=text)
            topic = self.cluster.topic(sink.topic)
            if topic is not None:
                sized = any(given.name.upper() == "PARTITIONS" for given in statement.properties)
                if sized and sink.partitions != topic.partitions:
                    raise _other_partitions(sink, topic, statement)
                sink = dataclasses.replace(sink, partitions=topic.partitions)
            self.check_sink(sink, statement.at)
            kind = QueryKind.CREATE_STREAM if statement.kind is SourceKind.STREAM else QueryKind.CREATE_TABLE
            query = PersistentQuery(
                id=f"{kind.value}_{_in_id(statement.name)}",
                kind=kind,
                sink=sink.name,
                sources=tuple(dict.fromkeys(plan.sources)),
                statement=text,
                properties=_kept(session),
                start=start_positions(self.cluster, plan, sink_topic=sink.topic, session=session),
                **_found(catalogue, plan.sources),
            )
            put = PutQuery(query=query)
            if existing is not None:
                check_replacement(existing, sink, statement)
                former = replaced_query(catalogue, sink, statement)
                check_upgrade(former.id, plan_again(former.statement, former.id, catalogue), plan, statement)
                # It goes on where the former one is, and so began where that began.
                replacement = dataclasses.replace(
                    query, id=former.id, paused=former.paused, start=former.start
                )
                put = PutQuery(query=replacement, numbered=False)
            return Decision(
                text=text,
                command=command_id(statement.kind, statement.name, "create"),
                message="Created query with ID {query}",
                effects=(PutSource(source=sink), put),
            )

        def prepare(decision: Decision) -> None:
            self._make_sink_topic(decision)
            self._keep_synced(synced, warnings)

        return Definition(decide=decide, prepare=prepare, warnings=warnings)

    def _insert(self, statement: InsertSelect, text: str, session: Session) -> Definition:
        synced: set[str] = set()
        warnings: list[str] = []

        def decide(catalogue: Catalogue) -> Decision:
            target = known(statement.target, catalogue, statement)
            if target.read_only:
                raise StatementError(
                    f"Cannot insert into read-only {target.kind.value.lower()}: {target.name}", statement.at
                )
            plan = plan_query(statement, catalogue, text=text)
            synced.update(synced_topics(plan, catalogue))
            self.check_sink(target, statement.at)
            named = plan.query_id
            query = PersistentQuery(
                id=named or QueryKind.INSERT.value,
                kind=QueryKind.INSERT,
                sink=target.name,
                sources=tuple(dict.fromkeys(plan.sources)),
                statement=text,
                properties=_kept(session),
                start=start_positions(self.cluster, plan, sink_topic=target.topic, session=session),
                **_found(catalogue, (*plan.sources, target.name)),
            )
            if named is not None and named in catalogue.queries:
                raise StatementError(f"Query ID '{named}' already exists.", statement.at)
            return Decision(
                text=text,
                command=command_id(SourceKind.STREAM, target.name, "create"),
                message="Created query with ID {query}",
                effects=(PutQuery(query=query, numbered=named is None),),
            )

        return Definition(
            decide=decide, prepare=lambda _: self._keep_synced(synced, warnings), warnings=warnings
        )

    def _alter(self, statement: AlterSource, catalogue: Catalogue, text: str) -> Decision:
        source = known(statement.name, catalogue, statement, kind=statement.kind, verb="ALTER")
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
            added.append(Column(name=column.name, type=resolved(column.type, catalogue.types, column.at)))
        altered = dataclasses.replace(source, value=source.value + tuple(added))
        check_names(altered.columns, statement.at)
        return Decision(
            text=text,
            command=command_id(statement.kind, statement.name, "alter"),
            message=f"{kind_word(statement.kind)} {statement.name} altered.",
            effects=(PutSource(source=altered),),
        )

    def _create_type(self, statement: CreateType, catalogue: Catalogue, text: str) -> Decision:
        if statement.name in catalogue.types:
            known = f"{statement.name} is already registered with type {catalogue.types[statement.name]}"
            if statement.if_not_exists:
                raise NothingToDoError(known)
            raise StatementError(f"Cannot register custom type: {known}.", statement.at)
        kind = resolved(statement.type, catalogue.types, statement.at)
        return Decision(
            text=text,
            command=f"type/{statement.name}/create",
            message=f"Registered custom type with name '{statement.name}' and SQL type {kind}",
            effects=(PutType(name=statement.name, type=kind),),
        )


def _in_id(name: str) -> str:
    """A name as part of a query's id, which is the name of a folder, too."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def _kept(session: Session) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(session.properties.items()))


def _found(catalogue: Catalogue, names: Iterable[str]) -> dict[str, Any]:
    """The part of the catalogue that a query keeps, to be planned again."""
    return {
        "found_sources": tuple(catalogue.sources[name] for name in dict.fromkeys(names)),
        "found_types": tuple(sorted(catalogue.types.items())),
    }


def _other_partitions(sink: Source, topic: TopicIdentity, statement: CreateAs) -> StatementError:
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
