"""Positions in the text of statements."""

from __future__ import annotations

from typing import NamedTuple


class Position(NamedTuple):
    """Line and column, both counted from 1, as in editors and in ksqlDB's errors."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


NOWHERE = Position(0, 0)
