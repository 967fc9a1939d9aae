"""The frozen plan of one query: a tree of steps from its sources to its sink.

Rules (`rules/`) make it from a statement; `spark/` runs it and EXPLAIN prints it. A step's input has columns
named `ALIAS.COLUMN` behind `Read` (so `` `S.ID` `` in Spark SQL), and plain names behind `Project`, `Rekey`,
`Aggregate` and `Explode`, which name what they give. Expressions are Spark SQL over the columns of the input,
made so that a failing one gives null; beside it stands what the statement said, and where.

Pseudo-columns come with `Read`, under the alias as well: ROWTIME (BIGINT, milliseconds), ROWPARTITION,
ROWOFFSET, and for a windowed source WINDOWSTART and WINDOWEND (BIGINT).

Holds no Spark object and no identity of a running topic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from headrace.lake.layout import TableLayout
from headrace.pipeline.catalogue.catalogue import Source
from headrace.pipeline.expressions.computed import Computed
from headrace.pipeline.statements.position import Position
from headrace.pipeline.statements.queries import Emit, JoinKind, Window

# As in ksqlDB, where a statement does not say how long late records are waited for.
DEFAULT_GRACE_MS = 24 * 60 * 60 * 1000


class Repartition(Enum):
    """Which inputs have to be put into other partitions: for a join, an aggregation, or other keys."""

    NONE = "none"
    LEFT = "left"
    RIGHT = "right"
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A column that a step gives."""

    name: str
    value: Computed


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    source: Source
    alias: str
    at: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Keeps rows whose condition is true. On a table's changes the others become deletions."""

    input: Step
    condition: Computed


@dataclass(frozen=True, slots=True, kw_only=True)
class Explode:
    """Table functions: a row for each element of the longest, nulls where others are shorter."""

    input: Step
    functions: tuple[Named, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rekey:
    """PARTITION BY: other key columns, so other partitions. What it does not name stays."""

    input: Step
    keys: tuple[Named, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateCall:
    """`spark` is an aggregate expression of Spark SQL over the input's columns, named `name`."""

    name: str
    value: Computed


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """GROUP BY: a row for each group and window. Gives the keys, the aggregates, and window columns.

    Rows of which a key is null belong to no group. Without keys (in queries that nobody keeps) there is one
    group.
    """

    input: Step
    keys: tuple[Named, ...]
    calls: tuple[AggregateCall, ...]
    window: Window | None
    # LEFT if the groups are not the input's keys, so that rows have to move.
    repartition: Repartition = Repartition.NONE

    @property
    def grace_ms(self) -> int | None:
        """How long behind the newest record a window still takes records; None without windows."""
        if self.window is None:
            return None
        return DEFAULT_GRACE_MS if self.window.grace is None else self.window.grace.milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamJoin:
    """Stream and stream, within a span of time: a row on the right from `before` before to `after` after."""

    kind: JoinKind
    left: Step
    right: Step
    left_key: Computed
    right_key: Computed
    before_ms: int
    after_ms: int
    grace_ms: int
    repartition: Repartition = Repartition.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLookup:
    """Stream and table: each row of the stream with the table's row of that key at that moment."""

    kind: JoinKind
    stream: Step
    table: Step
    stream_key: Computed
    table_key: Computed
    # The table is broadcast as a whole and refreshed without a restart.
    is_global: bool
    repartition: Repartition = Repartition.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class TableJoin:
    """Table and table: a table. With a foreign key the left key is an expression on the left's columns."""

    kind: JoinKind
    left: Step
    right: Step
    left_key: Computed
    right_key: Computed
    by_foreign_key: bool
    repartition: Repartition = Repartition.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """What SELECT names: key columns of the result, then its value columns."""

    input: Step
    keys: tuple[Named, ...]
    values: tuple[Named, ...]


Step = Read | Filter | Explode | Rekey | Aggregate | StreamJoin | TableLookup | TableJoin | Project


class PlanKind(Enum):
    """What becomes of the rows: they are kept, sent to whoever asked as they come, or answered once."""

    PERSISTENT = "persistent"
    PUSH = "push"
    PULL = "pull"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan:
    """A query. `limit` works on the result; `emit` is CHANGES unless it says FINAL.

    HAVING is a `Filter` behind `Aggregate`. `repartition` is that of the last step which has one. The sink of
    a query that nobody keeps (`kind`) has no name and no topic, and all its columns are in the value, in the
    order of the projection. `inserts`: the sink was there before.
    """

    root: Step
    sink: Source
    emit: Emit
    repartition: Repartition = Repartition.NONE
    kind: PlanKind = PlanKind.PERSISTENT
    limit: int | None = None
    inserts: bool = False
    # The name that INSERT … WITH (QUERY_ID=…) asks for.
    query_id: str | None = None
    # The table of the lake that the rows go to instead of the sink's topic.
    lake_table: TableLayout | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the streams and tables that it reads, from left to right."""
        return tuple(read.source.name for read in reads_of(self.root))


def inputs_of(step: Step) -> tuple[Step, ...]:
    """What a step works on, from left to right."""
    match step:
        case Read():
            return ()
        case StreamJoin(left=left, right=right) | TableJoin(left=left, right=right):
            return left, right
        case TableLookup(stream=stream, table=table):
            return stream, table
        case _:
            return (step.input,)


def steps_of(root: Step) -> Iterator[Step]:
    """Every step, from the result to the sources."""
    yield root
    for step in inputs_of(root):
        yield from steps_of(step)


def reads_of(step: Step) -> tuple[Read, ...]:
    if isinstance(step, Read):
        return (step,)
    return tuple(read for each in inputs_of(step) for read in reads_of(each))
