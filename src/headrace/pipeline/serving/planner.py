"""What the engine asks of the rules. `rules_planner.py` answers with ours; tests may answer themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from headrace.pipeline.catalogue.catalogue import Catalogue, Column, Source
from headrace.pipeline.query_plan import QueryPlan
from headrace.pipeline.statements.position import Position
from headrace.pipeline.statements.tree import CreateAs, CreateSource, InsertSelect, Query
from headrace.pipeline.statements.types import DataType


class FunctionKind(Protocol):
    @property
    def name(self) -> str: ...


class Parameter(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def type_text(self) -> str: ...

    @property
    def is_variadic(self) -> bool: ...


class Signature(Protocol):
    @property
    def parameters(self) -> Iterable[Parameter]: ...

    @property
    def return_text(self) -> str: ...


class Function(Protocol):
    """A function as `DESCRIBE FUNCTION` shows it."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> FunctionKind: ...

    @property
    def description(self) -> str: ...

    @property
    def signatures(self) -> Iterable[Signature]: ...


class Planner(Protocol):
    """Raises StatementError for what makes no sense."""

    def plan_source(
        self,
        statement: CreateSource,
        catalogue: Catalogue,
        *,
        text: str,
        inferred: tuple[Column, ...],
        partitions: int | None,
    ) -> Source:
        """`partitions` are those of the topic, if it is there."""
        ...

    def plan_query(
        self, statement: CreateAs | InsertSelect | Query, catalogue: Catalogue, *, text: str
    ) -> QueryPlan:
        """Of a query that nobody keeps the sink has its columns as its value, in the order of the SELECT."""
        ...

    def explain(self, plan: QueryPlan) -> str: ...

    def resolved(self, kind: DataType, catalogue: Catalogue, at: Position) -> DataType:
        """The type without names of CREATE TYPE."""
        ...

    def functions(self) -> Mapping[str, Function]: ...
