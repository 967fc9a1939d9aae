"""JSON: an object with the columns as fields, or the bare value of a single column that is not wrapped.

Fields match without case at every depth, as in ksqlDB; the last of two that differ in case only counts.
Written objects name every column, with null where there is no value.
"""

from __future__ import annotations

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812

from headrace.pipeline.catalogue.catalogue import Column
from headrace.pipeline.spark.formats.text_values import (
    as_json_value,
    elements_of,
    field_of,
    fields_of,
    is_unfit,
    value_of,
)


class JsonReader:
    """`side` is `key` or `value`, for the reasons."""

    def __init__(self, columns: tuple[Column, ...], *, side: str, wrapped: bool) -> None:
        self._columns = columns
        self._side = side
        self._wrapped = wrapped

    def parsed(self, raw: SparkColumn) -> SparkColumn:
        text = raw.cast("string")
        # A bare value has no root that Spark could parse, so it becomes the one element of an array.
        return fields_of(text) if self._wrapped else elements_of(F.concat(F.lit("["), text, F.lit("]")))

    def value(self, parsed: SparkColumn, column: Column) -> SparkColumn:
        return value_of(self._text(parsed, column), column.type)

    def reason(self, raw: SparkColumn, parsed: SparkColumn) -> SparkColumn:
        what = "a JSON object" if self._wrapped else "a JSON value"
        is_whole = parsed.isNotNull() if self._wrapped else F.coalesce(F.size(parsed) == 1, F.lit(False))
        reason = F.when(raw.isNotNull() & ~is_whole, F.lit(f"The {self._side} is not {what}."))
        for column in self._columns:
            text = self._text(parsed, column)
            unfit = F.concat(
                F.lit(f"Column {column.name} of the {self._side} is no {column.type}: "),
                F.substring(text, 1, 100),
                F.lit("."),
            )
            reason = reason.when(is_unfit(text, column.type), unfit)
        return reason

    def _text(self, parsed: SparkColumn, column: Column) -> SparkColumn:
        return field_of(parsed, column.name) if self._wrapped else F.try_element_at(parsed, F.lit(1))


class JsonWriter:
    def __init__(self, columns: tuple[Column, ...], *, wrapped: bool) -> None:
        self._columns = columns
        self._wrapped = wrapped

    def written(self, values: dict[str, SparkColumn]) -> SparkColumn:
        fields = [
            as_json_value(values[column.name], column.type).alias(column.name) for column in self._columns
        ]
        options = {"ignoreNullFields": "false"}
        if self._wrapped:
            return F.to_json(F.struct(*fields), options).cast("binary")
        # Spark writes no bare value, but an array of one: what stands between the brackets.
        text = F.to_json(F.array(fields[0]), options)
        bare = F.substring(text, F.lit(2), F.length(text) - 2)
        return F.when(values[self._columns[0].name].isNotNull(), bare.cast("binary"))
