"""NONE: no bytes, no columns. Bytes of records are ignored."""

from __future__ import annotations

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812

from headrace.pipeline.catalogue.catalogue import Column
from headrace.pipeline.expressions.types_in_spark import spark_type


class NoneReader:
    def parsed(self, raw: SparkColumn) -> SparkColumn:  # noqa: ARG002
        return F.lit(None).cast("string")

    def value(self, parsed: SparkColumn, column: Column) -> SparkColumn:  # noqa: ARG002
        return F.lit(None).cast(spark_type(column.type))

    def reason(self, raw: SparkColumn, parsed: SparkColumn) -> SparkColumn:  # noqa: ARG002
        return F.lit(None).cast("string")


class NoneWriter:
    def written(self, values: dict[str, SparkColumn]) -> SparkColumn:  # noqa: ARG002
        return F.lit(None).cast("binary")

    def reason(self, values: dict[str, SparkColumn]) -> SparkColumn | None:  # noqa: ARG002
        return None
