"""The names that an expression may use at a place in a plan, and what they refer to.

A scope has the columns of a step's output, and the expressions that an earlier step has already computed
(groups, aggregates, keys, rows of table functions), which are not computed again. Frozen values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from headrace.pipeline.expressions.computed import Typed
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.expression_printing import name as written
from headrace.pipeline.statements.expressions import ColumnReference, Expression
from headrace.pipeline.statements.suggestions import did_you_mean
from headrace.pipeline.statements.types import BIGINT, INTEGER, DataType

PSEUDO_COLUMNS: Final[dict[str, DataType]] = {"ROWTIME": BIGINT, "ROWPARTITION": INTEGER, "ROWOFFSET": BIGINT}
WINDOW_COLUMNS: Final = ("WINDOWSTART", "WINDOWEND")
SYSTEM_COLUMNS: Final = (*PSEUDO_COLUMNS, *WINDOW_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visible:
    """A column: its name in the statement (`source` is its alias there), and its name in Spark."""

    name: str
    source: str | None
    spark: str
    type: DataType

    @property
    def typed(self) -> Typed:
        name = self.name
        return Typed(self.spark, self.type, lambda row: row[name])

    @property
    def reference(self) -> str:
        return written(self.name) if self.source is None else f"{written(self.source)}.{written(self.name)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    columns: tuple[Visible, ...] = ()
    computed: Mapping[Expression, Visible] = field(default_factory=dict)
    parameters: Mapping[str, DataType] = field(default_factory=dict)
    # Made by CREATE TYPE.
    types: Mapping[str, DataType] = field(default_factory=dict)
    # For error messages: SELECT, WHERE, GROUP BY, …
    clause: str = "SELECT"

    def within(self, clause: str) -> Scope:
        return replace(self, clause=clause)

    def found(self, reference: ColumnReference) -> Visible | None:
        for column in self.columns:
            if column.name == reference.name and reference.source in (None, column.source):
                return column
        return None

    def having(self, *, computed: Mapping[Expression, Visible]) -> Scope:
        return replace(self, computed={**self.computed, **computed})


def parameter_key(name: str) -> str:
    """The key of a lambda's parameter in a row. No column has such a name."""
    return f"=> {name}"


def unknown_column(reference: ColumnReference, clause: str, columns: tuple[Visible, ...]) -> StatementError:
    known = [each.name for each in columns if reference.source in (None, each.source)]
    shown = written(reference.name)
    if reference.source is not None:
        shown = f"{written(reference.source)}.{shown}"
    own = [each for each in columns if each.name in known and each.name not in SYSTEM_COLUMNS]
    are_several = len({each.source for each in own}) > 1
    names = [each.reference if are_several else written(each.name) for each in own]
    listed = f"There are {', '.join(names)}." if names else ""
    hint = did_you_mean(reference.name, known)
    return StatementError(
        f"{clause} column {shown} cannot be resolved.", reference.at, remedy=hint.strip() or listed
    )
