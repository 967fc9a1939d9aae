"""Marks as Spark sees them: two flags per row, `__IS_REPEATED` and `__IS_SUSPECT` (the rule is
`Marks.holds`).

The marks are joined as broadcast tables, so growing numbers of partitions and incarnations of topics do not
slow the rows down.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headrace.lake import layout
from headrace.lake.marks import Lane, Marks, Position, Source

IS_REPEATED: Final = "__IS_REPEATED"
IS_SUSPECT: Final = "__IS_SUSPECT"
SOURCE_COLUMNS: Final = [layout.QUERY, layout.SOURCE_TOPIC_ID, layout.SOURCE_PARTITION]

_MARK: Final = "__MARK"
_BOUND: Final = "__BOUND"


def with_marks(rows: DataFrame, marks: Marks) -> DataFrame:
    """The rows with both flags."""
    spark = rows.sparkSession
    position = F.struct(layout.SOURCE_OFFSET, layout.SOURCE_ORDINAL)
    repeated = F.lit(False)
    suspect = F.lit(False)
    if marks.lanes:
        rows = rows.join(
            F.broadcast(_lane_table(spark, marks.lanes)),
            on=[*SOURCE_COLUMNS, layout.TOPIC_PARTITION],
            how="left",
        )
        repeated = F.coalesce(position <= F.col(_MARK), F.lit(False))
    if marks.bounds:
        rows = rows.join(F.broadcast(_bound_table(spark, marks.bounds)), on=SOURCE_COLUMNS, how="left")
        suspect = ~repeated & F.coalesce(position <= F.col(_BOUND), F.lit(False))
    return rows.withColumn(IS_REPEATED, repeated).withColumn(IS_SUSPECT, suspect).drop(_MARK, _BOUND)


def _lane_table(spark: SparkSession, lanes: Mapping[Lane, Position]) -> DataFrame:
    values = [
        f"({_source_values(lane.source)}, {lane.topic_partition}, {_position_value(p)})"
        for lane, p in lanes.items()
    ]
    return _table(spark, values, [*SOURCE_COLUMNS, layout.TOPIC_PARTITION, _MARK])


def _bound_table(spark: SparkSession, bounds: Mapping[Source, Position]) -> DataFrame:
    values = [f"({_source_values(source)}, {_position_value(p)})" for source, p in bounds.items()]
    return _table(spark, values, [*SOURCE_COLUMNS, _BOUND])


def _table(spark: SparkSession, values: list[str], columns: list[str]) -> DataFrame:
    # An inline table stays on the driver; createDataFrame would need another job for the marks.
    return spark.sql(
        f"SELECT * FROM VALUES {', '.join(values)} AS marks({', '.join(f'`{name}`' for name in columns)})"
    )


def _source_values(source: Source) -> str:
    return f"{_text(source.query)}, {_text(source.topic_id)}, {source.partition}"


def _position_value(position: Position) -> str:
    offset, ordinal = layout.SOURCE_OFFSET, layout.SOURCE_ORDINAL
    return f"named_struct('{offset}', {position.offset}L, '{ordinal}', {position.ordinal})"


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
