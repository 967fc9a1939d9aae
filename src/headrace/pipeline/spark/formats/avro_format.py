"""AVRO in Confluent's wire format: a zero byte, the schema's id in four bytes, the Avro body.

A topic may contain records with different writer schemas; each is decoded by its own id (`avro_schemas.py`
makes the reader schema). A record with an id that was unknown when the query was planned ends the query with
`NEW_SCHEMA` in its error: the plan of a running query is fixed, so the query must restart to know the schema.
Records with ids that the registry is known to lack are unreadable. `avro_writing.py` writes records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.avro.functions import from_avro

from headrace.pipeline.catalogue.catalogue import Column
from headrace.pipeline.expressions.types_in_spark import spark_type
from headrace.pipeline.spark.formats.avro_schemas import (
    DECODED,
    fields_by_name,
    reader_schema,
    type_name,
    without_null,
)
from headrace.pipeline.spark.formats.text_values import is_out_of_range
from headrace.pipeline.statements.types import ArrayType, DataType, MapType, StructType

# Whether all dates and times of the record are in the range that is supported.
_IN_RANGE: Final = "__HEADRACE_IN_RANGE"
_NEW_SCHEMA: Final = "HEADRACE_NEW_SCHEMA"
_NEW_SCHEMA_PATTERN: Final = re.compile(rf"{_NEW_SCHEMA} (\d+)")


# Each id that the registry lacks ends a query once. More of them mean that somebody writes garbage.
_MOST_ABSENT: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterSchemas:
    """The writer schemas of a topic that are known when a query starts.

    `absent` are ids that the registry lacks; if there are too many to list, all from `absent_from` on count
    as absent.
    """

    by_id: Mapping[int, str] = field(default_factory=dict)
    absent: frozenset[int] = frozenset()
    absent_from: int | None = None


def writer_schemas(by_id: Mapping[int, str], *, absent: Iterable[int]) -> WriterSchemas:
    ids = sorted(absent)
    return WriterSchemas(
        by_id=by_id,
        absent=frozenset(ids[:_MOST_ABSENT]),
        absent_from=next(iter(ids[_MOST_ABSENT:]), None),
    )


def new_schema_id(error: str) -> int | None:
    """The id of the unknown schema that ended a query, if its error names one."""
    found = _NEW_SCHEMA_PATTERN.search(error)
    return int(found.group(1)) if found else None


class AvroReader:
    def __init__(
        self, columns: tuple[Column, ...], *, side: str, wrapped: bool, schemas: WriterSchemas
    ) -> None:
        self._columns = columns
        self._side = side
        self._wrapped = wrapped
        self._schemas = schemas

    def parsed(self, raw: SparkColumn) -> SparkColumn:
        """A struct of the columns and whether they could be read; null if the schema is not known."""
        parsed = F.when(raw.isNull(), F.lit(None))
        for schema_id, writer in self._schemas.by_id.items():
            parsed = parsed.when(F.substring(raw, 1, 5) == prefix(schema_id), self._decoded(raw, writer))
        if not self._schemas.by_id:
            # A CASE with only errors and nulls has no type.
            parsed = parsed.when(F.lit(False), self._nothing())
        return parsed.when(self._is_new(raw), end_for_new_schema(raw))

    def value(self, parsed: SparkColumn, column: Column) -> SparkColumn:
        return parsed[column.name]

    def reason(self, raw: SparkColumn, parsed: SparkColumn) -> SparkColumn:
        side = self._side
        known = self._is_known(raw)
        reason = (
            F.when(raw.isNull(), F.lit(None).cast("string"))
            # Here as well: Spark may evaluate only the reason, and drop the record before parsing it.
            .when(~known & self._is_new(raw), end_for_new_schema(raw))
            .when(
                ~is_framed(raw),
                F.lit(
                    f"The {side} is not in Confluent's wire format: "
                    "it has no zero byte and schema id in front."
                ),
            )
            .when(
                ~known,
                F.concat(
                    F.lit("The registry has no schema with id "), schema_id_of(raw).cast("string"), F.lit(".")
                ),
            )
            .when(
                F.coalesce(~parsed[DECODED], F.lit(True)),
                F.concat(
                    F.lit(f"The {side} cannot be read with the schema of its id "),
                    schema_id_of(raw).cast("string"),
                    F.lit("."),
                ),
            )
        )
        if not any(is_out_of_range(F.lit(None), column.type) is not None for column in self._columns):
            return reason
        text = f"A date of the {side} lies outside the years 1 to 9999, or a time outside the day."
        return reason.when(~parsed[_IN_RANGE], F.lit(text))

    def _is_known(self, raw: SparkColumn) -> SparkColumn:
        known = F.lit(False)
        for schema_id in self._schemas.by_id:
            known = known | (F.substring(raw, 1, 5) == prefix(schema_id))
        return known

    def _is_new(self, raw: SparkColumn) -> SparkColumn:
        """Whether the registry may have the schema of a record with an unknown id."""
        is_new = is_framed(raw)
        if self._schemas.absent:
            is_new = is_new & ~schema_id_of(raw).isin(*sorted(self._schemas.absent))
        if self._schemas.absent_from is not None:
            is_new = is_new & (schema_id_of(raw) < self._schemas.absent_from)
        return is_new

    def _decoded(self, raw: SparkColumn, writer: str) -> SparkColumn:
        schema = reader_schema(writer, self._columns, wrapped=self._wrapped)
        options = {"mode": "PERMISSIVE", "avroSchema": json.dumps(schema)}
        body = F.substring(raw, F.lit(6), F.octet_length(raw))
        # Inside a lambda the record is decoded only once, whatever the number of columns.
        rows = F.transform(F.array(from_avro(body, writer, options)), lambda value: self._row(value, schema))
        return F.element_at(rows, 1)

    def _row(self, value: SparkColumn, schema: Any) -> SparkColumn:
        if not self._wrapped:
            (column,) = self._columns
            only = _converted(value, schema, column.type).try_cast(spark_type(column.type))
            return F.struct(only.alias(column.name), value.isNotNull().alias(DECODED), self._in_range([only]))
        types = fields_by_name(without_null(schema))
        fields = [
            _converted(value[column.name], types[column.name.upper()], column.type).try_cast(
                spark_type(column.type)
            )
            for column in self._columns
        ]
        named = [each.alias(column.name) for each, column in zip(fields, self._columns, strict=True)]
        is_decoded = F.coalesce(value[DECODED], F.lit(False))
        return F.struct(*named, is_decoded.alias(DECODED), self._in_range(fields))

    def _in_range(self, fields: Sequence[SparkColumn]) -> SparkColumn:
        """Spark's reader takes any number of days; what comes after it need not."""
        is_out = F.lit(False)
        for each, column in zip(fields, self._columns, strict=True):
            found = is_out_of_range(each, column.type)
            is_out = is_out if found is None else is_out | found
        return (~is_out).alias(_IN_RANGE)

    def _nothing(self) -> SparkColumn:
        fields = [F.lit(None).cast(spark_type(column.type)).alias(column.name) for column in self._columns]
        return F.struct(*fields, F.lit(False).alias(DECODED), F.lit(True).alias(_IN_RANGE))


