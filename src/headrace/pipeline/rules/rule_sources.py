"""FROM and JOIN: finds the streams and tables by name, and adds a read for each to the draft."""

from __future__ import annotations

from dataclasses import replace

from headrace.pipeline.catalogue.catalogue import Source
from headrace.pipeline.expressions.scope import Scope
from headrace.pipeline.plan import Read
from headrace.pipeline.rules.draft import Draft
from headrace.pipeline.rules.similar_names import check_aliases
from headrace.pipeline.rules.source_columns import columns_of
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.expression_printing import name as written
from headrace.pipeline.statements.position import Position
from headrace.pipeline.statements.queries import SourceReference
from headrace.pipeline.statements.suggestions import did_you_mean
from headrace.pipeline.statements.tree import SourceKind


def read_sources(draft: Draft) -> Draft:
    reads: list[Read] = []
    for reference in (draft.select.source, *(join.right for join in draft.select.joins)):
        source = known_source(draft, reference.name, reference.at)
        _check_once(reads, reference)
        if draft.is_persistent and source.kind is SourceKind.TABLE and source.window is not None:
            raise StatementError(
                f"{written(source.name)} is a windowed table, which a persistent query cannot read.",
                reference.at,
                remedy="Declare its topic as a stream: CREATE STREAM … WITH (KAFKA_TOPIC=…, WINDOW_TYPE=…).",
            )
        reads.append(Read(source=source, alias=reference.known_as, at=reference.at))
        check_aliases((read.alias for read in reads), reference.at)
    columns = tuple(column for read in reads for column in columns_of(read))
    scope = Scope(columns=columns, types=draft.catalogue.types)
    return replace(draft, reads=tuple(reads), scope=scope, step=reads[0], kind=reads[0].source.kind)


def known_source(draft: Draft, name: str, at: Position) -> Source:
    source = draft.catalogue.sources.get(name)
    if source is None:
        raise StatementError(
            f"There is no stream or table named {written(name)}.",
            at,
            remedy=(_hint(name, draft.catalogue.sources) or "Create it with CREATE STREAM or CREATE TABLE."),
        )
    return source


def _hint(name: str, known: dict[str, Source]) -> str:
    for other in known:
        if other.upper() == name.upper():
            return f"There is {written(other)}; names without back-quotes are in upper case."
    return did_you_mean(name, known).strip()


def _check_once(reads: list[Read], reference: SourceReference) -> None:
    if any(read.source.name == reference.name for read in reads):
        raise StatementError(
            f"{written(reference.name)} is joined with itself, which is not supported.",
            reference.at,
            remedy="Create a second stream or table on the same topic, and join that.",
        )
    if any(read.alias == reference.known_as for read in reads):
        raise StatementError(
            f"Two sources are named {written(reference.known_as)}.",
            reference.at,
            remedy="Rename one with AS.",
        )
