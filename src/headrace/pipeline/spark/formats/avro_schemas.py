"""Avro schemas for reading records of other writers; those for writing are in `avro_types.py`.

The reader schema is made for a writer schema and columns: it has only the wanted columns, under their names,
with the writer's names as aliases (matching is case-insensitive, as in ksqlDB), and with the writer's type if
Avro has several for one of ours (an enum for text, microseconds for time). Columns that the writer lacks are
null; a column with another type makes the record unreadable, as in ksqlDB.

Pure: schemas are JSON values here. Never asks a registry.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from headrace.pipeline.catalogue.catalogue import Column
from headrace.pipeline.formats.avro_types import NAME, nullable, own_type
from headrace.pipeline.statements.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    ScalarType,
    StructField,
    StructType,
)

# Avro sets its default if, and only if, a record could be read.
DECODED: Final = "HEADRACE_DECODED"

# Writers' types that Spark reads as the wanted one, in addition to our own.
_LOGICAL: Final = {
    ScalarType.DATE: {"date"},
    ScalarType.TIME: {"time-millis"},
    ScalarType.TIMESTAMP: {"timestamp-millis", "timestamp-micros"},
}


def reader_schema(writer: str, columns: Iterable[Column], *, wrapped: bool) -> Any:
    """The schema to read records of `writer` with, as a JSON value; see the module's docstring."""
    parsed = json.loads(writer)
    pairing = _Pairing()
    pairing.learn(parsed, "")
    if not wrapped:
        (column,) = columns
        return pairing.paired(parsed, column.type, column.name)
    row = StructType(tuple(StructField(column.name, column.type) for column in columns))
    schema = pairing.paired(parsed, row, NAME)
    record = next(each for each in (schema if isinstance(schema, list) else [schema]) if each != "null")
    record["fields"].append({"name": DECODED, "type": ["boolean", "null"], "default": True})
    return schema


def without_null(schema: Any) -> Any:
    """The other branch of a union with null."""
    if isinstance(schema, list):
        others = [branch for branch in schema if branch != "null"]
        return others[0] if len(others) == 1 else schema
    return schema


def fields_by_name(record: Any) -> dict[str, Any]:
    return {field["name"].upper(): field["type"] for field in record["fields"]}


def type_name(schema: Any) -> str:
    return str(schema["type"]) if isinstance(schema, dict) else str(schema)


class _Pairing:
    """One walk through a writer's schema along with the wanted types; knows the names that both define."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}
        self._full_names: dict[int, str] = {}
        self._defined: set[str] = set()
        self._given = 0

    def learn(self, schema: Any, namespace: str) -> None:
        """Note every named type of the writer, to resolve later references."""
        if isinstance(schema, list):
            for branch in schema:
                self.learn(branch, namespace)
        elif isinstance(schema, dict):
            if "name" in schema:
                namespace = schema.get("namespace", namespace)
                is_full = "." in schema["name"] or not namespace
                full = schema["name"] if is_full else f"{namespace}.{schema['name']}"
                self._full_names[id(schema)] = full
                self._named.setdefault(full, schema)
                self._named.setdefault(schema["name"], schema)
                namespace = full.rpartition(".")[0]
            for field in schema.get("fields", ()):
                self.learn(field["type"], namespace)
            for inner in ("items", "values", "type"):
                if isinstance(schema.get(inner), dict | list):
                    self.learn(schema[inner], namespace)

    def paired(self, writer: Any, kind: DataType, name: str) -> Any:  # noqa: PLR0911 - one for each shape
        schema = self._followed(writer)
        if isinstance(schema, list):
            branch = without_null(schema)
            if isinstance(branch, list):
                return nullable(own_type(kind, self._fresh(name)))
            return nullable(self.paired(branch, kind, name))
        form = type_name(schema)
        match kind:
            case StructType() if form == "record":
                return self._record(schema, kind)
            case ArrayType() if form == "array":
                return {"type": "array", "items": nullable(self.paired(schema["items"], kind.element, name))}
            case MapType() if form == "map":
                return {"type": "map", "values": nullable(self.paired(schema["values"], kind.value, name))}
            case MapType() if form == "array":
                return {"type": "array", "items": self._entry(schema["items"], kind)}
            case ScalarType.VARCHAR if form == "enum":
                return self._same(schema, "symbols")
            case ScalarType.BYTES if form == "fixed":
                return self._same(schema, "size")
            case DecimalType() if isinstance(schema, dict) and schema.get("logicalType") == "decimal":
                return schema
            case ScalarType() if isinstance(schema, dict) and schema.get("logicalType") in _LOGICAL.get(
                kind, set()
            ):
                return schema
            case _:
                return own_type(kind, self._fresh(name))

    def _record(self, writer: Any, kind: StructType) -> Any:
        theirs = {field["name"].upper(): field for field in writer["fields"]}
        fields = []
        for field in kind.fields:
            found = theirs.get(field.name.upper())
            if found is None:
                own = own_type(field.type, self._fresh(field.name))
                fields.append({"name": field.name, "type": nullable(own), "default": None})
                continue
            paired = nullable(self.paired(found["type"], field.type, field.name))
            aliases = {} if found["name"] == field.name else {"aliases": [found["name"]]}
            fields.append({"name": field.name, "type": paired, "default": None} | aliases)
        name = self._fresh(writer["name"])
        return {"type": "record", "name": name, "aliases": [self._full_names[id(writer)]], "fields": fields}

    def _same(self, writer: Any, part: str) -> Any:
        """An enum or fixed type of the writer, which Avro identifies by its full name."""
        full = self._full_names[id(writer)]
        if full in self._defined:
            return full
        self._defined.add(full)
        namespace, _, name = full.rpartition(".")
        return {"type": writer["type"], "name": name, "namespace": namespace, part: writer[part]}

    def _entry(self, writer: Any, kind: MapType) -> Any:
        entry = StructType((StructField("key", kind.key), StructField("value", kind.value)))
        return self.paired(without_null(self._followed(writer)), entry, "entry")

    def _followed(self, schema: Any) -> Any:
        if isinstance(schema, str):
            return self._named.get(schema, schema)
        if isinstance(schema, dict) and isinstance(schema.get("type"), dict | list):
            return self._followed(schema["type"])
        return schema

    def _fresh(self, name: str) -> str:
        """A unique name: Avro refuses to define a name twice.

        It has no namespace, which Avro would also apply to aliases without one, and then read nulls.
        """
        self._given += 1
        letters = "".join(letter if letter.isalnum() else "_" for letter in name)
        return f"HeadraceRead{self._given}_{letters}"
