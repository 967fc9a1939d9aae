"""A persistent query asked again as a pull query, which gives the rows that the persistent one has written.

One runs as Spark SQL in Spark, the other in Python in the gateway. Compared are queries that pull queries can
be: of one stream, without groups and partitions, and without functions that give something else every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headrace.client.cluster import Cluster
from headrace.pipeline.catalogue.catalogue import Catalogue, Format
from headrace.pipeline.expressions.scope import PSEUDO_COLUMNS
from headrace.pipeline.expressions.walking import walk
from headrace.pipeline.formats import Schemas
from headrace.pipeline.serving.pull_queries import PullAnswer, PullQueries
from headrace.pipeline.serving.table_views import TableViews
from headrace.pipeline.statements.expressions import ColumnReference, FunctionCall
from headrace.pipeline.statements.parser import parse
from headrace.pipeline.statements.queries import Select
from headrace.pipeline.statements.tree import CreateAs, InsertSelect, Query, SourceKind, Statement
from tests.pipeline.functions.both_forms import encoded, equal
from tests.pipeline.functions.function_cases import MADE_ANEW

# In these formats an empty text and null, or times and numbers, may be the same.
_EXACT = (Format.JSON, Format.AVRO)


def compare_with_pull_queries(
    statements: Sequence[Statement], catalogue: Catalogue, cluster: Cluster, schemas: Schemas
) -> int:
    """The number of queries that were compared. Raises AssertionError where rows differ."""
    targets = {each.target for each in statements if isinstance(each, InsertSelect)}
    chosen = [
        each
        for each in statements
        if isinstance(each, CreateAs) and each.name not in targets and _is_pull_query(each, catalogue)
    ]
    pull = PullQueries(cluster=cluster, schemas=schemas, views=TableViews(cluster, schemas))
    for statement in chosen:
        asked = pull.answer(Query(replace(statement.query, emit=None), at=statement.at), catalogue, "")
        (whole,) = parse(f"SELECT * FROM `{statement.name}`;")
        assert isinstance(whole.statement, Query)
        written = pull.answer(whole.statement, catalogue, whole.text)
        names = [column.name for column in written.columns]
        found, expected = _rows(asked, names), _rows(written, names)
        assert equal(found, expected), (
            f"{statement.name}: the pull query gives {found}, the persistent query has written {expected}"
        )
    return len(chosen)


def _is_pull_query(statement: CreateAs, catalogue: Catalogue) -> bool:
    select = statement.query
    source, sink = catalogue.sources[select.source.name], catalogue.sources[statement.name]
    return (
        source.kind is SourceKind.STREAM
        and source.window is None
        and sink.value_encoding.format in _EXACT
        and not (select.joins or select.group_by or select.partition_by or select.window or select.having)
        and not _varies(select)
    )


def _varies(select: Select) -> bool:
    """Whether it names what is other for the other query: the place and time of a record, or chance."""
    return any(
        (isinstance(node, FunctionCall) and node.name in MADE_ANEW)
        or (isinstance(node, ColumnReference) and node.name in PSEUDO_COLUMNS)
        for node in walk(select)
    )


def _rows(answer: PullAnswer, names: list[str]) -> list[list[Any]]:
    places = [[column.name for column in answer.columns].index(name) for name in names]
    return sorted(([encoded(row[place]) for place in places] for row in answer.rows), key=repr)
