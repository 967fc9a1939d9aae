"""The rules as the engine asks them."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.pipeline.catalogue.catalogue import Catalogue, Column, Source
from headrace.pipeline.expressions import named_types
from headrace.pipeline.expressions.functions.table import ALL
from headrace.pipeline.query_plan import QueryPlan
from headrace.pipeline.rules import explaining, planning
from headrace.pipeline.serving.planner import Function
from headrace.pipeline.statements.position import Position
from headrace.pipeline.statements.tree import CreateAs, CreateSource, InsertSelect, Query
from headrace.pipeline.statements.types import DataType


class RulesPlanner:
    def plan_source(
        self,
        statement: CreateSource,
        catalogue: Catalogue,
        *,
        text: str,
        inferred: tuple[Column, ...],
        partitions: int | None,
    ) -> Source:
        return planning.plan_source(statement, catalogue, text=text, inferred=inferred, partitions=partitions)

    def plan_query(
        self, statement: CreateAs | InsertSelect | Query, catalogue: Catalogue, *, text: str
    ) -> QueryPlan:
        return planning.plan_query(statement, catalogue, text=text)

    def explain(self, plan: QueryPlan) -> str:
        return explaining.explain(plan, full=True)

    def resolved(self, kind: DataType, catalogue: Catalogue, at: Position) -> DataType:
        return named_types.resolved(kind, catalogue.types, at)

    def functions(self) -> Mapping[str, Function]:
        return ALL
