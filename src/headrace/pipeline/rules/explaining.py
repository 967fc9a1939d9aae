"""A plan as text: the sink, then the steps from last to first, each with its inputs below it.

Expressions are shown as Spark runs them. The text says where rows must move to other partitions. A full plan
also gives the position in the statement for each line, and the partitions of the sources.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import NamedTuple

from headrace.pipeline.catalogue.catalogue import Column, Encoding, Format, KeyWindow, Source
from headrace.pipeline.expressions.computed import Computed
from headrace.pipeline.plan import (
    Aggregate,
    AggregateCall,
    Explode,
    Filter,
    Named,
    PlanKind,
    Project,
    QueryPlan,
    Read,
    Rekey,
    Repartition,
    Step,
    StreamJoin,
    TableJoin,
    TableLookup,
    inputs_of,
    reads_of,
)
from headrace.pipeline.statements.expression_printing import name, quoted, type_text
from headrace.pipeline.statements.position import NOWHERE, Position
from headrace.pipeline.statements.printing import sql
from headrace.pipeline.statements.queries import Select, SourceReference, Star, Window

_INDENT = "  "


def explain(plan: QueryPlan, *, full: bool = False) -> str:
    return "\n".join([*_head(plan), *_tree(plan.root, 0, full=full)])


def explain_source(source: Source) -> str:
    """A stream or table: its columns, topic and formats."""
    return "\n".join([f"{_title(source)}", *_details(source)])


def _head(plan: QueryPlan) -> Iterator[str]:
    if plan.kind is PlanKind.PERSISTENT:
        yield f"{'INSERT INTO ' if plan.inserts else ''}{_title(plan.sink)}"
        yield from _details(plan.sink)
    else:
        yield f"{plan.kind.value} query {_columns(plan.sink.key, plan.sink.value)}"
    if plan.emit.value == "FINAL":
        yield f"{_INDENT}emit FINAL"
    if plan.limit is not None:
        yield f"{_INDENT}limit {plan.limit}"


def _title(source: Source) -> str:
    marks = " read-only" if source.read_only else ""
    marks += " global" if source.is_global else ""
    return f"{source.kind.value} {name(source.name)} {_columns(source.key, source.value)}{marks}"


def _columns(key: tuple[Column, ...], value: tuple[Column, ...]) -> str:
    columns = [f"{name(column.name)} {type_text(column.type)} KEY" for column in key]
    columns += [f"{name(column.name)} {type_text(column.type)}" for column in value]
    return f"({', '.join(columns)})"


def _details(source: Source) -> Iterator[str]:
    formats = f"key {_encoding(source.key_encoding)}, value {_encoding(source.value_encoding)}"
    yield f"{_INDENT}topic {quoted(source.topic)}, {_partitions(source)}, {formats}"
    for header in source.headers:
        what = "all headers" if header.header is None else f"header {quoted(header.header)}"
        yield f"{_INDENT}{name(header.name)} {type_text(header.type)} from {what}"
    if source.timestamp is not None:
        form = "" if source.timestamp.format is None else f" as {quoted(source.timestamp.format)}"
        yield f"{_INDENT}time from {name(source.timestamp.name)}{form}"
    if source.window is not None:
        yield f"{_INDENT}{_key_window(source.window)}"
    topic = {
        "replicas": source.replicas,
        "retention": source.retention_ms,
        "clean-up": source.cleanup_policy,
    }
    told = [f"{what} {value}" for what, value in topic.items() if value is not None]
    if told:
        yield f"{_INDENT}{', '.join(told)}"


def _partitions(source: Source) -> str:
    return f"{source.partitions} partition{'s' if source.partitions != 1 else ''}"


def _encoding(encoding: Encoding) -> str:
    parts = [encoding.format.value]
    if encoding.format is Format.DELIMITED and encoding.delimiter != ",":
        parts.append(f"by {encoding.delimiter!r}")
    if encoding.wrapped is not None:
        parts.append("wrapped" if encoding.wrapped else "unwrapped")
    if encoding.schema_id is not None:
        parts.append(f"schema {encoding.schema_id}")
    if encoding.schema_name is not None:
        parts.append(f"schema name {encoding.schema_name}")
    return " ".join(parts)


def _key_window(window: KeyWindow) -> str:
    size = "" if window.size_ms is None else f" of {window.size_ms} ms"
    return f"keys with {window.kind.value} windows{size}"


class _Line(NamedTuple):
    """A line of a step, what a full plan adds to it, and its position in the statement."""

    text: str
    at: Position = NOWHERE
    more: str = ""

    def written(self, *, full: bool) -> str:
        if not full:
            return self.text
        where = "" if self.at == NOWHERE else f"  -- {self.at}"
        return f"{self.text}{self.more}{where}"


def _tree(step: Step, depth: int, *, full: bool) -> Iterator[str]:
    for line in _lines(step):
        yield f"{_INDENT * depth}{line.written(full=full)}"
    for each in inputs_of(step):
        yield from _tree(each, depth + 1, full=full)


@singledispatch
def _lines(step: Step) -> Iterator[_Line]:
    raise TypeError(type(step).__name__)


@_lines.register
def _(step: Read) -> Iterator[_Line]:
    source = step.source
    alias = "" if step.alias == source.name else f" as {name(step.alias)}"
    text = f"read {source.kind.value} {name(source.name)}{alias} from {quoted(source.topic)}"
    yield _Line(text, step.at, f", {_partitions(source)}")


@_lines.register
def _(step: Filter) -> Iterator[_Line]:
    yield _Line(f"filter {step.condition.spark}", step.condition.at)


@_lines.register
def _(step: Explode) -> Iterator[_Line]:
    yield _Line("explode")
    yield from _named(step.functions)


@_lines.register
def _(step: Rekey) -> Iterator[_Line]:
    moved = " (repartitions its input)" if step.keys else ""
    yield _Line("rekey" if step.keys else "rekey by nothing", more=moved)
    yield from _named(step.keys, " KEY")


@_lines.register
def _(step: Aggregate) -> Iterator[_Line]:
    yield _Line(f"aggregate{_moved(step.repartition, 'input')}")
    if step.window is not None:
        grace = "" if step.window.grace is not None else f", grace {step.grace_ms} ms"
        yield _Line(f"{_INDENT}window {_window(step.window)}{grace}", step.window.at)
    yield from _named(step.keys, " KEY")
    yield from _named(step.calls)


@_lines.register
def _(step: StreamJoin) -> Iterator[_Line]:
    yield _equation(f"{step.kind.value} join of streams", step.left_key, step.right_key)
    yield _Line(
        f"{_INDENT}within {step.before_ms} ms before, {step.after_ms} ms after, grace {step.grace_ms} ms"
    )
    yield from _moved_sides(step)


@_lines.register
def _(step: TableLookup) -> Iterator[_Line]:
    table = "global table" if step.is_global else "table"
    yield _equation(f"{step.kind.value} lookup in a {table}", step.stream_key, step.table_key)
    yield from _moved_sides(step)


@_lines.register
def _(step: TableJoin) -> Iterator[_Line]:
    by = " by foreign key" if step.by_foreign_key else ""
    yield _equation(f"{step.kind.value} join of tables{by}", step.left_key, step.right_key)
    yield from _moved_sides(step)


@_lines.register
def _(step: Project) -> Iterator[_Line]:
    yield _Line("project")
    yield from _named(step.keys, " KEY")
    yield from _named(step.values)


def _named(columns: tuple[Named, ...] | tuple[AggregateCall, ...], mark: str = "") -> Iterator[_Line]:
    for column in columns:
        value = column.value
        text = f"{_INDENT}{name(column.name)} {type_text(value.type)}{mark} = {value.spark}"
        yield _Line(text, value.at)


def _equation(what: str, left: Computed, right: Computed) -> _Line:
    return _Line(f"{what} on {left.spark} = {right.spark}", left.at)


def _moved_sides(step: StreamJoin | TableLookup | TableJoin) -> Iterator[_Line]:
    if step.repartition is Repartition.NONE:
        return
    left, right = (max(read.source.partitions for read in reads_of(side)) for side in inputs_of(step))
    differ = "" if left == right else f": {left} and {right} partitions must become equal in number"
    yield _Line(f"{_INDENT}{_moved(step.repartition, '')}", more=differ)


def _moved(repartition: Repartition, only: str) -> str:
    if repartition is Repartition.NONE:
        return ""
    what = only or ("both sides" if repartition is Repartition.BOTH else f"the {repartition.value} side")
    return f" (repartitions {'its ' if only else ''}{what})" if only else f"repartitions {what}"


def _window(window: Window) -> str:
    whole = sql(Select((Star(),), SourceReference("S"), window=window))
    return whole.split(" WINDOW ", 1)[1]
