"""JSON: an object with the columns as fields, or the bare value of a single column that is not wrapped.

Field names are case-insensitive at every depth, as in ksqlDB; of two that differ only in case, the last one
wins. Written objects have all columns, with null if there is no value.
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
    unfit,
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
        # Spark cannot parse a bare value, so it is wrapped in an array.
        return fields_of(text) if self._wrapped else elements_of(F.concat(F.lit("["), text, F.lit("]")))

    def value(self, parsed: SparkColumn, column: Column) -> SparkColumn:
        return value_of(self._text(parsed, column), column.type)

    def reason(self, raw: SparkColumn, parsed: SparkColumn) -> SparkColumn:
        what = "a JSON object" if self._wrapped else "a JSON value"
        is_whole = parsed.isNotNull() if self._wrapped else F.coalesce(F.size(parsed) == 1, F.lit(False))
        reason = F.when(raw.isNotNull() & ~is_whole, F.lit(f"The {self._side} is not {what}."))
        for column in self._columns:
            reason = reason.when(*unfit(self._text(parsed, column), column, side=self._side))
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
        # Spark cannot write a bare value, so this takes the text between the brackets of an array.
        text = F.to_json(F.array(fields[0]), options)
        bare = F.substring(text, F.lit(2), F.length(text) - 2)
        return F.when(values[self._columns[0].name].isNotNull(), bare.cast("binary"))

    def reason(self, values: dict[str, SparkColumn]) -> SparkColumn | None:  # noqa: ARG002
        return None
