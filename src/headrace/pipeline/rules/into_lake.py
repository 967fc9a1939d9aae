"""Plans the query that carries a stream into a table of the lake: every value column, with its type.

Keys are ignored. The folders of the table are named by the text of its partition columns, so these must have
a type whose text says everything about a value and can be read back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from headrace.core.errors import HeadraceError
from headrace.lake.layout import COORDINATE_COLUMNS, TableColumn, TableLayout
from headrace.pipeline.catalogue.catalogue import Catalogue, Encoding, Format, Source
from headrace.pipeline.expressions.types_in_spark import spark_type
from headrace.pipeline.plan import QueryPlan
from headrace.pipeline.rules.planning import plan_query
from headrace.pipeline.statements.parser import parse
from headrace.pipeline.statements.tree import Query
from headrace.pipeline.statements.types import DataType, DecimalType, ScalarType

_FOLDER_TYPES: Final = frozenset(
    {ScalarType.BOOLEAN, ScalarType.INTEGER, ScalarType.BIGINT, ScalarType.VARCHAR, ScalarType.DATE}
)


def plan_into_lake(
    source: Source,
    *,
    query_id: str,
    table: str,
    folder: Path,
    partition_columns: Sequence[str],
    date_columns: Sequence[str] = (),
) -> QueryPlan:
    """The plan of a query from this stream into the table, a folder below `folder`.

    Raises lake_unsupported if the columns do not make a table.
    """
    read = dataclasses.replace(source, key=(), key_encoding=Encoding(format=Format.NONE))
    (parsed,) = parse(f"SELECT * FROM `{read.name}` EMIT CHANGES;")
    assert isinstance(parsed.statement, Query)
    plan = plan_query(parsed.statement, Catalogue(sources={read.name: read}), text=parsed.text)
    types = {column.name: column.type for column in plan.sink.value}
    _check_names(table, list(types))
    _check_partitions(table, types, partition_columns)
    layout = TableLayout(
        name=table,
        path=folder / table,
        value_columns=tuple(TableColumn(name, spark_type(kind)) for name, kind in types.items()),
        partition_columns=tuple(partition_columns),
        date_columns=tuple(date_columns),
    )
    return dataclasses.replace(plan, query_id=query_id, lake_table=layout)


def _check_names(table: str, names: Sequence[str]) -> None:
    """Delta does not distinguish upper and lower case in the names of columns."""
    taken = {column.name.casefold() for column in COORDINATE_COLUMNS}
    for name in names:
        if name.casefold() in taken:
            raise HeadraceError(
                "lake_unsupported",
                f"Table {table} cannot have a column {name} of the stream: every table has one of its own.",
                remedy="Rename it with SELECT … AS in the statement that makes the stream.",
            )


def _check_partitions(table: str, types: dict[str, DataType], names: Sequence[str]) -> None:
    for name in names:
        if name not in types:
            raise HeadraceError(
                "lake_unsupported",
                f"Table {table} cannot be partitioned by {name}: there is no such column.",
                remedy=f"Its columns are {', '.join(types)}.",
            )
        kind = types[name]
        if kind not in _FOLDER_TYPES and not isinstance(kind, DecimalType):
            raise HeadraceError(
                "lake_unsupported",
                f"Table {table} cannot be partitioned by {name}, which is {kind}: "
                "its values do not make names of folders.",
                remedy="Convert it to text or to a date in the statement that makes the stream.",
            )
    if names and len(names) == len(types):
        raise HeadraceError(
            "lake_unsupported",
            f"Table {table} cannot be partitioned by all its columns.",
            remedy="Leave at least one column for its files.",
        )
