"""An expression that was compiled: what rules put into plans. A frozen value."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.pipeline.statements.position import Position
from headrace.pipeline.statements.types import DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """An expression: as the statement has it, as Spark runs it, and what it gives."""

    text: str
    spark: str
    type: DataType
    at: Position
