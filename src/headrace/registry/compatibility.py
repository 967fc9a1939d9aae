"""Checks a new schema of a subject against its compatibility level.

Messages have Confluent's form, which users search for. Pure; what can be read with what is up to the folder
of each type.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from headrace.core.errors import HeadraceError
from headrace.registry.avro.messages import why_unreadable as why_avro_unreadable
from headrace.registry.json_schema.messages import why_unreadable as why_json_unreadable
from headrace.registry.level import Level
from headrace.registry.protobuf.messages import why_unreadable as why_protobuf_unreadable
from headrace.registry.records import SchemaRecord
from headrace.registry.schema import AVRO, JSON, PROTOBUF, Schema


class _Check(Protocol):
    def __call__(self, reader: Any, writer: Any, /, *, reader_name: str, writer_name: str) -> list[str]: ...


_CHECKS: Final[dict[str, _Check]] = {
    AVRO: why_avro_unreadable,
    JSON: why_json_unreadable,
    PROTOBUF: why_protobuf_unreadable,
}
_MOST_MESSAGES: Final = 100
_KEPT: Final = 256


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
    level: Level,
    schema: Schema[object],
    versions: Sequence[SchemaRecord],
    read: Callable[[SchemaRecord], Schema[object] | None],
) -> Incompatibility | None:
    """None if the level allows the schema after these versions of its subject, which are in order.

    `read` gives the schema of a version, or None if it cannot be read.
    """
    if level is Level.NONE:
        return None
    for record in reversed(versions if level.is_transitive else versions[-1:]):
        messages = _messages(level, schema, record, read)
        if messages:
            return Incompatibility(
                level=level,
                version=record.version,
                messages=(
                    *messages[:_MOST_MESSAGES],
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


def _messages(
    level: Level,
    new: Schema[object],
    record: SchemaRecord,
    read: Callable[[SchemaRecord], Schema[object] | None],
) -> list[str]:
    if record.schema_type != new.schema_type:
        return ["Incompatible because of different schema type"]
    old = read(record)
    if old is None:
        # Another registry has accepted it.
        return [f"Version {record.version} cannot be compared with: it is not valid {record.schema_type}"]
    found: list[str] = []
    if level.old_reads_new:
        found += _why_unreadable(new.schema_type, old.content, new.content, "old", "new")
    if level.new_reads_old:
        found += _why_unreadable(new.schema_type, new.content, old.content, "new", "old")
    return found


@functools.lru_cache(_KEPT)
def _why_unreadable(
    schema_type: str, reader: object, writer: object, reader_name: str, writer_name: str
) -> tuple[str, ...]:
    """Remembered: a registration is checked before it is proposed, and again when it is decided on."""
    return tuple(_CHECKS[schema_type](reader, writer, reader_name=reader_name, writer_name=writer_name))
