"""Says why data of one Avro schema cannot be read with another: in Confluent's form, which users search for,
and also naming the field.
"""

from __future__ import annotations

from typing import Final

from headrace.registry.avro.resolution import (
    FIXED_SIZE_MISMATCH,
    MISSING_ENUM_SYMBOLS,
    MISSING_UNION_BRANCH,
    NAME_MISMATCH,
    READER_FIELD_MISSING_DEFAULT_VALUE,
    TYPE_MISMATCH,
    Fault,
    faults,
)
from headrace.registry.avro.schema_tree import Node

# By kind of fault; `{reader}` and `{writer}` become "new" or "old".
_DESCRIPTIONS: Final = {
    FIXED_SIZE_MISMATCH: (
        "The size of FIXED type field at path '{path}' in the {reader} schema does not match with the "
        "{writer} schema"
    ),
    TYPE_MISMATCH: (
        "The type (path '{path}') of a field in the {reader} schema does not match with the {writer} schema"
    ),
    NAME_MISMATCH: "The name of the schema has changed (path '{path}')",
    MISSING_ENUM_SYMBOLS: (
        "The {reader} schema is missing enum symbols '{reason}' at path '{path}' in the {writer} schema"
    ),
    MISSING_UNION_BRANCH: (
        "The {reader} schema is missing a type inside a union field at path '{path}' in the {writer} schema"
    ),
    READER_FIELD_MISSING_DEFAULT_VALUE: (
        "The field '{reason}' at path '{path}' in the {reader} schema has no default value and is missing in "
        "the {writer} schema"
    ),
}


def why_unreadable(reader: Node, writer: Node, *, reader_name: str, writer_name: str) -> list[str]:
    """Empty if data of the writer can be read with the reader; the names are "new" and "old"."""
    return [_described(fault, reader=reader_name, writer=writer_name) for fault in faults(reader, writer)]


def _described(fault: Fault, *, reader: str, writer: str) -> str:
    description = _DESCRIPTIONS[fault.kind].format(
        path=fault.location, reason=fault.reason, reader=reader, writer=writer
    )
    # Confluent gives only the path, in which fields are numbers.
    where = f" (field '{fault.field}')" if fault.field and fault.field != fault.reason else ""
    return (
        f"{{errorType:'{fault.kind}', description:'{description}', additionalInfo:'{fault.reason}{where}'}}"
    )
