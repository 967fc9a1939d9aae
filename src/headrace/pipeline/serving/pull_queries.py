"""Pull queries: the current rows of a table, or all rows of a stream so far, without Spark.

If WHERE fixes all key columns, the rows are looked up by key. Any other query scans the gateway's view of the
table, or the stream's topic from its beginning to its end. Conditions and columns are the Python forms of
what the rules plan, so a pull query accepts, refuses and computes what a kept query does.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, product, zip_longest
from typing import Any, Final

from headrace.client.cluster import Cluster
from headrace.client.errors import log_late
from headrace.client.reading import TopicReader
from headrace.pipeline.catalogue.catalogue import Catalogue, Column, Format, Source
from headrace.pipeline.expressions.compiling import typed
from headrace.pipeline.expressions.computed import Computed, Evaluate, Row
from headrace.pipeline.expressions.scope import Scope
from headrace.pipeline.expressions.types_in_spark import spark_name
from headrace.pipeline.expressions.values import ValueProblemError, coerced
from headrace.pipeline.formats import Schemas, Serializer
from headrace.pipeline.plan import Aggregate, Explode, Filter, Project, Read, Step, reads_of
from headrace.pipeline.rules.planning import plan_query
from headrace.pipeline.serving.row_times import row_time
from headrace.pipeline.serving.table_views import HEADERS, WRITTEN, TableViews, row_position
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.expressions import (
    ColumnReference,
    Comparison,
    ComparisonOperator,
    Expression,
    InList,
    Logical,
    LogicalOperator,
)
from headrace.pipeline.statements.queries import Select
from headrace.pipeline.statements.suggestions import did_you_mean
from headrace.pipeline.statements.tree import Query, SourceKind

_MOST_LOOKUPS: Final = 1_000
# In a stream's row, under a name that no column has.
_NO_VALUE: Final = "=> no value"


@dataclass(frozen=True, slots=True, kw_only=True)
class PullAnswer:
    """All rows. `keys` names the columns that are the table's key."""

    columns: tuple[Column, ...]
    keys: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PullQueries:
    cluster: Cluster
    schemas: Schemas
    views: TableViews
    timeout: float = 30.0

    def answer(self, statement: Query, catalogue: Catalogue, text: str) -> PullAnswer:
        """Raises StatementError, HeadraceError."""
        select = statement.select
        _check(select)
        source = catalogue.sources.get(select.source.name)
        if source is None:
            hint = did_you_mean(select.source.name, catalogue.sources)
            raise StatementError(f"{select.source.name} does not exist. {hint}".strip(), select.source.at)
        plan = plan_query(statement, catalogue, text=text)
        project = plan.root
        assert isinstance(project, Project)
        rows = _computed(project.input, self._rows(source, select.where, Scope(types=catalogue.types)))
        columns = [_python(each.value) for each in project.values]
        found = tuple(tuple(column(row) for column in columns) for row in islice(rows, select.limit))
        return PullAnswer(columns=plan.sink.columns, keys=_keys(project, reads_of(project)[0]), rows=found)

    def _rows(self, source: Source, where: Expression | None, scope: Scope) -> Iterator[Row]:
        rows = (
            self._stream_rows(source)
            if source.kind is SourceKind.STREAM
            else self._table_rows(source, where, scope)
        )
        return ({**row, **_headers(source, row[HEADERS])} for row in rows) if source.headers else rows

    def _table_rows(self, source: Source, where: Expression | None, scope: Scope) -> Iterator[Row]:
        keys = _fixed_keys(source, where, scope)
        # Others may write the same key in other bytes: JSON with spaces, Avro with another schema's id.
        if keys is None or source.key_encoding.format is not Format.KAFKA:
            yield from self.views.rows(source)
            return
        serializer = Serializer(source, self.schemas)
        for row in keys:
            yield from self.views.rows(source, serializer.key(row))

    def _stream_rows(self, source: Source) -> Iterator[Row]:
        ends = self.cluster.end_offsets(source.topic)
        serializer = Serializer(source, self.schemas)
        reader = TopicReader(self.cluster.bootstrap, source.topic, len(ends), from_beginning=True)
        deadline = time.monotonic() + self.timeout
        try:
            for record in reader.until(ends, self.timeout):
                if time.monotonic() > deadline:
                    raise log_late(self.cluster.bootstrap, f"read topic `{source.topic}`", self.timeout)
                try:
                    row = {**serializer.read_key(record.key()), **serializer.read_value(record.value())}
                    position = row_position(record)
                    time_of_row = _time_of(source, row, position, has_value=record.value() is not None)
                except ValueProblemError:
                    continue
                yield {**row, **position, "ROWTIME": time_of_row, _NO_VALUE: record.value() is None}
        finally:
            reader.close()


