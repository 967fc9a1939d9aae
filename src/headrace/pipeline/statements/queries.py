"""The tree of queries: SELECT and its parts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from headrace.pipeline.statements.expressions import Expression, Node


@dataclass(frozen=True, slots=True)
class Star(Node):
    """`*`, or all columns of one source: `source.*`."""

    source: str | None = None


@dataclass(frozen=True, slots=True)
class SelectExpression(Node):
    expression: Expression
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class StructStar(Node):
    """`base->*`: the fields of a struct as columns."""

    base: Expression


SelectItem = Star | SelectExpression | StructStar


@dataclass(frozen=True, slots=True)
class SourceReference(Node):
    """A stream or table by its name, under its alias if it has one."""

    name: str
    alias: str | None = None

    @property
    def known_as(self) -> str:
        return self.alias or self.name


@dataclass(frozen=True, slots=True)
class Duration(Node):
    """`5 MINUTES`; the unit in upper case and plural."""

    amount: int
    unit: str

    @property
    def milliseconds(self) -> int:
        return self.amount * UNIT_MILLISECONDS[self.unit]

    def __str__(self) -> str:
        return f"{self.amount} {self.unit}"


UNIT_MILLISECONDS = {
    "MILLISECONDS": 1,
    "SECONDS": 1_000,
    "MINUTES": 60_000,
    "HOURS": 3_600_000,
    "DAYS": 86_400_000,
}


class JoinKind(Enum):
    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    FULL = "FULL"


@dataclass(frozen=True, slots=True)
class Within(Node):
    """`WITHIN 1 HOUR`, `WITHIN (1 HOUR, 2 HOURS)`, each with `GRACE PERIOD`."""

    before: Duration
    after: Duration
    grace: Duration | None = None


@dataclass(frozen=True, slots=True)
class Join(Node):
    kind: JoinKind
    right: SourceReference
    on: Expression
    within: Within | None = None


class WindowKind(Enum):
    TUMBLING = "TUMBLING"
    HOPPING = "HOPPING"
    SESSION = "SESSION"


@dataclass(frozen=True, slots=True)
class Window(Node):
    """`size` is the inactivity gap of a session; only hopping windows have `advance`."""

    kind: WindowKind
    size: Duration
    advance: Duration | None = None
    retention: Duration | None = None
    grace: Duration | None = None


class Emit(Enum):
    CHANGES = "CHANGES"
    FINAL = "FINAL"


@dataclass(frozen=True, slots=True)
class Select(Node):
    items: tuple[SelectItem, ...]
    source: SourceReference
    joins: tuple[Join, ...] = ()
    window: Window | None = None
    where: Expression | None = None
    group_by: tuple[Expression, ...] = ()
    partition_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    emit: Emit | None = None
    limit: int | None = None
