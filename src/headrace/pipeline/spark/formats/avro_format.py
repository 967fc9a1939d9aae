"""AVRO in Confluent's wire format: a zero byte, the schema's id in four bytes, the Avro body.

A topic may hold records of several writers' schemas: each is decoded by its own id (`avro_schemas.py` says
with which reader schema). A record with an id that was not known when the query was planned ends the query
with `NEW_SCHEMA` in its error: the plan of a running query is fixed, so it has to start again and know more.
What is known not to be in the registry makes records unreadable instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.avro.functions import from_avro, to_avro

from headrace.pipeline.catalogue.catalogue import Column
from headrace.pipeline.expressions.types_in_spark import spark_type
from headrace.pipeline.spark.formats.avro_schemas import (
    DECODED,
    fields_by_name,
    reader_schema,
    type_name,
    without_null,
)
from headrace.pipeline.statements.types import ArrayType, DataType, MapType, StructType

_NEW_SCHEMA: Final = "HEADRACE_NEW_SCHEMA"
_NEW_SCHEMA_PATTERN: Final = re.compile(rf"{_NEW_SCHEMA} (\d+)")


# Each id that the registry has not ends a query once. With more of them somebody writes nonsense.
_MOST_ABSENT: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterSchemas:
    """What is known of a topic's writers when a query starts.

    `absent` are ids that the registry has not; where there are too many of them to name, all from
    `absent_from` on count as such.
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
    """The schema id for want of which a query ended, if that is what its error says."""
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
        """A struct of the columns and whether it could be read; null where the schema is not known."""
        parsed = F.when(raw.isNull(), F.lit(None))
        for schema_id, writer in self._schemas.by_id.items():
            parsed = parsed.when(F.substring(raw, 1, 5) == _prefix(schema_id), self._decoded(raw, writer))
        if not self._schemas.by_id:
            # A CASE of nothing but errors and nulls has no type.
            parsed = parsed.when(F.lit(False), self._nothing())
        return parsed.when(self._is_new(raw), _end_for_new_schema(raw))

    def value(self, parsed: SparkColumn, column: Column) -> SparkColumn:
        return parsed[column.name]

    def reason(self, raw: SparkColumn, parsed: SparkColumn) -> SparkColumn:
        side = self._side
        known = self._is_known(raw)
        return (
            F.when(raw.isNull(), F.lit(None).cast("string"))
            # Here too: Spark may look at the reason of a record alone, and drop it before it is parsed.
            .when(~known & self._is_new(raw), _end_for_new_schema(raw))
            .when(
                ~_is_framed(raw),
                F.lit(
                    f"The {side} is not in Confluent's wire format: "
                    "it has no zero byte and schema id in front."
                ),
            )
            .when(
                ~known,
                F.concat(
                    F.lit("The registry has no schema with id "), _schema_id(raw).cast("string"), F.lit(".")
                ),
            )
            .when(
                F.coalesce(~parsed[DECODED], F.lit(True)),
                F.concat(
                    F.lit(f"The {side} cannot be read with the schema of its id "),
                    _schema_id(raw).cast("string"),
                    F.lit("."),
                ),
            )
        )

    def _is_known(self, raw: SparkColumn) -> SparkColumn:
        known = F.lit(False)
        for schema_id in self._schemas.by_id:
            known = known | (F.substring(raw, 1, 5) == _prefix(schema_id))
        return known

    def _is_new(self, raw: SparkColumn) -> SparkColumn:
        """Of a record whose schema is not known: whether the registry may have it."""
        is_new = _is_framed(raw)
        if self._schemas.absent:
            is_new = is_new & ~_schema_id(raw).isin(*sorted(self._schemas.absent))
        if self._schemas.absent_from is not None:
            is_new = is_new & (_schema_id(raw) < self._schemas.absent_from)
        return is_new

    def _decoded(self, raw: SparkColumn, writer: str) -> SparkColumn:
        schema = reader_schema(writer, self._columns, wrapped=self._wrapped)
        options = {"mode": "PERMISSIVE", "avroSchema": json.dumps(schema)}
        body = F.substring(raw, F.lit(6), F.octet_length(raw))
        # Inside a lambda the record is decoded once, however many columns are taken out of it.
        rows = F.transform(F.array(from_avro(body, writer, options)), lambda value: self._row(value, schema))
        return F.element_at(rows, 1)

    def _row(self, value: SparkColumn, schema: Any) -> SparkColumn:
        if not self._wrapped:
            (column,) = self._columns
            fields = [_from_avro_value(value, schema, column.type).try_cast(spark_type(column.type))]
            return F.struct(fields[0].alias(column.name), value.isNotNull().alias(DECODED))
        types = fields_by_name(without_null(schema))
        fields = [
            _from_avro_value(value[column.name], types[column.name.upper()], column.type)
            .try_cast(spark_type(column.type))
            .alias(column.name)
            for column in self._columns
        ]
        return F.struct(*fields, F.coalesce(value[DECODED], F.lit(False)).alias(DECODED))

    def _nothing(self) -> SparkColumn:
        fields = [F.lit(None).cast(spark_type(column.type)).alias(column.name) for column in self._columns]
        return F.struct(*fields, F.lit(False).alias(DECODED))


