"""JSON values with schemas as rows: `{"schema": …, "payload": …}`, as Connect's JSON converter writes them.

Each record carries its schema, so each is read with its own, as with Avro. A reader knows the schemas that
`schemas_in` found; a record with another one ends the query, and the error has the schema (`restarts.py`), so
that the next start knows it. Schemas are compared as texts, with their fields in the order of Spark's
variants.

As in Connect, an object must have both fields; if both are null, the value is null. Defaults in the schema
are not used: a field without a value is null.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.avro.functions import from_avro

from headrace.core.errors import HeadraceError
from headrace.lake.avro_columns import VALUE, columns_of_shape
from headrace.lake.column_names import within
from headrace.lake.connect_schemas import connect_shape_of
from headrace.lake.evolution import NEW_TABLE, Rules, evolved, merged
from headrace.lake.shapes import MOST_DIGITS, Items, Leaf, Record, Shape, Stored, Values, type_of
from headrace.lake.types import Array, Decimal, Map, Simple, Struct, Type, ddl
from headrace.pipeline.spark.lake.fitting import (
    Expression,
    Fit,
    absent,
    fields_of,
    misfit,
    null_of,
    single,
    spark_ddl,
    stored,
    then,
)
from headrace.pipeline.spark.lake.values import parsed_once
from headrace.pipeline.spark.lake.variant_fitting import (
    array_fit,
    container_fit,
    elements_of,
    is_present,
    map_fit,
    members_of,
    object_fit,
    once,
    single_fit,
    string_in,
    variant_fit,
)
from headrace.pipeline.spark.restarts import NEW_JSON_SCHEMA

# The longest number that `from_avro` is given here has a length in one byte.
_MOST_BYTES: Final = 63


def schemas_in(frame: DataFrame, raw: str = "value") -> tuple[str, ...]:
    """All schemas in the binary column `raw`. Runs a Spark job."""
    parsed = _parsed(F.col(raw))
    rows = frame.select(parsed["schema"].alias("schema")).where("schema IS NOT NULL").distinct().collect()
    return tuple(sorted(str(row["schema"]) for row in rows))


def columns_of_envelopes(schemas: Iterable[str], *, table: Struct | None, rules: Rules) -> Struct:
    """The columns for values with these schemas, in that order: the table's and new ones.

    Schemas that cannot become columns have none. `rules` are for an existing table, `table` is None for a new
    one.
    """
    found = [columns_of_shape(shape) for shape in _shapes(schemas)[0].values()]
    if table is None:
        return merged(found, rules=NEW_TABLE)
    for each in found:
        table = evolved(table, each, rules=rules).struct
    return table


class EnvelopeValues:
    """Reads values, or keys, into the columns of `struct`."""

    def __init__(self, struct: Struct, *, schemas: Iterable[str], side: str = "value") -> None:
        self.struct = struct
        self._side = side
        self._shapes, self._refused = _shapes(schemas)
        self._fits = {text: _row_fit(shape, struct) for text, shape in self._shapes.items()}

    def parsed(self, raw: Column) -> Column:
        """Schema and payload; null if the value does not have exactly them."""
        return parsed_once(_parsed(raw).alias("envelope"))

    def value(self, parsed: Column) -> Column:
        envelope = parsed["envelope"]
        found = F.when(F.lit(False), null_of(self.struct))
        for text, fit in self._fits.items():
            made = fit.value(envelope["payload"]).cast(spark_ddl(self.struct))
            found = found.when(_has_schema(envelope, text) & is_present(envelope["payload"]), made)
        return found

    def reason(self, raw: Column, parsed: Column) -> Column:
        side, none = self._side, F.lit(None).cast("string")
        no_envelope = F.lit(f'The {side} is not a JSON object with the fields "schema" and "payload" only.')
        envelope = parsed["envelope"]
        reason = F.when(raw.isNull(), none).when(envelope.isNull(), no_envelope)
        reason = reason.when(
            envelope["schema"].isNull(),
            F.when(is_present(envelope["payload"]), F.lit(f"The {side} has no schema.")).otherwise(none),
        )
        for text, fit in self._fits.items():
            problem = none if fit.problem is None else fit.problem(envelope["payload"])
            reason = reason.when(_has_schema(envelope, text), problem)
        for text, refused in self._refused.items():
            reason = reason.when(_has_schema(envelope, text), F.lit(refused))
        schema = F.lower(F.hex(envelope["schema"].cast("binary")))
        return reason.otherwise(F.raise_error(F.concat(F.lit(f"{NEW_JSON_SCHEMA} "), schema, F.lit(" "))))


def _parsed(raw: Column) -> Column:
    text = F.make_valid_utf8(raw.cast("string"))
    return once(
        members_of(F.try_parse_json(text)),
        lambda members: F.when(
            (F.size(members) == 2)
            & F.map_contains_key(members, "schema")
            & F.map_contains_key(members, "payload"),
            _envelope(members),
        ),
    )


def _envelope(members: Column) -> Column:
    schema = F.try_element_at(members, F.lit("schema"))
    text = F.when(is_present(schema), schema.try_cast("string"))
    return F.struct(
        text.alias("schema"),
        F.md5(text.cast("binary")).alias("hash"),
        F.try_element_at(members, F.lit("payload")).alias("payload"),
    )


def _has_schema(envelope: Column, text: str) -> Column:
    digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    return envelope["hash"] == digest


def _shapes(schemas: Iterable[str]) -> tuple[dict[str, Shape], dict[str, str]]:
    """The shapes by schema, and why some have none."""
    shapes: dict[str, Shape] = {}
    refused: dict[str, str] = {}
    for text in schemas:
        try:
            shapes[text] = connect_shape_of(text)
        except HeadraceError as error:
            refused[text] = error.message
    return shapes, refused


def _row_fit(shape: Shape, struct: Struct) -> Fit:
    """From a payload to the columns of a row."""
    if isinstance(shape, Record) and not shape.is_pair:
        return _fit(shape, struct, "")
    parts: list[tuple[str, Expression, Fit]] = []
    for column in struct.fields:
        is_ours = column.name.casefold() == VALUE
        fit = _fit(shape, column.type, VALUE) if is_ours else absent(column.type)
        parts.append((column.name, lambda payload: payload, fit))
    return fields_of(parts)


def _fit(shape: Shape, target: Type, path: str) -> Fit:
    match shape, target:
        case Leaf(), _:
            return _leaf_fit(shape, target, path)
        case Record(), Struct():
            return _record_fit(shape, target, path)
        case Items(), Array():
            return array_fit(_fit(shape.element, target.element, f"{path}[]"), target, path)
        case Values(), Map():
            return map_fit(_fit(shape.value, target.value, f"{path}[]"), target, path)
        case _:
            kind = type_of(shape)
            return absent(target) if kind is None else _present_misfit(path, ddl(kind), target)


def _present_misfit(path: str, field: str, target: Type) -> Fit:
    """As `misfit`, but null in JSON is a value of Spark."""
    found = misfit(path, field, target)
    problem = found.problem
    assert problem is not None
    return Fit(value=found.value, problem=lambda value: problem(F.when(is_present(value), value)))


def _record_fit(record: Record, target: Struct, path: str) -> Fit:
    shapes = {part.name.casefold(): part.shape for part in record.fields}
    parts = []
    for column in target.fields:
        shape = shapes.get(column.name.casefold())
        at = within(path, column.name)
        parts.append((column.name, absent(column.type) if shape is None else _fit(shape, column.type, at)))
    if not record.is_pair:
        return object_fit(parts, target, path or VALUE)
    places = {"key": 0, "value": 1}
    made = fields_of([(name, _element(places.get(name.casefold(), 2)), fit) for name, fit in parts])
    return container_fit(made, _pair, target, path)


def _pair(value: Column) -> Column:
    return once(elements_of(value), lambda elements: F.when(F.size(elements) == 2, elements))


def _element(at: int) -> Expression:
    return lambda elements: F.get(elements, F.lit(at))


def _leaf_fit(leaf: Leaf, target: Type, path: str) -> Fit:
    source: Type = leaf.type
    match leaf.stored:
        case Stored.PLAIN:
            first = variant_fit(leaf.type, path)
        case Stored.DECIMAL:
            assert isinstance(leaf.type, Decimal)
            source = Decimal(precision=MOST_DIGITS, scale=leaf.type.scale)
            first = _decimal_fit(source, path)
        case _:
            number = Simple.INT if leaf.stored is Stored.DATE else Simple.BIGINT
            first = then(variant_fit(number, path), stored(leaf, path))
    return then(first, single(source, target, path))


def _decimal_fit(kind: Decimal, path: str) -> Fit:
    """The converter writes a decimal as Base64 of its unscaled bytes, or as a number (`decimal.format`)."""
    as_number = variant_fit(kind, path).value

    def converted(value: Column) -> Column:
        unscaled = F.try_to_binary(string_in(value), F.lit("base64"))
        return F.coalesce(_decimal(unscaled, kind), as_number(value))

    return single_fit(path, ddl(kind), null_of(kind), converted)


def _decimal(unscaled: Column, kind: Decimal) -> Column:
    """Spark makes decimals of bytes only when it reads Avro: a length, then the bytes."""
    schema: dict[str, Any] = {
        "type": "bytes",
        "logicalType": "decimal",
        "precision": kind.precision,
        "scale": kind.scale,
    }
    length = F.octet_length(unscaled)
    written = F.concat(F.unhex(F.lpad(F.hex(length * 2), 2, "0")), unscaled)
    return from_avro(
        F.when(length.between(1, _MOST_BYTES), written), json.dumps(schema), {"mode": "PERMISSIVE"}
    )
