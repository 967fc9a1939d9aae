"""The frozen plan of one query: a tree of steps from its sources to its sink.

Rules (`rules/`) make it from a statement; `spark/` runs it, and EXPLAIN prints it. The columns of a step's
input are named `ALIAS.COLUMN` after `Read` (so `` `S.ID` `` in Spark SQL), and have plain names after
`Project`, `Rekey`, `Aggregate` and `Explode`, which name their output. Expressions are Spark SQL over the
columns of the input; one that fails gives null. They include the text in the statement and its position.

`Read` adds pseudo-columns, also under the alias: ROWTIME (BIGINT, milliseconds), ROWPARTITION, ROWOFFSET, and
for a windowed source WINDOWSTART and WINDOWEND (BIGINT).

Contains no Spark objects and no identities of existing topics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from headrace.pipeline.catalogue.catalogue import Source
from headrace.pipeline.expressions.computed import Computed
from headrace.pipeline.statements.position import Position
from headrace.pipeline.statements.queries import Emit, JoinKind, Window

# As in ksqlDB, for windows and joins without GRACE PERIOD.
DEFAULT_GRACE_MS = 24 * 60 * 60 * 1000


class Repartition(Enum):
    """Which inputs must be repartitioned: for a join, an aggregation, or other keys."""

    NONE = "none"
    LEFT = "left"
    RIGHT = "right"
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A column of a step's output."""

    name: str
    value: Computed


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    source: Source
    alias: str
    at: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Keeps rows whose condition is true. For changes of a table, the others become deletions."""

    input: Step
    condition: Computed


@dataclass(frozen=True, slots=True, kw_only=True)
class Explode:
    """Table functions: a row for each element of the longest; shorter ones are filled with nulls."""

    input: Step
    functions: tuple[Named, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rekey:
    """PARTITION BY: other key columns, and so other partitions. Other columns stay."""

    input: Step
    keys: tuple[Named, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateCall:
    """`spark` is an aggregate expression of Spark SQL over the input's columns, named `name`."""

    name: str
    value: Computed


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """GROUP BY: a row for each group and window, with the keys, the aggregates, and window columns.

    Rows with a null key belong to no group. Without keys (only in queries that are not persistent) there is
    one group.
    """

    input: Step
    keys: tuple[Named, ...]
    calls: tuple[AggregateCall, ...]
    window: Window | None
    # LEFT if the groups are not the input's keys, so that rows must move.
    repartition: Repartition = Repartition.NONE

    @property
    def grace_ms(self) -> int | None:
        """How long after its end a window accepts late records; None without windows."""
        if self.window is None:
            return None
        return DEFAULT_GRACE_MS if self.window.grace is None else self.window.grace.milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamJoin:
    """Two streams, within a span of time: the right row is from `before_ms` before to `after_ms` after."""

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
    """Stream and table: each row of the stream with the table's current row of that key."""

    kind: JoinKind
    stream: Step
    table: Step
    stream_key: Computed
    table_key: Computed
    # The whole table is broadcast, and refreshed without a restart.
    is_global: bool
    repartition: Repartition = Repartition.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class TableJoin:
    """Two tables. With a foreign key, the left key is an expression over the left's columns."""

    kind: JoinKind
    left: Step
    right: Step
    left_key: Computed
    right_key: Computed
    by_foreign_key: bool
    repartition: Repartition = Repartition.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """SELECT: the key columns of the result, then its value columns."""

    input: Step
    keys: tuple[Named, ...]
    values: tuple[Named, ...]


Step = Read | Filter | Explode | Rekey | Aggregate | StreamJoin | TableLookup | TableJoin | Project


class PlanKind(Enum):
    """Who gets the rows: the sink's topic, the client as they arrive, or the client once."""

    PERSISTENT = "persistent"
    PUSH = "push"
    PULL = "pull"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan:
    """A query. `limit` applies to the result; `emit` is CHANGES unless the statement says FINAL.

    HAVING is a `Filter` after `Aggregate`. `repartition` is that of the last step that has one. The sink of a
    query that is not persistent (`kind`) has no name and no topic, and all its columns are in the value, in
    the order of the projection. `inserts`: the sink existed before.
    """

    root: Step
    sink: Source
    emit: Emit
    repartition: Repartition = Repartition.NONE
    kind: PlanKind = PlanKind.PERSISTENT
    limit: int | None = None
    inserts: bool = False
    # The id from INSERT … WITH (QUERY_ID=…).
    query_id: str | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the streams and tables that it reads, from left to right."""
        return tuple(read.source.name for read in reads_of(self.root))


def inputs_of(step: Step) -> tuple[Step, ...]:
    """The inputs of a step, from left to right."""
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


def is_stateful(plan: QueryPlan) -> bool:
    """Whether its rows depend on more than one record, so that they have no source coordinates."""
    return any(isinstance(step, Aggregate | StreamJoin | TableJoin) for step in steps_of(plan.root))


def reads_of(step: Step) -> tuple[Read, ...]:
    if isinstance(step, Read):
        return (step,)
    return tuple(read for each in inputs_of(step) for read in reads_of(each))