class AvroWriter:
    """Writes with one schema, which the registry has under `schema_id`."""

    def __init__(self, columns: tuple[Column, ...], *, wrapped: bool, schema: str, schema_id: int) -> None:
        self._columns = columns
        self._wrapped = wrapped
        self._schema = schema
        self._schema_id = schema_id

    def written(self, values: dict[str, SparkColumn]) -> SparkColumn:
        schema = json.loads(self._schema)
        if not self._wrapped:
            (column,) = self._columns
            value = values[column.name]
            body = to_avro(_to_avro_value(value, schema, column.type), self._schema)
            return F.when(value.isNotNull(), F.concat(_prefix(self._schema_id), body))
        types = fields_by_name(without_null(schema))
        fields = [
            _to_avro_value(values[column.name], types[column.name.upper()], column.type).alias(column.name)
            for column in self._columns
        ]
        return F.concat(_prefix(self._schema_id), to_avro(F.struct(*fields), self._schema))


def _from_avro_value(value: SparkColumn, schema: Any, kind: DataType) -> SparkColumn:
    """Entries become a map; everything else Spark has already read as it should be."""
    schema = without_null(schema)
    if not _has_entries(schema, kind):
        return value
    match kind:
        case ArrayType():
            return F.transform(
                value, lambda element: _from_avro_value(element, schema["items"], kind.element)
            )
        case MapType() if type_name(schema) == "array":
            types = fields_by_name(without_null(schema["items"]))
            entries = F.transform(
                F.filter(value, lambda entry: entry["key"].isNotNull()),
                lambda entry: F.struct(
                    entry["key"], _from_avro_value(entry["value"], types["VALUE"], kind.value)
                ),
            )
            return F.map_from_entries(entries)
        case MapType():
            return F.transform_values(
                value, lambda _, each: _from_avro_value(each, schema["values"], kind.value)
            )
        case StructType():
            types = fields_by_name(schema)
            fields = [
                _from_avro_value(value[each.name], types[each.name.upper()], each.type).alias(each.name)
                for each in kind.fields
            ]
            return F.when(value.isNotNull(), F.struct(*fields))
        case _:
            return value


def _to_avro_value(value: SparkColumn, schema: Any, kind: DataType) -> SparkColumn:
    """The inverse of `_from_avro_value`."""
    schema = without_null(schema)
    if not _has_entries(schema, kind):
        return value
    match kind:
        case ArrayType():
            return F.transform(value, lambda element: _to_avro_value(element, schema["items"], kind.element))
        case MapType() if type_name(schema) == "array":
            types = fields_by_name(without_null(schema["items"]))
            return F.transform(
                F.map_entries(value),
                lambda entry: F.struct(
                    entry["key"].alias("key"),
                    _to_avro_value(entry["value"], types["VALUE"], kind.value).alias("value"),
                ),
            )
        case MapType():
            return F.transform_values(
                value, lambda _, each: _to_avro_value(each, schema["values"], kind.value)
            )
        case StructType():
            types = fields_by_name(schema)
            fields = [
                _to_avro_value(value[each.name], types[each.name.upper()], each.type).alias(each.name)
                for each in kind.fields
            ]
            return F.when(value.isNotNull(), F.struct(*fields))
        case _:
            return value


def _has_entries(schema: Any, kind: DataType) -> bool:
    """Whether a map in there is written as entries."""
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


def _end_for_new_schema(raw: SparkColumn) -> SparkColumn:
    return F.raise_error(F.concat(F.lit(f"{_NEW_SCHEMA} "), _schema_id(raw).cast("string")))


def _prefix(schema_id: int) -> SparkColumn:
    return F.unhex(F.lit(f"00{schema_id:08x}"))


def _is_framed(raw: SparkColumn) -> SparkColumn:
    return (F.octet_length(raw) >= 5) & (F.substring(raw, 1, 1) == F.unhex(F.lit("00")))


def _schema_id(raw: SparkColumn) -> SparkColumn:
    return F.conv(F.hex(F.substring(raw, 2, 4)), 16, 10).cast("bigint")
