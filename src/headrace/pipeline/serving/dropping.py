"""DROP, TERMINATE, PAUSE and RESUME: their changes to the catalogue. Pure; errors have ksqlDB's words."""

from __future__ import annotations

from typing import Final

from headrace.pipeline.catalogue.catalogue import Catalogue, QueryKind
from headrace.pipeline.catalogue.records import Effect, PauseQuery, RemoveQuery, RemoveSource, RemoveType
from headrace.pipeline.catalogue.statement_log import Decision
from headrace.pipeline.serving.named import NothingToDoError, command_id, known
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.suggestions import did_you_mean
from headrace.pipeline.statements.tree import ChangeQuery, Drop, DropType, QueryAction

_ALL: Final = "ALL"


def dropped(statement: Drop, catalogue: Catalogue, text: str) -> Decision:
    if statement.if_exists and statement.name not in catalogue.sources:
        raise NothingToDoError(f"Source `{statement.name}` does not exist.")
    source = known(statement.name, catalogue, statement, kind=statement.kind, verb="DROP")
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
        command=command_id(statement.kind, source.name, "drop"),
        message=f"Source `{source.name}` (topic: {source.topic}) was dropped.",
        effects=effects,
    )


def changed(statement: ChangeQuery, catalogue: Catalogue, text: str) -> Decision:
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


def dropped_type(statement: DropType, catalogue: Catalogue, text: str) -> Decision:
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
