"""Compiled expressions: their type and their two forms. Frozen values.

Rules put `Computed` into plans. `spark` is for queries that Spark runs; `python` is for pull queries and
INSERT VALUES. One compilation makes both from one tree, so both mean the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headrace.pipeline.statements.position import Position
from headrace.pipeline.statements.types import DataType

# Values (`values.py`) by column name: a row comes from one source, so no alias is needed.
Row = Mapping[str, Any]
Evaluate = Callable[[Row], Any]


class Typed(NamedTuple):
    """A part of an expression during compilation. The type of a bare NULL is None."""

    spark: str
    type: DataType | None
    python: Evaluate


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """A compiled expression; `text` and `at` are its text and position in the statement."""

    text: str
    spark: str
    type: DataType
    at: Position
    # None for aggregates, which only Spark computes. Equal texts of Spark SQL mean equal Python forms.
    python: Evaluate | None = field(default=None, compare=False, repr=False)
