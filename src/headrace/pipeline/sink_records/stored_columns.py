"""The record's key and headers as columns of the table, where a sink stores them, and the value's own."""

from __future__ import annotations

from typing import Final

from headrace.core.errors import HeadraceError
from headrace.lake.avro_columns import VALUE
from headrace.lake.sink import LakeSink
from headrace.lake.types import Array, Field, Simple, Struct
from headrace.pipeline.sink_records.columns import C
from headrace.pipeline.sink_records.records import NamedColumn, Record, Typed
from headrace.pipeline.sink_records.transforms.applying import needs_key

KEY: Final = "_KEY"
HEADERS: Final = "_HEADERS"
HEADERS_TYPE: Final = Array(
    element=Struct(
        fields=(Field(name="key", type=Simple.STRING), Field(name="value", type=Simple.BINARY)),
    )
)


def reads_keys(sink: LakeSink) -> bool:
    return sink.stores_keys or needs_key(sink.transformations)


def stored_columns(
    record: Record[C], *, stores_keys: bool, stores_headers: bool
) -> tuple[NamedColumn[C], ...]:
    """`_KEY` has the type of the key. Raises lake_unsupported if the value has a field of such a name."""
    found = []
    if stores_keys:
        assert record.key is not None, "the key is stored, but not read"
        found.append(NamedColumn(field=Field(name=KEY, type=record.key.type), column=record.key.column))
    if stores_headers:
        found.append(NamedColumn(field=Field(name=HEADERS, type=HEADERS_TYPE), column=record.headers))
    kind = record.value.type
    for each in found:
        if isinstance(kind, Struct) and kind.find(each.name) is not None:
            raise HeadraceError(
                "lake_unsupported",
                f"The table cannot have a field {each.name} of the value: it has a column of that name.",
                remedy="Rename the field with the transformation ReplaceField.",
            )
    return tuple(found)


def value_columns(value: Typed[C]) -> tuple[NamedColumn[C], ...]:
    """A value without fields is in a column of its own."""
    if isinstance(value.type, Struct):
        return value.fields
    return (NamedColumn(field=Field(name=VALUE, type=value.type), column=value.columns[0]),)
