"""Fields of fields, by a path with dots."""

from __future__ import annotations

from headrace.lake.types import Struct
from headrace.pipeline.sink_records.columns import C
from headrace.pipeline.sink_records.records import NamedColumn, Typed, typed


def nested_field(path: str, value: Typed[C]) -> NamedColumn[C] | None:
    """By the names with dots between them, whatever their case."""
    inner = value
    found: NamedColumn[C] | None = None
    for name in path.split("."):
        if found is not None:
            if not isinstance(found.field.type, Struct):
                return None
            inner = typed(value.made_by, found.field.type, found.column)
        found = next((each for each in inner.fields if each.name.casefold() == name.casefold()), None)
        if found is None:
            return None
    return found
