"""Finds what a statement names in the catalogue, or raises the error in ksqlDB's words. Pure."""

from __future__ import annotations

from typing import Any

from headrace.pipeline.catalogue.catalogue import Catalogue, Source
from headrace.pipeline.serving.entities import kind_word
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.suggestions import did_you_mean
from headrace.pipeline.statements.tree import CreateAs, CreateSource, SourceKind


class NothingToDoError(Exception):
    """IF NOT EXISTS or IF EXISTS applies: the statement is valid and changes nothing."""


def command_id(kind: SourceKind, name: str, action: str) -> str:
    # ksqlDB quotes the name only in the ids of CREATE.
    return f"{kind.value.lower()}/{f'`{name}`' if action == 'create' else name}/{action}"


def in_the_way(statement: CreateSource | CreateAs, catalogue: Catalogue) -> Source | None:
    """The source that OR REPLACE replaces; raises if the name is taken otherwise."""
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


def known(
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
