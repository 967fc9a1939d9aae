"""The schema in a table's metadata as types of columns: Spark's JSON of a schema to a `Struct`, and back.

Types that the lake itself never writes (BYTE, SHORT, maps with other keys …) are refused: somebody else made
a table that has them. Pure.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from headrace.core.errors import HeadraceError
from headrace.lake.types import Array, Decimal, Field, Map, Simple, Struct, Type

_SIMPLE: Final = {
    "boolean": Simple.BOOLEAN,
    "integer": Simple.INT,
    "long": Simple.BIGINT,
    "float": Simple.FLOAT,
    "double": Simple.DOUBLE,
    "string": Simple.STRING,
    "binary": Simple.BINARY,
    "date": Simple.DATE,
    "timestamp": Simple.TIMESTAMP,
    "timestamp_ntz": Simple.TIMESTAMP_NTZ,
}
_NAMES: Final = {kind: name for name, kind in _SIMPLE.items()}
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def struct_of(schema: str, *, table: str) -> Struct:
    """Raises lake_unsupported, naming `table` and the column."""
    found = _type(json.loads(schema), table, "")
    assert isinstance(found, Struct)
    return found


def schema_of(columns: Struct) -> str:
    """The inverse of `struct_of`. Everything may be null."""
    return json.dumps(_schema(columns), separators=(",", ":"))


def _schema(kind: Type) -> Any:
    match kind:
        case Simple():
            return _NAMES[kind]
        case Decimal():
            return f"decimal({kind.precision},{kind.scale})"
        case Array():
            return {"type": "array", "elementType": _schema(kind.element), "containsNull": True}
        case Map():
            inner = _schema(kind.value)
            return {"type": "map", "keyType": "string", "valueType": inner, "valueContainsNull": True}
        case Struct():
            return {"type": "struct", "fields": [_field(each) for each in kind.fields]}


def _field(field: Field) -> dict[str, Any]:
    return {"name": field.name, "type": _schema(field.type), "nullable": True, "metadata": {}}


def _type(schema: Any, table: str, path: str) -> Type:
    if isinstance(schema, str):
        if schema in _SIMPLE:
            return _SIMPLE[schema]
        if (found := _DECIMAL.fullmatch(schema)) is not None:
            return Decimal(precision=int(found[1]), scale=int(found[2]))
        raise _unsupported(table, path, schema)
    match schema["type"]:
        case "struct":
            return Struct(
                fields=tuple(
                    Field(name=each["name"], type=_type(each["type"], table, f"{path}.{each['name']}"))
                    for each in schema["fields"]
                )
            )
        case "array":
            return Array(element=_type(schema["elementType"], table, f"{path}[]"))
        case "map" if schema["keyType"] == "string":
            return Map(value=_type(schema["valueType"], table, f"{path}[]"))
        case other:
            raise _unsupported(table, path, str(other))


def _unsupported(table: str, path: str, kind: str) -> HeadraceError:
    return HeadraceError(
        "lake_unsupported",
        f"Column {path.lstrip('.')} of table {table} has the type {kind}, which the lake does not write.",
        remedy="Move the table away, or let the connector write to another folder (topics.dir).",
    )
