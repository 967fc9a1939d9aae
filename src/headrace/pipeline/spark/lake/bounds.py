"""Bounds as Spark sees them: which rows are suspects, and which suspects the table already has (the rule is
in `lake/positions.py`).

Bounds are joined as a broadcast table, so that many partitions and incarnations of topics do not slow the
rows down. Without bounds, rows pass as they are. Never writes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headrace.lake import layout
from headrace.lake.positions import Position, Source

logger = logging.getLogger(__name__)

IS_SUSPECT: Final = "__IS_SUSPECT"
SOURCE_COLUMNS: Final = [layout.QUERY, layout.SOURCE_TOPIC_ID, layout.SOURCE_PARTITION]
COORDINATES: Final = [*SOURCE_COLUMNS, layout.SOURCE_OFFSET, layout.SOURCE_ORDINAL]

_BOUND: Final = "__BOUND"


def with_suspects(rows: DataFrame, bounds: Mapping[Source, Position]) -> DataFrame:
    """The rows with a flag: whether only the rows of the table can tell if it has them."""
    if not bounds:
        return rows.withColumn(IS_SUSPECT, F.lit(False))
    joined = rows.join(F.broadcast(_table(rows.sparkSession, bounds)), on=SOURCE_COLUMNS, how="left")
    return joined.withColumn(IS_SUSPECT, F.coalesce(_position() <= F.col(_BOUND), F.lit(False))).drop(_BOUND)


def without_known(suspects: DataFrame, table: str) -> DataFrame:
    """The suspects that the table does not have, each once. `table` is its URI."""
    lowest, highest = suspects.agg(F.min(layout.SOURCE_OFFSET), F.max(layout.SOURCE_OFFSET)).first() or (0, 0)
    known = (
        suspects.sparkSession.read.format("delta")
        .load(table)
        .filter(F.col(layout.SOURCE_OFFSET).between(lowest, highest))
        .select(*COORDINATES)
    )
    logger.info("looking up rows between source offsets %s and %s in the table", lowest, highest)
    return suspects.dropDuplicates(COORDINATES).join(known, on=COORDINATES, how="left_anti")


def bounds_of_rows(spark: SparkSession, table: str, *, version: int | None = None) -> dict[Source, Position]:
    """The highest position of each source in the table with this URI, or in an older version of it: reads all
    its rows, but few columns.

    Rows without coordinates, which only somebody else can have written, are no record of a topic.
    """
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    rows = (
        reader.load(table)
        .dropna(subset=COORDINATES)
        .groupBy(*SOURCE_COLUMNS)
        .agg(F.max(_position()).alias("highest"))
        .collect()
    )
    return {_source(row): _as_position(row["highest"]) for row in rows}


def _table(spark: SparkSession, bounds: Mapping[Source, Position]) -> DataFrame:
    # An inline table stays on the driver; createDataFrame would need another job.
    offset, ordinal = layout.SOURCE_OFFSET, layout.SOURCE_ORDINAL
    values = ", ".join(
        f"({sql_text(source.query)}, {sql_text(source.topic_id)}, {source.partition}, "
        f"named_struct('{offset}', {position.offset}L, '{ordinal}', {position.ordinal}))"
        for source, position in bounds.items()
    )
    names = ", ".join(f"`{name}`" for name in (*SOURCE_COLUMNS, _BOUND))
    return spark.sql(f"SELECT * FROM VALUES {values} AS bounds({names})")


def sql_text(value: str) -> str:
    """A literal of Spark SQL."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _position() -> Column:
    return F.struct(layout.SOURCE_OFFSET, layout.SOURCE_ORDINAL)


def _as_position(row: Row) -> Position:
    return Position(offset=row[layout.SOURCE_OFFSET], ordinal=row[layout.SOURCE_ORDINAL])


def _source(row: Row) -> Source:
    return Source(
        query=row[layout.QUERY], topic_id=row[layout.SOURCE_TOPIC_ID], partition=row[layout.SOURCE_PARTITION]
    )
