"""AVRO values in Confluent's wire format as rows: each record is read with the schema of its id.

The columns are the merge of all writer schemas, or those of an existing table. Each schema has its own field
in `parsed`, so Spark decodes a record once, and `value` fits it into the columns (`fitting.py`). Spark reads
bodies with a schema of our own (`lake/avro_bodies.py`), not with the columns' as the reader schema: Avro's
resolution would refuse a whole record for one field, and know neither enums as texts nor the names of
branches.

A record with an id that was unknown when the reader was made ends the query with `NEW_SCHEMA`, as everywhere
(`formats/avro_format.py`). Records that cannot be read make dead letters: their id is one that the registry
lacks, their schema cannot become columns, their body is damaged, or a value does not fit its column.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.avro.functions import from_avro

from headrace.core.errors import HeadraceError
from headrace.lake.avro_bodies import BODY, DECODED, body_schema
from headrace.lake.avro_columns import VALUE, columns_of_shape, record_in, shape_of
from headrace.lake.column_names import within
from headrace.lake.evolution import NEW_TABLE, Rules, evolved, merged
from headrace.lake.shapes import (
    MOST_DIGITS,
    Entries,
    Items,
    Leaf,
    Null,
    Record,
    Shape,
    Stored,
    Union,
    Values,
    digits_of,
    type_of,
)
from headrace.lake.types import Array, Decimal, Map, Struct, Type, ddl
from headrace.pipeline.spark.formats.avro_format import (
    WriterSchemas,
    end_for_new_schema,
    is_framed,
    prefix,
    schema_id_of,
)
from headrace.pipeline.spark.lake.fitting import (
    Expression,
    Fit,
    absent,
    alternatives,
    elements,
    fields,
    fields_of,
    map_values,
    misfit,
    null_of,
    single,
    spark_ddl,
    stored,
    then,
)
from headrace.pipeline.spark.lake.values import parsed_once


def columns_of_schemas(schemas: WriterSchemas, *, table: Struct | None, rules: Rules) -> Struct:
    """The columns for a topic with these schemas, in the order of their ids: the table's and new ones.

    Schemas that cannot become columns have none. `rules` are for an existing table, `table` is None for a new
    one.
    """
    found = [columns_of_shape(shape) for shape in _shapes(schemas)[0].values()]
    if table is None:
        return merged(found, rules=NEW_TABLE)
    for each in found:
        table = evolved(table, each, rules=rules).struct
    return table


class AvroValues:
    """Reads values, or keys, into the columns of `struct`. `side` is `value` or `key`, for the reasons."""

    def __init__(self, struct: Struct, *, schemas: WriterSchemas, side: str = "value") -> None:
        self.struct = struct
        self._schemas = schemas
        self._side = side
        self._shapes, self._refused = _shapes(schemas)
        self._fits = {schema_id: _row_fit(shape, struct) for schema_id, shape in self._shapes.items()}

    @property
    def schemas(self) -> WriterSchemas:
        """The writer schemas that it knows."""
        return self._schemas

    def parsed(self, raw: Column) -> Column:
        """A struct with a field for each schema; null but for the one of the record."""
        decoded = (
            F.when(_has_id(raw, schema_id), _decoded(raw, shape)).alias(_field(schema_id))
            for schema_id, shape in self._shapes.items()
        )
        return parsed_once(*decoded)

    def value(self, parsed: Column) -> Column:
        """A struct of the columns; null if the record is null or cannot be read."""
        found = F.when(F.lit(False), null_of(self.struct))
        for schema_id, fit in self._fits.items():
            of_schema = parsed[_field(schema_id)]
            made = fit.value(of_schema[BODY]).cast(spark_ddl(self.struct))
            found = found.when(_is_decoded(of_schema, self._shapes[schema_id]), made)
        return found

    def reason(self, raw: Column, parsed: Column) -> Column:
        side, number = self._side, schema_id_of(raw).cast("string")
        reason = F.when(raw.isNull(), F.lit(None).cast("string"))
        for schema_id, fit in self._fits.items():
            of_schema = parsed[_field(schema_id)]
            damaged = F.lit(f"The {side} cannot be read with the schema of its id {schema_id}.")
            is_read = _is_decoded(of_schema, self._shapes[schema_id])
            problem = F.lit(None) if fit.problem is None else fit.problem(of_schema[BODY])
            reason = reason.when(_has_id(raw, schema_id), F.when(~is_read, damaged).otherwise(problem))
        for schema_id, text in self._refused.items():
            reason = reason.when(_has_id(raw, schema_id), F.lit(text))
        return (
            reason.when(
                ~is_framed(raw),
                F.lit(
                    f"The {side} is not in Confluent's wire format: "
                    "it has no zero byte and schema id in front."
                ),
            )
            .when(
                self._is_absent(raw),
                F.concat(F.lit("The registry has no schema with id "), number, F.lit(".")),
            )
            .otherwise(end_for_new_schema(raw))
        )

    def _is_absent(self, raw: Column) -> Column:
        """Whether the registry is known to lack the schema of a record with an unknown id."""
        is_absent = F.lit(False)
        if self._schemas.absent:
            is_absent = is_absent | schema_id_of(raw).isin(*sorted(self._schemas.absent))
        if self._schemas.absent_from is not None:
            is_absent = is_absent | (schema_id_of(raw) >= self._schemas.absent_from)
        return is_absent


def _shapes(schemas: WriterSchemas) -> tuple[dict[int, Shape], dict[int, str]]:
    """The shapes by id, and why some schemas have none."""
    shapes: dict[int, Shape] = {}
    refused: dict[int, str] = {}
    for schema_id, text in sorted(schemas.by_id.items()):
        try:
            shapes[schema_id] = shape_of(text)
        except HeadraceError as error:
            refused[schema_id] = f"Schema {schema_id}: {error.message}"
    return shapes, refused


def _field(schema_id: int) -> str:
    return f"s{schema_id}"


def _has_id(raw: Column, schema_id: int) -> Column:
    return F.substring(raw, 1, 5) == prefix(schema_id)


def _decoded(raw: Column, shape: Shape) -> Column:
    body = F.substring(raw, F.lit(6), F.octet_length(raw))
    options = {"mode": "PERMISSIVE"}
    if _may_be_null(shape):
        # Resolving one schema against another takes twice the time.
        options["avroSchema"] = json.dumps(body_schema(shape, reads=True))
    return from_avro(body, json.dumps(body_schema(shape, reads=False)), options)


def _is_decoded(of_schema: Column, shape: Shape) -> Column:
    """Whether the body could be read. Spark gives null for one that could not."""
    return (
        F.coalesce(of_schema[DECODED], F.lit(False)) if _may_be_null(shape) else of_schema[BODY].isNotNull()
    )


def _may_be_null(shape: Shape) -> bool:
    return isinstance(shape, Null | Union)


def _row_fit(shape: Shape, struct: Struct) -> Fit:
    """From a body to the columns of a row."""
    if type_of(shape) is None:
        return absent(struct)
    if isinstance(record_in(shape), Record):
        return _fit(shape, struct, "")
    parts: list[tuple[str, Expression, Fit]] = []
    for column in struct.fields:
        is_ours = column.name.casefold() == VALUE
        fit = _fit(shape, column.type, VALUE) if is_ours else absent(column.type)
        parts.append((column.name, lambda body: body, fit))
    return fields_of(parts)


def _fit(shape: Shape, target: Type, path: str) -> Fit:  # noqa: PLR0911 - one for each shape
    match shape, target:
        case Null(), _:
            return absent(target)
        case Leaf(), _:
            return _leaf_fit(shape, target, path)
        case Record(), Struct():
            return _record_fit(shape, target, path)
        case Items(), Array():
            return elements(_fit(shape.element, target.element, f"{path}[]"))
        case Values(), Map():
            return map_values(_fit(shape.value, target.value, f"{path}[]"))
        case Entries(), Map():
            return _entries_fit(shape, target, path)
        case Union(), _ if shape.only is not None:
            return _fit(shape.only.shape, target, path)
        case Union(), _:
            return _union_fit(shape, target, path)
        case _:
            kind = type_of(shape)
            return absent(target) if kind is None else misfit(path, ddl(kind), target)


def _leaf_fit(leaf: Leaf, target: Type, path: str) -> Fit:
    source: Type = leaf.type
    if leaf.stored is Stored.DECIMAL:
        assert isinstance(source, Decimal)
        digits = digits_of(leaf.size) if leaf.form == "fixed" else MOST_DIGITS
        source = Decimal(precision=min(digits, MOST_DIGITS), scale=source.scale)
    return then(stored(leaf, path), single(source, target, path))


def _record_fit(record: Record, target: Struct, path: str) -> Fit:
    parts: list[tuple[str, Expression, Fit]] = []
    for column in target.fields:
        found = _position(record, column.name)
        at = within(path, column.name)
        fit = absent(column.type) if found is None else _fit(record.fields[found].shape, column.type, at)
        parts.append((column.name, partial(_part, name=f"f{found or 0}"), fit))
    return fields(parts, target)


def _position(record: Record, column: str) -> int | None:
    places = (at for at, part in enumerate(record.fields) if part.name.casefold() == column.casefold())
    return next(places, None)


def _part(value: Column, *, name: str) -> Column:
    return value[name]


def _entries_fit(shape: Entries, target: Map, path: str) -> Fit:
    key, value = f"f{shape.key}", f"f{shape.value}"
    inner = _fit(shape.entry.fields[shape.value].shape, target.value, f"{path}[]")
    has_null = F.lit(f"Field {path} has a null key, which a map cannot have.")

    def made(entries: Column) -> Column:
        named = F.filter(entries, lambda entry: entry[key].isNotNull())
        return F.map_from_entries(
            F.transform(
                named,
                lambda entry: F.struct(
                    F.make_valid_utf8(entry[key]).alias("key"), inner.value(entry[value]).alias("value")
                ),
            )
        )

    def problem(entries: Column) -> Column:
        found = F.when(F.exists(entries, lambda entry: entry[key].isNull()), has_null)
        of_values = elements(Fit(value=inner.value, problem=inner.problem)).problem
        if of_values is None:
            return found
        return F.coalesce(found, of_values(F.transform(entries, lambda entry: entry[value])))

    return Fit(value=made, problem=problem)


def _union_fit(union: Union, target: Type, path: str) -> Fit:
    """Spark has a struct of all branches but null, which are wrapped in records."""
    members: list[Callable[[Column], Column]] = [
        partial(_member, number=number) for number in range(len(union.others))
    ]
    if union.promoted is None and isinstance(target, Struct):
        parts: list[tuple[str, Expression, Fit]] = []
        for column in target.fields:
            names = [part.name.casefold() for part in union.others]
            at = names.index(column.name.casefold()) if column.name.casefold() in names else None
            if at is None:
                parts.append((column.name, members[0], absent(column.type)))
                continue
            fit = _fit(union.others[at].shape, column.type, within(path, column.name))
            parts.append((column.name, members[at], fit))
        return fields(parts, target)
    branches = [
        (found, _fit(part.shape, target, path)) for found, part in zip(members, union.others, strict=True)
    ]
    return alternatives(branches, target)


def _member(value: Column, *, number: int) -> Column:
    return value[f"member{number}"]["f0"]
