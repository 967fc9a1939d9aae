"""The plan of a query that was accepted before: the same now as when its statement came.

A query is kept as its statement, not as its plan, together with what the statement found in the catalogue
(`PersistentQuery.found_sources`). Planning is pure, so the same plan comes of it, whatever has become of its
sources since. Used by the pipeline process, which runs it, by EXPLAIN, and by CREATE OR REPLACE.
"""

from __future__ import annotations

import dataclasses

from headrace.pipeline.catalogue.catalogue import Catalogue, PersistentQuery
from headrace.pipeline.query_plan import QueryPlan
from headrace.pipeline.serving.planner import Planner
from headrace.pipeline.statements.parser import parse
from headrace.pipeline.statements.tree import CreateAs, InsertSelect, Query


def plan_of(query: PersistentQuery, catalogue: Catalogue, planner: Planner) -> QueryPlan:
    """Raises StatementError where a newer version of the rules refuses what an older one took."""
    (parsed,) = parse(query.statement)
    statement = parsed.statement
    assert isinstance(statement, CreateAs | InsertSelect), query.statement
    return planner.plan_query(
        statement, catalogue_before(statement, query.id, catalogue), text=query.statement
    )


def catalogue_before(
    statement: CreateAs | InsertSelect | Query, query_id: str, catalogue: Catalogue
) -> Catalogue:
    """The catalogue as the statement found it: its sources as they were, without what it has made itself."""
    query = catalogue.queries.get(query_id)
    found = catalogue if query is None else catalogue.as_found_by(query)
    if not isinstance(statement, CreateAs):
        return found
    return dataclasses.replace(
        found,
        sources={name: source for name, source in found.sources.items() if name != statement.name},
        queries={name: each for name, each in found.queries.items() if name != query_id},
    )
