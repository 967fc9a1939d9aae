"""Fields of fields, by a path with dots."""

from __future__ import annotations

from headrace.lake.types import Struct
from headrace.pipeline.spark.lake.records import NamedColumn, Typed


def nested_field(path: str, value: Typed) -> NamedColumn | None:
    """By the names with dots between them, whatever their case."""
    inner = value
    found: NamedColumn | None = None
    for name in path.split("."):
        if found is not None:
            if not isinstance(found.field.type, Struct):
                return None
            inner = Typed.of(found.field.type, found.column)
        found = next((each for each in inner.fields if each.name.casefold() == name.casefold()), None)
        if found is None:
            return None
    return found
