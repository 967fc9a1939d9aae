"""Writes AVRO in Confluent's wire format, with one schema: our own, or one that somebody else registered.

Our own schema holds every row. Another may lack nulls, have enums or sizes, or have fields that no column
fills: those get their defaults, and a row that does not fit has a reason. `formats/avro_fit.py` says which
schemas hold which columns at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.avro.functions import from_avro, to_avro

from headrace.pipeline.catalogue.catalogue import Column
from headrace.pipeline.expressions.types_in_spark import spark_type
from headrace.pipeline.formats.avro_fit import Definitions, default_bytes, form_of, has_default
from headrace.pipeline.spark.formats.avro_format import prefix
from headrace.pipeline.statements.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    ScalarType,
    StructField,
    StructType,
)

# The largest number of 32 bits.
_LARGEST_FLOAT: Final = 3.4028234663852886e38


class AvroWriter:
    """Writes with one schema, which the registry has under `schema_id`, and which holds the columns."""

    def __init__(self, columns: tuple[Column, ...], *, wrapped: bool, schema: str, schema_id: int) -> None:
        self._columns = columns
        self._wrapped = wrapped
        self._text = schema
        self._schema: Any = json.loads(schema)
        self._schema_id = schema_id
        self._known = Definitions(self._schema)

    def written(self, values: dict[str, SparkColumn]) -> SparkColumn:
        if not self._wrapped:
            (column,) = self._columns
            value = values[column.name]
            body = to_avro(self._converted(value, self._schema, column.type), self._text)
            return F.when(value.isNotNull(), F.concat(prefix(self._schema_id), body))
        record, _ = self._known.branch(self._schema)
        kinds = {column.name.upper(): column.type for column in self._columns}
        fields = self._fields(record, {name.upper(): each for name, each in values.items()}, kinds)
        return F.concat(prefix(self._schema_id), to_avro(F.struct(*fields), self._text))

    def reason(self, values: dict[str, SparkColumn]) -> SparkColumn | None:
        if not self._wrapped:
            (column,) = self._columns
            # A row without a value has no bytes.
            value = values[column.name]
            found = self._why_not(value, self._schema, column.type, f"Column {column.name}")
            return None if found is None else F.when(value.isNotNull(), found)
        record, _ = self._known.branch(self._schema)
        types = {field["name"].upper(): field["type"] for field in record["fields"]}
        return _first(
            self._why_not(
                values[column.name], types[column.name.upper()], column.type, f"Column {column.name}"
            )
            for column in self._columns
        )

    # Values as the schema has them.

    def _fields(
        self, record: Any, values: dict[str, SparkColumn], kinds: dict[str, DataType]
    ) -> list[SparkColumn]:
        """The fields of a record; values and types are those of columns or fields, by upper-case name."""
        fields = []
        for field in record["fields"]:
            name = field["name"]
            if name.upper() in kinds:
                value = self._converted(values[name.upper()], field["type"], kinds[name.upper()])
                fields.append(value.alias(name))
            elif has_default(field):
                body, schema = default_bytes(self._known, field)
                fields.append(from_avro(F.lit(body), schema).alias(name))
        return fields

    def _converted(self, value: SparkColumn, schema: Any, kind: DataType) -> SparkColumn:  # noqa: PLR0911 - one for each type
        branch, _ = self._known.branch(schema)
        form = form_of(branch)
        if self._is_same(schema, kind):
            return value
        match kind:
            case ScalarType.VARCHAR:
                # Texts of other writers may hold any bytes; readers of Avro would fail on them.
                return F.make_valid_utf8(value)
            case ScalarType.INTEGER if form == "long":
                return value.cast("bigint")
            case ScalarType.DOUBLE if form == "float":
                return value.cast("float")
            case DecimalType():
                return value.try_cast(_decimal(branch))
            case ArrayType():
                return F.transform(value, lambda each: self._converted(each, branch["items"], kind.element))
            case MapType() if form == "map":
                texts = F.transform_keys(value, lambda key, _: F.make_valid_utf8(key))
                return F.transform_values(
                    texts, lambda _, each: self._converted(each, branch["values"], kind.value)
                )
            case MapType():
                entry, _ = self._known.branch(branch["items"])
                kinds: dict[str, DataType] = {"KEY": kind.key, "VALUE": kind.value}
                return F.transform(
                    F.map_entries(value),
                    lambda each: F.struct(
                        *self._fields(entry, {"KEY": each["key"], "VALUE": each["value"]}, kinds)
                    ),
                )
            case StructType(fields):
                values = {field.name.upper(): value[field.name] for field in fields}
                row = self._fields(branch, values, {each.name.upper(): each.type for each in fields})
                return F.when(value.isNotNull(), F.struct(*row))
            case _:
                return value

    def _is_same(self, schema: Any, kind: DataType) -> bool:
        """Whether Spark writes the value as it is."""
        branch, _ = self._known.branch(schema)
        form = form_of(branch)
        match kind:
            case ArrayType(element):
                return self._is_same(branch["items"], element)
            case MapType():
                return False
            case StructType(fields):
                types = {field["name"].upper(): field["type"] for field in branch["fields"]}
                return len(types) == len(fields) and all(
                    self._is_same(types[field.name.upper()], field.type) for field in fields
                )
            case DecimalType():
                return _decimal(branch) == spark_type(kind)
            case ScalarType.VARCHAR:
                return False
            case _:
                return form not in ("long", "float") or kind is ScalarType.BIGINT

    # Rows that do not fit.

    def _why_not(self, value: SparkColumn, schema: Any, kind: DataType, what: str) -> SparkColumn | None:
        branch, is_nullable = self._known.branch(schema)
        found: list[SparkColumn | None] = []
        if not is_nullable:
            found.append(self._unless(value.isNotNull(), f"{what} is null"))
        match kind:
            case ScalarType() | DecimalType():
                found.append(self._why_not_scalar(value, branch, kind, what))
            case ArrayType(element):
                found.append(self._why_no_element(value, branch["items"], element, what))
            case MapType(_, inner) if form_of(branch) == "map":
                found.append(self._why_no_element(F.map_values(value), branch["values"], inner, what))
            case MapType():
                entry, _ = self._known.branch(branch["items"])
                parts = StructType((StructField("key", kind.key), StructField("value", kind.value)))
                found.append(self._why_no_element(F.map_entries(value), entry, parts, what))
            case StructType(fields):
                types = {field["name"].upper(): field["type"] for field in branch["fields"]}
                inside = _first(
                    self._why_not(
                        value[each.name], types[each.name.upper()], each.type, f"{what}->{each.name}"
                    )
                    for each in fields
                )
                found.append(None if inside is None else F.when(value.isNotNull(), inside))
            case _:
                pass
        return _first(found)

    def _why_no_element(
        self, values: SparkColumn, schema: Any, kind: DataType, what: str
    ) -> SparkColumn | None:
        """Why an element of an array does not fit: the first reason."""
        inside = f"An element of {what[0].lower()}{what[1:]}"
        if self._why_not(F.lit(None), schema, kind, inside) is None:
            return None

        def reason(each: SparkColumn) -> SparkColumn:
            found = self._why_not(each, schema, kind, inside)
            assert found is not None
            return found

        reasons = F.filter(F.transform(values, reason), lambda each: each.isNotNull())
        return F.try_element_at(reasons, F.lit(1))

    def _why_not_scalar(
        self, value: SparkColumn, schema: Any, kind: DataType, what: str
    ) -> SparkColumn | None:
        form = form_of(schema)
        if form == "enum":
            return self._unless(value.isin(*schema["symbols"]), f"{what} is none of its symbols")
        if form == "fixed":
            size = schema["size"]
            return self._unless(F.octet_length(value) == size, f"{what} does not have {size} bytes")
        if form == "float":
            return self._unless(
                F.isnan(value) | (F.abs(value) == float("inf")) | (F.abs(value) <= _LARGEST_FLOAT),
                f"{what} is too large for a float",
            )
        if isinstance(kind, DecimalType) and _decimal(schema) != spark_type(kind):
            return self._unless(
                F.coalesce(value.try_cast(_decimal(schema)) == value, value.isNull()),
                f"{what} does not fit {_decimal(schema)}",
            )
        return None

    def _unless(self, fits: SparkColumn, problem: str) -> SparkColumn:
        """The reason where a value does not fit; null where it does, or where there is no value."""
        return F.when(~fits, F.lit(f"{problem}, which the schema with id {self._schema_id} does not allow."))


def _first(reasons: Iterable[SparkColumn | None]) -> SparkColumn | None:
    found = [each for each in reasons if each is not None]
    return F.coalesce(*found) if found else None


def _decimal(schema: Any) -> str:
    return f"DECIMAL({schema['precision']},{schema.get('scale', 0)})"
