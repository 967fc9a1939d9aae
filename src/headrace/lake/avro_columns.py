"""Avro schemas as columns of the lake.

`shape_of` turns the text of a schema into what it stores (`shapes.py`); `columns_of` gives the columns. A
schema that is not a record becomes one column, `value`.

| Avro | column |
|---|---|
| boolean, int, long, float, double, string, bytes | BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, STRING, BINARY |
| enum; uuid as string | STRING |
| fixed; duration; uuid as fixed | BINARY |
| decimal | DECIMAL; beyond 38 digits DECIMAL(38, scale), and a number that does not fit is unreadable |
| date | DATE |
| time-millis, time-micros | INT, BIGINT: the number as stored, since Delta has no time of day |
| timestamp-millis, -micros, -nanos | TIMESTAMP, which has microseconds: the rest of nanos is cut off |
| local-timestamp-millis, -micros, -nanos | TIMESTAMP_NTZ |
| record, array, map | STRUCT, ARRAY, MAP |
| Connect's and ksqlDB's map as an array of entries | MAP if keys are texts, otherwise an ARRAY of entries |
| union with null | the other type; every column may be null |
| int and long; float and double; string and enums | BIGINT; DOUBLE; STRING |
| other unions | STRUCT with a field per branch, named after its type or record; one of them has the value |
| null, and records without fields | no column, as Parquet has no type for them |

Precisions beyond 38 are common: Connect's converter writes 64 if it knows none. Unknown logical types, and
decimals that Avro considers invalid, count as their plain type, as Avro says. Names in Connect's metadata
(`connect.name`, such as Debezium's times) change nothing: such values are numbers. Recursive records are
refused, since a column has a fixed depth.

Pure: never asks a registry. The text must contain every type that it names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from headrace.core.errors import HeadraceError
from headrace.lake.column_names import column_names, within
from headrace.lake.shapes import (
    MOST_DIGITS,
    Entries,
    Items,
    Leaf,
    Null,
    Part,
    Record,
    Shape,
    Stored,
    Union,
    Values,
    digits_of,
    type_of,
)
from headrace.lake.types import Decimal, Field, Simple, Struct

# The only column of values that are not records.
VALUE: Final = "value"
# A schema may use a record in many places, and so be far larger than its text.
_MOST_FIELDS: Final = 10_000
_MAP_ENTRY: Final = "MapEntry"
_CONNECT_ENTRY: Final = "io.confluent.connect.avro.MapEntry"
_PLAIN: Final[Mapping[str, Simple]] = {
    "boolean": Simple.BOOLEAN,
    "int": Simple.INT,
    "long": Simple.BIGINT,
    "float": Simple.FLOAT,
    "double": Simple.DOUBLE,
    "bytes": Simple.BINARY,
    "string": Simple.STRING,
}
_LOGICAL: Final[Mapping[tuple[str, str], tuple[Simple, Stored]]] = {
    ("int", "date"): (Simple.DATE, Stored.DATE),
    ("long", "timestamp-millis"): (Simple.TIMESTAMP, Stored.MILLIS),
    ("long", "timestamp-micros"): (Simple.TIMESTAMP, Stored.MICROS),
    ("long", "timestamp-nanos"): (Simple.TIMESTAMP, Stored.NANOS),
    ("long", "local-timestamp-millis"): (Simple.TIMESTAMP_NTZ, Stored.MILLIS),
    ("long", "local-timestamp-micros"): (Simple.TIMESTAMP_NTZ, Stored.MICROS),
    ("long", "local-timestamp-nanos"): (Simple.TIMESTAMP_NTZ, Stored.NANOS),
}
_PROMOTIONS: Final = (
    (frozenset({"int", "long"}), Simple.BIGINT),
    (frozenset({"float", "double"}), Simple.DOUBLE),
    (frozenset({"string", "enum"}), Simple.STRING),
)


def columns_of(schema: str) -> Struct:
    """The columns for records of the schema. Raises lake_unsupported."""
    return columns_of_shape(shape_of(schema))


def shape_of(schema: str) -> Shape:
    """What records of the schema store. Raises lake_unsupported."""
    try:
        parsed = json.loads(schema)
    except ValueError as error:
        raise _refused(f"it is not JSON: {error}") from error
    return _Walk().shape(parsed, namespace="", path="", inside=())


def columns_of_shape(shape: Shape) -> Struct:
    kind = type_of(shape)
    if kind is None:
        return Struct(fields=())
    if isinstance(record_in(shape), Record) and isinstance(kind, Struct):
        return kind
    return Struct(fields=(Field(name=VALUE, type=kind),))


def record_in(shape: Shape) -> Shape:
    """The shape, or the one that may be null."""
    return shape.only.shape if isinstance(shape, Union) and shape.only else shape


class _Walk:
    """One walk through a schema; knows the named types that it has passed."""

    def __init__(self) -> None:
        self._named: dict[str, tuple[Any, str]] = {}
        self._fields = 0

    def shape(  # noqa: PLR0911 - one for each form
        self, schema: Any, *, namespace: str, path: str, inside: tuple[str, ...]
    ) -> Shape:
        """`inside` are the names of the records around it."""
        match schema:
            case "null":
                return Null()
            case str() if schema in _PLAIN:
                return Leaf(type=_PLAIN[schema], form=schema)
            case str():
                return self._reference(schema, namespace=namespace, path=path, inside=inside)
            case list():
                return self._union(schema, namespace=namespace, path=path, inside=inside)
            case {"type": dict() | list() as inner}:
                return self.shape(inner, namespace=namespace, path=path, inside=inside)
            case {"type": "array", "items": items}:
                return self._array(schema, items, namespace=namespace, path=path, inside=inside)
            case {"type": "map", "values": values}:
                value = self.shape(values, namespace=namespace, path=f"{path}[]", inside=inside)
                return Values(value=value)
            case {"type": "record" | "error" | "enum" | "fixed", "name": str()}:
                return self._definition(schema, namespace=namespace, path=path, inside=inside)
            case {"type": str() as name} if name in _PLAIN:
                return _logical(schema, name)
            case {"type": str() as name}:
                return self.shape(name, namespace=namespace, path=path, inside=inside)
            case _:
                raise _refused(f"{_at(path)} is not an Avro type")

    def _reference(self, name: str, *, namespace: str, path: str, inside: tuple[str, ...]) -> Shape:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = full if full in self._named else name
        if found in inside:
            raise _refused(f"{_at(path)} contains the record {found} that it is in, without end")
        if found not in self._named:
            raise _refused(f"{_at(path)} is of type {name}, which it does not define")
        schema, space = self._named[found]
        return self._definition(schema, namespace=space, path=path, inside=inside)

    def _definition(self, schema: Any, *, namespace: str, path: str, inside: tuple[str, ...]) -> Shape:
        full = _full_name(schema, namespace)
        self._named[full] = (schema, namespace)
        if schema["type"] == "enum":
            return Leaf(type=Simple.STRING, form="enum", symbols=tuple(schema.get("symbols", ())))
        if schema["type"] == "fixed":
            return _logical(schema, "fixed")
        given = schema.get("fields", ())
        self._count(len(given))
        names = column_names((str(field["name"]) for field in given), path=path)
        space = full.rpartition(".")[0]
        fields = tuple(
            Part(
                name=name,
                source=str(field["name"]),
                shape=self.shape(
                    field["type"], namespace=space, path=within(path, field["name"]), inside=(*inside, full)
                ),
            )
            for name, field in zip(names, given, strict=True)
        )
        return Record(fields=fields)

    def _array(
        self, schema: Any, items: Any, *, namespace: str, path: str, inside: tuple[str, ...]
    ) -> Items | Entries:
        element = self.shape(items, namespace=namespace, path=f"{path}[]", inside=inside)
        record = record_in(element)
        if not isinstance(record, Record) or not self._is_entry(schema, items, namespace):
            return Items(element=element)
        places = {part.name: at for at, part in enumerate(record.fields)}
        if set(places) != {"key", "value"} or element is not record:
            return Items(element=element)
        key = record_in(record.fields[places["key"]].shape)
        if not isinstance(key, Leaf) or key.type is not Simple.STRING:
            return Items(element=element)
        return Entries(entry=record, key=places["key"], value=places["value"])

    def _is_entry(self, schema: Any, items: Any, namespace: str) -> bool:
        if isinstance(items, str):
            full = items if "." in items or not namespace else f"{namespace}.{items}"
            items, namespace = self._named.get(full, self._named.get(items, ({}, "")))
        if not isinstance(items, dict):
            # Entries are never null.
            return False
        marks = {schema.get("connect.internal.type"), items.get("connect.internal.type")}
        return _MAP_ENTRY in marks or ("name" in items and _full_name(items, namespace) == _CONNECT_ENTRY)

    def _union(self, schema: list[Any], *, namespace: str, path: str, inside: tuple[str, ...]) -> Union:
        if not schema:
            raise _refused(f"{_at(path)} is a union of nothing")
        if sum(branch != "null" for branch in schema) == 1:
            shapes = [self.shape(each, namespace=namespace, path=path, inside=inside) for each in schema]
            return Union(branches=tuple(Part(name="", shape=each) for each in shapes))
        self._count(len(schema))
        names = _branch_names(schema, namespace)
        columns = column_names(names, path=path or VALUE)
        shapes = [
            self.shape(each, namespace=namespace, path=within(path, name), inside=inside)
            for name, each in zip(columns, schema, strict=True)
        ]
        branches = tuple(Part(name=name, shape=each) for name, each in zip(columns, shapes, strict=True))
        plain = [shape for shape in shapes if not isinstance(shape, Null)]
        return Union(branches=branches, promoted=_promoted(plain))

    def _count(self, fields: int) -> None:
        self._fields += fields
        if self._fields > _MOST_FIELDS:
            raise _refused(f"it has more than {_MOST_FIELDS} fields")


def _logical(schema: Any, form: str) -> Leaf:
    name = schema.get("logicalType")
    size = int(schema.get("size", 0))
    if name == "decimal" and form in ("bytes", "fixed"):
        decimal = _decimal(schema, form, size)
        if decimal is not None:
            return Leaf(type=decimal, form=form, stored=Stored.DECIMAL, size=size)
    if isinstance(name, str) and (form, name) in _LOGICAL:
        kind, stored = _LOGICAL[form, name]
        return Leaf(type=kind, form=form, stored=stored)
    return Leaf(type=Simple.BINARY if form == "fixed" else _PLAIN[form], form=form, size=size)


def _decimal(schema: Any, form: str, size: int) -> Decimal | None:
    """None if the precision and scale are not what Avro allows."""
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision:
        return None
    if precision < 1 or (form == "fixed" and precision > digits_of(size)):
        return None
    if scale > MOST_DIGITS:
        raise _refused(f"a decimal has {scale} digits after the point, and a column at most {MOST_DIGITS}")
    return Decimal(precision=min(precision, MOST_DIGITS), scale=scale)


def _promoted(shapes: Sequence[Shape]) -> Simple | None:
    leaves = [each for each in shapes if isinstance(each, Leaf) and each.stored is Stored.PLAIN]
    if len(leaves) < len(shapes) or len(leaves) < 2:
        return None
    forms = {leaf.form for leaf in leaves}
    return next((kind for promotable, kind in _PROMOTIONS if forms <= promotable), None)


def _branch_names(schema: list[Any], namespace: str) -> list[str]:
    """The short names of named types, unless two of them have the same."""
    full = [_type_name(each, namespace) for each in schema]
    short = [name.rpartition(".")[2] for name in full]
    return [
        name if [each.casefold() for each in short].count(name.casefold()) == 1 else whole.replace(".", "_")
        for name, whole in zip(short, full, strict=True)
    ]


def _type_name(schema: Any, namespace: str) -> str:
    if isinstance(schema, str):
        return schema
    if not isinstance(schema, dict):
        raise _refused("a union contains a union")
    if isinstance(schema.get("type"), dict):
        return _type_name(schema["type"], namespace)
    return _full_name(schema, namespace) if "name" in schema else str(schema.get("type"))


def _full_name(schema: Any, namespace: str) -> str:
    name = str(schema["name"])
    if "." in name:
        return name
    space = schema.get("namespace", namespace)
    return f"{space}.{name}" if space else name


def _at(path: str) -> str:
    return f"field {path}" if path else "the schema"


def _refused(reason: str) -> HeadraceError:
    return HeadraceError("lake_unsupported", f"An Avro schema cannot become columns: {reason}.")
