"""Statements to plans, by an ordered tuple of rules.

Each rule takes a draft and returns the next one; the order is that of the query's steps, from its sources to
its sink. Pure: the same statement and catalogue give the same plan. Never asks a broker or a registry.

The catalogue keeps a query as its statement, not as its plan, together with the sources as they were then
(`PersistentQuery.found_sources`). As planning is pure, `plan_again` gives the plan that was accepted, however
its sources have changed since.
"""

from __future__ import annotations

import dataclasses
from functools import reduce
from typing import Final

from headrace.pipeline.catalogue.catalogue import Catalogue
from headrace.pipeline.plan import PlanKind, QueryPlan
from headrace.pipeline.rules.draft import Draft, QueryStatement, Rule
from headrace.pipeline.rules.properties import INSERT, Properties
from headrace.pipeline.rules.rule_clauses import check_clauses
from headrace.pipeline.rules.rule_exploding import explode
from headrace.pipeline.rules.rule_filtering import filter_rows
from headrace.pipeline.rules.rule_grouping import group
from headrace.pipeline.rules.rule_items import list_items
from headrace.pipeline.rules.rule_joins import join_sources
from headrace.pipeline.rules.rule_partitioning import partition
from headrace.pipeline.rules.rule_projecting import project
from headrace.pipeline.rules.rule_qualification import qualify
from headrace.pipeline.rules.rule_sinks import find_sink
from headrace.pipeline.rules.rule_sources import read_sources
from headrace.pipeline.rules.runnable import check_runnable
from headrace.pipeline.rules.source_planning import plan_source, wants_inferred_columns
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.parser import parse
from headrace.pipeline.statements.queries import Emit
from headrace.pipeline.statements.tree import CreateAs, InsertSelect, Query

__all__ = ["RULES", "plan_again", "plan_query", "plan_source", "wants_inferred_columns"]

RULES: Final[tuple[Rule, ...]] = (
    read_sources,
    qualify,
    check_clauses,
    join_sources,
    filter_rows,
    partition,
    list_items,
    explode,
    group,
    project,
    find_sink,
)


def plan_query(statement: QueryStatement, catalogue: Catalogue, *, text: str = "") -> QueryPlan:
    """Raises StatementError."""
    select = statement.select if isinstance(statement, Query) else statement.query
    first = Draft(statement=statement, catalogue=catalogue, text=text, select=select)
    draft = reduce(lambda done, rule: rule(done), RULES, first)
    assert draft.sink is not None
    plan = QueryPlan(
        root=draft.top,
        sink=draft.sink,
        emit=select.emit or Emit.CHANGES,
        repartition=draft.repartition,
        kind=draft.plan_kind,
        limit=select.limit,
        inserts=isinstance(statement, InsertSelect),
        query_id=_query_id(statement),
    )
    if plan.kind is not PlanKind.PULL:
        check_runnable(plan)
    return plan


def plan_again(text: str, query_id: str, catalogue: Catalogue) -> QueryPlan:
    """The plan of a query that was accepted before.

    Raises StatementError if a newer version of the rules refuses what an older one accepted.
    """
    (parsed,) = parse(text)
    statement = parsed.statement
    if not isinstance(statement, CreateAs | InsertSelect | Query):
        raise StatementError(f"{text} has no query to run.", parsed.statement.at)
    return plan_query(statement, _catalogue_before(statement, query_id, catalogue), text=parsed.text)


def _catalogue_before(statement: QueryStatement, query_id: str, catalogue: Catalogue) -> Catalogue:
    """The catalogue when the statement was accepted: its sources as they were, without what it created."""
    query = catalogue.queries.get(query_id)
    found = catalogue if query is None else catalogue.as_found_by(query)
    if not isinstance(statement, CreateAs):
        return found
    return dataclasses.replace(
        found,
        sources={name: source for name, source in found.sources.items() if name != statement.name},
        queries={name: each for name, each in found.queries.items() if name != query_id},
    )


def _query_id(statement: QueryStatement) -> str | None:
    if not isinstance(statement, InsertSelect):
        return None
    return Properties.of(statement.properties, INSERT, statement.at).query_id()
