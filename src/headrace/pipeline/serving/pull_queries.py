"""Pull queries: what a table holds now, or what a stream has held so far, answered without Spark.

A query whose WHERE fixes all key columns is looked up; any other is a scan of the gateway's view of the
table, or of the stream's topic from its beginning to its end.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, Final

from headrace.client.cluster import Cluster
from headrace.client.errors import log_late
from headrace.client.reading import TopicReader, row_position
from headrace.pipeline.catalogue.catalogue import Catalogue, Column, Format, Source
from headrace.pipeline.expressions.evaluation import evaluated, is_true
from headrace.pipeline.expressions.scope import WINDOW_COLUMNS
from headrace.pipeline.expressions.values import ValueProblemError, coerced
from headrace.pipeline.formats import Schemas, Serializer
from headrace.pipeline.rules.planning import plan_query
from headrace.pipeline.serving.table_views import Row, TableViews
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
from headrace.pipeline.statements.queries import Select, SelectExpression, Star
from headrace.pipeline.statements.suggestions import did_you_mean
from headrace.pipeline.statements.tree import Query, SourceKind

_MOST_LOOKUPS: Final = 1_000
_POLL_SECONDS: Final = 0.2


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
        expressions = _expressions(select, source)
        rows: Iterable[Row] = self._rows(source, select.where)
        if select.where is not None:
            where = select.where
            rows = (row for row in rows if is_true(where, row))
        found = tuple(
            tuple(evaluated(expression, row) for expression in expressions)
            for row in islice(rows, select.limit)
        )
        own_keys = {column.name for column in source.key}
        keys = tuple(
            column.name
            for column, expression in zip(plan.sink.columns, expressions, strict=True)
            if isinstance(expression, ColumnReference) and expression.name in own_keys
        )
        return PullAnswer(columns=plan.sink.columns, keys=keys, rows=found)

    def _rows(self, source: Source, where: Expression | None) -> Iterator[Row]:
        if source.kind is SourceKind.STREAM:
            yield from self._stream_rows(source)
            return
        keys = _fixed_keys(source, where)
        # An Avro key has its schema's id in its bytes, which may be another than ours.
        if keys is None or source.key_encoding.format is Format.AVRO:
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
                except ValueProblemError:
                    continue
                yield {**row, **row_position(record)}
        finally:
            reader.close()


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


def _expressions(select: Select, source: Source) -> list[Expression]:
    """One for each column of the answer."""
    expressions: list[Expression] = []
    for item in select.items:
        if isinstance(item, Star):
            expressions += [ColumnReference(name) for name in _star(source)]
        elif isinstance(item, SelectExpression):
            expressions.append(item.expression)
        else:
            raise StatementError("Pull queries don't support ->*.", item.at)
    return expressions


def _star(source: Source) -> list[str]:
    keys = [column.name for column in source.key]
    windows = list(WINDOW_COLUMNS) if source.window is not None else []
    return keys + windows + [column.name for column in source.value]


def _fixed_keys(source: Source, where: Expression | None) -> list[Row] | None:
    """The keys that a WHERE names, all their columns; None if it leaves one open."""
    fixed: dict[str, list[Any]] = {}
    for condition in _conditions(where):
        name, values = _fixing(condition)
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


def _fixing(condition: Expression) -> tuple[str | None, list[Any]]:
    if isinstance(condition, Comparison) and condition.operator is ComparisonOperator.EQUAL:
        for column, value in ((condition.left, condition.right), (condition.right, condition.left)):
            if isinstance(column, ColumnReference) and (known := _constant(value)) is not None:
                return column.name, known
    if isinstance(condition, InList) and not condition.negated:
        values = [_constant(value) for value in condition.values]
        if isinstance(condition.operand, ColumnReference) and all(value is not None for value in values):
            return condition.operand.name, [value[0] for value in values if value is not None]
    return None, []


def _constant(expression: Expression) -> list[Any] | None:
    """Its value in a list, if it has one without a row and is not null."""
    try:
        value = evaluated(expression, {})
    except StatementError:
        return None
    return [value] if value is not None else None