def _map_of_entries(entries: SparkColumn, inner: Callable[[SparkColumn], SparkColumn]) -> SparkColumn:
    named = F.filter(entries, lambda entry: entry["key"].isNotNull())
    return F.map_from_entries(F.transform(named, lambda entry: F.struct(entry["key"], inner(entry["value"]))))


def _converted(value: SparkColumn, schema: Any, kind: DataType) -> SparkColumn:
    """Makes maps of all entries in the value; Spark does everything else itself."""
    schema = without_null(schema)
    if not _has_entries(schema, kind):
        return value

    def inner(part: Any, part_kind: DataType) -> Callable[[SparkColumn], SparkColumn]:
        return lambda each: _converted(each, part, part_kind)

    match kind:
        case ArrayType():
            return F.transform(value, inner(schema["items"], kind.element))
        case MapType() if type_name(schema) == "array":
            types = fields_by_name(without_null(schema["items"]))
            return _map_of_entries(value, inner(types["VALUE"], kind.value))
        case MapType():
            of_value = inner(schema["values"], kind.value)
            return F.transform_values(value, lambda _, each: of_value(each))
        case StructType():
            types = fields_by_name(schema)
            fields = [
                inner(types[each.name.upper()], each.type)(value[each.name]).alias(each.name)
                for each in kind.fields
            ]
            return F.when(value.isNotNull(), F.struct(*fields))
        case _:
            return value


def _has_entries(schema: Any, kind: DataType) -> bool:
    """Whether it contains a map that is written as entries."""
    schema = without_null(schema)
    form = type_name(schema)
    match kind:
        case MapType():
            return form == "array" or (form == "map" and _has_entries(schema["values"], kind.value))
        case ArrayType() if form == "array":
            return _has_entries(schema["items"], kind.element)
        case StructType() if form == "record":
            types = fields_by_name(schema)
            return any(_has_entries(types[each.name.upper()], each.type) for each in kind.fields)
        case _:
            return False


def end_for_new_schema(raw: SparkColumn) -> SparkColumn:
    return F.raise_error(F.concat(F.lit(f"{_NEW_SCHEMA} "), schema_id_of(raw).cast("string")))


def prefix(schema_id: int) -> SparkColumn:
    """What precedes the body of a record."""
    return F.unhex(F.lit(f"00{schema_id:08x}"))


def is_framed(raw: SparkColumn) -> SparkColumn:
    return (F.octet_length(raw) >= 5) & (F.substring(raw, 1, 1) == F.unhex(F.lit("00")))


def schema_id_of(raw: SparkColumn) -> SparkColumn:
    return F.conv(F.hex(F.substring(raw, 2, 4)), 16, 10).cast("bigint")
