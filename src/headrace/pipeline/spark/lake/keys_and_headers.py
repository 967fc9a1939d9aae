"""The record's key and headers as columns of the table, where a sink stores them."""

from __future__ import annotations

from headrace.core.errors import HeadraceError
from headrace.lake.types import Field, Struct
from headrace.pipeline.sink_records.stored_names import HEADERS, HEADERS_TYPE, KEY
from headrace.pipeline.spark.lake.records import NamedColumn, Record


def stored_columns(record: Record, *, stores_keys: bool, stores_headers: bool) -> tuple[NamedColumn, ...]:
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