def _time_of(source: Source, row: Row, position: Row, *, has_value: bool) -> int:
    """A record without a value has no TIMESTAMP column, so its own timestamp counts."""
    if not has_value and source.timestamp is not None:
        return int(position[WRITTEN])
    return row_time(source, row, position[WRITTEN], position[HEADERS])


def _check(select: Select) -> None:
    refused = (
        (bool(select.joins), "JOIN"),
        (select.window is not None, "WINDOW"),
        (bool(select.group_by), "GROUP BY"),
        (bool(select.partition_by), "PARTITION BY"),
        (select.having is not None, "HAVING"),
    )
    for is_there, clause in refused:
        if is_there:
            raise StatementError(
                f"Pull queries don't support {clause} clauses.",
                select.at,
                remedy="Add EMIT CHANGES to issue a push query.",
            )


def _computed(step: Step, rows: Iterable[Row]) -> Iterator[Row]:
    """What the steps make of the source's rows."""
    match step:
        case Read():
            yield from rows
        case Filter():
            holds = _python(step.condition)
            # As in ksqlDB, a stream's record without a value passes no filter.
            given = (row for row in _computed(step.input, rows) if not row.get(_NO_VALUE))
            yield from (row for row in given if holds(row) is True)
        case Explode():
            for row in _computed(step.input, rows):
                yield from _exploded(step, row)
        case Aggregate():
            raise StatementError(
                "Pull queries don't support aggregate functions.",
                step.calls[0].value.at,
                remedy="Add EMIT CHANGES to issue a push query.",
            )
        case _:
            raise TypeError(f"a pull query has a step {type(step).__name__}")


def _exploded(step: Explode, row: Row) -> Iterator[Row]:
    """A row for each element of the longest array, nulls where others are shorter."""
    names = [each.name for each in step.functions]
    arrays = [_python(each.value)(row) for each in step.functions]
    for elements in zip_longest(*arrays):
        yield {**row, **dict(zip(names, elements, strict=True))}


def _python(value: Computed) -> Evaluate:
    assert value.python is not None, value.text
    return value.python


def _keys(project: Project, read: Read) -> tuple[str, ...]:
    """The columns of the answer that are columns of the source's key, as they are."""
    own = {spark_name(f"{read.alias}.{column.name}") for column in read.source.key}
    return tuple(each.name for each in project.values if each.value.spark in own)


def _headers(source: Source, headers: list[tuple[str, bytes | None]]) -> Row:
    last = dict(headers)
    return {
        column.name: [{"KEY": name, "VALUE": value} for name, value in headers]
        if column.header is None
        else last.get(column.header)
        for column in source.headers
    }


def _fixed_keys(source: Source, where: Expression | None, scope: Scope) -> list[dict[str, Any]] | None:
    """The keys that WHERE fixes, with all their columns; None if it leaves one open."""
    fixed: dict[str, list[Any]] = {}
    for condition in _conditions(where):
        name, values = _fixing(condition, scope)
        if name is not None and name not in fixed:
            fixed[name] = values
    columns = source.key
    if not columns or any(column.name not in fixed for column in columns):
        return None
    try:
        choices = [
            list(dict.fromkeys(coerced(value, column.type) for value in fixed[column.name]))
            for column in columns
        ]
    except (ValueProblemError, TypeError):
        return None
    keys = [
        {column.name: value for column, value in zip(columns, values, strict=True)}
        for values in islice(product(*choices), _MOST_LOOKUPS + 1)
    ]
    return keys if len(keys) <= _MOST_LOOKUPS else None


def _conditions(where: Expression | None) -> Iterator[Expression]:
    if isinstance(where, Logical) and where.operator is LogicalOperator.AND:
        yield from _conditions(where.left)
        yield from _conditions(where.right)
    elif where is not None:
        yield where


def _fixing(condition: Expression, scope: Scope) -> tuple[str | None, list[Any]]:
    if isinstance(condition, Comparison) and condition.operator is ComparisonOperator.EQUAL:
        for column, value in ((condition.left, condition.right), (condition.right, condition.left)):
            if isinstance(column, ColumnReference) and (known := _constant(value, scope)) is not None:
                return column.name, known
    if isinstance(condition, InList) and not condition.negated:
        values = [_constant(value, scope) for value in condition.values]
        if isinstance(condition.operand, ColumnReference) and all(value is not None for value in values):
            return condition.operand.name, [value[0] for value in values if value is not None]
    return None, []


def _constant(expression: Expression, scope: Scope) -> list[Any] | None:
    """Its value in a list, if it is constant and not null."""
    try:
        value = typed(expression, scope).python({})
    except StatementError:
        return None
    return [value] if value is not None else None
