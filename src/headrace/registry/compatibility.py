"""Checks a new schema of a subject against its compatibility level.

Messages have Confluent's form, which users search for, and also name the field. Pure; Avro's rules are in
`resolution.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.core.errors import HeadraceError
from headrace.registry.avro import AvroSchema, read_avro
from headrace.registry.level import Level
from headrace.registry.records import AVRO, SchemaRecord
from headrace.registry.resolution import (
    FIXED_SIZE_MISMATCH,
    MISSING_ENUM_SYMBOLS,
    MISSING_UNION_BRANCH,
    NAME_MISMATCH,
    READER_FIELD_MISSING_DEFAULT_VALUE,
    TYPE_MISMATCH,
    Fault,
    faults,
)
from headrace.registry.schema_tree import Node

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Incompatibility:
    """The first version that a schema is not compatible with, and why."""

    level: Level
    version: int
    # In Confluent's form. The last three give version, schema and level.
    messages: tuple[str, ...]

    @property
    def reasons(self) -> tuple[str, ...]:
        """The messages without the last three."""
        return self.messages[:-3]


def incompatibility(
    level: Level, schema: AvroSchema, versions: Sequence[SchemaRecord]
) -> Incompatibility | None:
    """None if the level allows the schema after these versions of its subject, which are in order."""
    if level is Level.NONE:
        return None
    for record in reversed(versions if level.is_transitive else versions[-1:]):
        messages = _messages(level, schema.tree, record)
        if messages:
            return Incompatibility(
                level=level,
                version=record.version,
                messages=(
                    *messages,
                    f"{{oldSchemaVersion: {record.version}}}",
                    f"{{oldSchema: '{record.schema}'}}",
                    f"{{validateFields: 'false', compatibility: '{level.value}'}}",
                ),
            )
    return None


def refusal(subject: str, found: Incompatibility) -> HeadraceError:
    return HeadraceError(
        "incompatible_schema",
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}", '
        f"details: [{', '.join(found.messages)}]",
        remedy=(
            f"Change the schema so that {found.level.value} holds against version {found.version}, "
            f"or set another level for the subject (PUT /config/{subject})."
        ),
    )


def _messages(level: Level, new: Node, record: SchemaRecord) -> list[str]:
    if record.schema_type != AVRO:
        return ["Incompatible because of different schema type"]
    try:
        old = read_avro(record.schema).tree
    except HeadraceError as error:
        # Another registry accepted it, or it needs references, which are not supported.
        return [f"Version {record.version} cannot be compared with: {error.message}"]
    found: list[str] = []
    if level.old_reads_new:
        found += [_described(fault, reader="old", writer="new") for fault in faults(old, new)]
    if level.new_reads_old:
        found += [_described(fault, reader="new", writer="old") for fault in faults(new, old)]
    return found


def _described(fault: Fault, *, reader: str, writer: str) -> str:
    description = _DESCRIPTIONS[fault.kind].format(
        path=fault.location, reason=fault.reason, reader=reader, writer=writer
    )
    # Confluent gives only the path, in which fields are numbers.
    where = f" (field '{fault.field}')" if fault.field and fault.field != fault.reason else ""
    return (
        f"{{errorType:'{fault.kind}', description:'{description}', additionalInfo:'{fault.reason}{where}'}}"
    )
