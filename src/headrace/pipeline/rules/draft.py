"""A query between tree and plan: the value that each rule takes and returns. Frozen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.pipeline.catalogue.catalogue import Catalogue, Source
from headrace.pipeline.expressions.computed import Computed
from headrace.pipeline.expressions.scope import Scope
from headrace.pipeline.plan import PlanKind, Read, Repartition, Step
from headrace.pipeline.statements.expressions import Expression
from headrace.pipeline.statements.queries import Select, SelectExpression
from headrace.pipeline.statements.tree import CreateAs, InsertSelect, Query, SourceKind

QueryStatement = CreateAs | InsertSelect | Query


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key column of the step's output.

    Selecting any of `expressions` selects the key; if there are none, the key is lost. `value` is the key in
    terms of the step's output, whichever of them is selected.
    """

    name: str
    expressions: tuple[Expression, ...]
    value: Computed


@dataclass(frozen=True, slots=True, kw_only=True)
class StarColumn:
    """A column that `*` expands to, under its name in the result."""

    name: str
    expression: Expression
    source: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    statement: QueryStatement
    catalogue: Catalogue
    text: str
    select: Select
    reads: tuple[Read, ...] = ()
    # The fields below describe the output of the step.
    step: Step | None = None
    kind: SourceKind = SourceKind.STREAM
    scope: Scope = field(default_factory=Scope)
    keys: tuple[Key, ...] = ()
    # What errors call the origin of the key.
    key_origin: str = "key column"
    # The key was made by a join, and is not a column of a source.
    has_made_key: bool = False
    stars: tuple[StarColumn, ...] = ()
    # Set once stars are expanded and all columns have names.
    items: tuple[SelectExpression, ...] = ()
    repartition: Repartition = Repartition.NONE
    sink: Source | None = None

    @property
    def is_join(self) -> bool:
        return len(self.reads) > 1

    @property
    def is_persistent(self) -> bool:
        return not isinstance(self.statement, Query)

    @property
    def plan_kind(self) -> PlanKind:
        if self.is_persistent:
            return PlanKind.PERSISTENT
        return PlanKind.PULL if self.select.emit is None else PlanKind.PUSH

    @property
    def top(self) -> Step:
        assert self.step is not None
        return self.step


Rule = Callable[[Draft], Draft]
