"""How columns fit an Avro schema that somebody else registered (VALUE_SCHEMA_ID, KEY_SCHEMA_ID).

A schema that cannot hold a column, or has a field without a default that no column fills, is refused at the
statement. What depends on the row (a null where the schema has none, an unknown symbol of an enum, the size
of a fixed) is decided for each row by its writer: `avro.py` in Python, `spark/formats/avro_writing.py` on
Spark.

Pure: schemas are JSON values here. Never asks a registry.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from typing import Any, Final

import fastavro

from headrace.pipeline.catalogue.catalogue import Column
from headrace.pipeline.statements.types import (
    VARCHAR,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    ScalarType,
    StructField,
    StructType,
)

_PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})

# The Avro types that each type of column may be written as; a logical type stands for its own.
_SCALARS: Final[dict[ScalarType, frozenset[str]]] = {
    ScalarType.BOOLEAN: frozenset({"boolean"}),
    ScalarType.INTEGER: frozenset({"int", "long"}),
    ScalarType.BIGINT: frozenset({"long"}),
    ScalarType.DOUBLE: frozenset({"double", "float"}),
    ScalarType.VARCHAR: frozenset({"string", "enum"}),
    ScalarType.BYTES: frozenset({"bytes", "fixed"}),
    ScalarType.DATE: frozenset({"date"}),
    ScalarType.TIME: frozenset({"time-millis"}),
    ScalarType.TIMESTAMP: frozenset({"timestamp-millis", "timestamp-micros"}),
}
_LOGICAL: Final = frozenset({"date", "time-millis", "timestamp-millis", "timestamp-micros", "decimal"})


class Definitions:
    """The named types of one schema: Avro defines a name where it first occurs, and later refers to it."""

    def __init__(self, schema: Any) -> None:
        self._named: dict[str, Any] = {}
        self._learn(schema, "")

    def followed(self, schema: Any) -> Any:
        """The definition, if the schema is a name."""
        if isinstance(schema, str) and schema not in _PRIMITIVES:
            return self._named.get(schema, schema)
        if isinstance(schema, dict) and isinstance(schema.get("type"), dict | list):
            return self.followed(schema["type"])
        return schema

    def branch(self, schema: Any) -> tuple[Any, bool]:
        """The one type besides null, and whether null is allowed. A union of several types stays a list."""
        found = self.followed(schema)
        if not isinstance(found, list):
            return found, found == "null"
        others = [each for each in found if each != "null"]
        return (self.followed(others[0]) if len(others) == 1 else others), "null" in found

    def _learn(self, schema: Any, namespace: str) -> None:
        if isinstance(schema, list):
            for branch in schema:
                self._learn(branch, namespace)
        elif isinstance(schema, dict):
            if "name" in schema and "type" in schema:
                namespace = schema.get("namespace", namespace)
                is_full = "." in schema["name"] or not namespace
                full = schema["name"] if is_full else f"{namespace}.{schema['name']}"
                self._named.setdefault(full, schema)
                self._named.setdefault(full.rpartition(".")[2], schema)
                namespace = full.rpartition(".")[0]
            for field in schema.get("fields", ()):
                self._learn(field["type"], namespace)
            for inner in ("items", "values", "type"):
                if isinstance(schema.get(inner), dict | list):
                    self._learn(schema[inner], namespace)

    def written_out(self, schema: Any) -> Any:
        """The schema with every name defined in it, to be used apart from its surroundings."""
        return self._written_out(schema, set())

    def _written_out(self, schema: Any, defined: set[str]) -> Any:
        if isinstance(schema, list):
            return [self._written_out(branch, defined) for branch in schema]
        if isinstance(schema, str):
            if schema in _PRIMITIVES or schema in defined or schema not in self._named:
                return schema
            return self._written_out(self._named[schema], defined)
        found = dict(schema)
        if "name" in found:
            defined |= {found["name"], f"{found.get('namespace', '')}.{found['name']}"}
        if "fields" in found:
            found["fields"] = [
                field | {"type": self._written_out(field["type"], defined)} for field in found["fields"]
            ]
        for inner in ("items", "values", "type"):
            if isinstance(found.get(inner), dict | list) or (inner in ("items", "values") and inner in found):
                found[inner] = self._written_out(found[inner], defined)
        return found


def form_of(schema: Any) -> str:
    """The name of a type; of one with a logical type that we know, the name of that."""
    if isinstance(schema, list):
        return "union"
    if not isinstance(schema, dict):
        return str(schema)
    logical = schema.get("logicalType")
    return str(logical) if logical in _LOGICAL else str(schema["type"])


def why_unfit(schema_text: str, columns: Iterable[Column], *, wrapped: bool) -> str | None:
    """Why rows of these columns cannot be written with the schema; None if they can."""
    schema = json.loads(schema_text)
    known = Definitions(schema)
    found = tuple(columns)
    if not wrapped:
        return _why_unfit(known, schema, found[0].type, found[0].name)
    row = StructType(tuple(StructField(column.name, column.type) for column in found))
    branch, _ = known.branch(schema)
    if form_of(branch) != "record":
        return f"it is not a record, but of type {form_of(branch)}"
    return _why_unfit_record(known, branch, row, "")


def _why_unfit(known: Definitions, schema: Any, kind: DataType, path: str) -> str | None:  # noqa: PLR0911 - one for each type
    branch, _ = known.branch(schema)
    form = form_of(branch)
    match kind:
        case ScalarType() if form in _SCALARS[kind]:
            return None
        case DecimalType() if form == "decimal":
            return None
        case ArrayType() if form == "array":
            return _why_unfit(known, branch["items"], kind.element, path)
        case MapType() if form == "map" and kind.key is VARCHAR:
            return _why_unfit(known, branch["values"], kind.value, path)
        case MapType() if form == "array":
            entry, _ = known.branch(branch["items"])
            if form_of(entry) == "record":
                parts = StructType((StructField("key", kind.key), StructField("value", kind.value)))
                return _why_unfit_record(known, entry, parts, f"{path}->")
        case StructType() if form == "record":
            return _why_unfit_record(known, branch, kind, f"{path}->")
        case _:
            pass
    return f"its type {form} for {path} does not hold {kind}"


def _why_unfit_record(known: Definitions, record: Any, kind: StructType, path: str) -> str | None:
    fields: dict[str, Any] = {}
    for field in record["fields"]:
        if fields.setdefault(field["name"].upper(), field) is not field:
            return (
                f"its fields {fields[field['name'].upper()]['name']} and {field['name']} differ only in case"
            )
    for part in kind.fields:
        field = fields.pop(part.name.upper(), None)
        if field is None:
            return f"it has no field for {path}{part.name}"
        reason = _why_unfit(known, field["type"], part.type, f"{path}{part.name}")
        if reason is not None:
            return reason
    for field in fields.values():
        branch, is_nullable = known.branch(field["type"])
        if not is_nullable and "default" not in field:
            return f"its field {path}{field['name']} has no default, and no column fills it"
        if has_default(field) and isinstance(branch, list):
            return f"its field {path}{field['name']} is a union of several types"
    return None


def has_default(field: Any) -> bool:
    """Whether a field that no column fills is written with something other than null."""
    return field.get("default") is not None


def default_bytes(known: Definitions, field: Any) -> tuple[bytes, str]:
    """The default of a field as an Avro body, and the schema to read it with."""
    schema = known.written_out(field["type"])
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), default_value(known, field))
    return body.getvalue(), json.dumps(schema)


def default_value(known: Definitions, field: Any) -> Any:
    """The default of a field as a value; in a schema, bytes are text with a character for each byte."""
    # The default of a union is one of its first type.
    schema = field["type"]
    first = schema[0] if isinstance(schema, list) else schema
    return _value(known, known.followed(first), field["default"])


def _value(known: Definitions, schema: Any, content: Any) -> Any:  # noqa: PLR0911 - one for each type
    if content is None:
        return None
    if isinstance(schema, list):
        return _value(known, known.followed(schema[0]), content)
    kind = schema["type"] if isinstance(schema, dict) else schema
    match kind:
        case "bytes" | "fixed":
            return str(content).encode("latin-1")
        case "array":
            return [_value(known, known.followed(schema["items"]), each) for each in content]
        case "map":
            inner = known.followed(schema["values"])
            return {name: _value(known, inner, each) for name, each in content.items()}
        case "record":
            return {
                field["name"]: _value(known, known.followed(field["type"]), content[field["name"]])
                if field["name"] in content
                else default_value(known, field)
                for field in schema["fields"]
            }
        case _:
            return content
