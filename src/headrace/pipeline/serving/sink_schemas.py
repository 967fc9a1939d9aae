"""Checks the schemas of a sink before its query exists: whether the registry would accept them, and whether
schemas that the statement names by their ids hold the columns.

The query finds or registers its schemas when it starts, in another process; a refusal there would come after
its statement was answered.
"""

from __future__ import annotations

from headrace.pipeline.catalogue.catalogue import Format, Source
from headrace.pipeline.formats import Schemas, avro_types
from headrace.pipeline.formats.avro_fit import why_unfit
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.position import Position


def check_sink_schemas(sink: Source, at: Position, *, schemas: Schemas) -> None:
    """Raises StatementError."""
    for side, columns, encoding in (
        ("key", sink.key, sink.key_encoding),
        ("value", sink.value, sink.value_encoding),
    ):
        if encoding.format is not Format.AVRO or not columns:
            continue
        wrapped = len(columns) > 1 or (side == "value" and encoding.wrapped is not False)
        if encoding.schema_id is not None:
            _check_named(sink, side, encoding.schema_id, at, schemas=schemas, wrapped=wrapped)
            continue
        text = avro_types.schema_text(columns, wrapped=wrapped, full_name=encoding.schema_name)
        subject = f"{sink.topic}-{side}"
        reason = schemas.why_not(subject, text)
        if reason is not None:
            raise StatementError(
                f"Cannot write {sink.name} to topic '{sink.topic}': the schema of its {side}s is "
                f"incompatible with subject '{subject}', {reason}",
                at,
                remedy=(
                    "Keep the names and types of the columns that are there, name another KAFKA_TOPIC, "
                    f"or set another level for the subject (PUT /config/{subject})."
                ),
            )


def _check_named(
    sink: Source, side: str, schema_id: int, at: Position, *, schemas: Schemas, wrapped: bool
) -> None:
    text = schemas.schema_by_id(schema_id)
    columns = sink.key if side == "key" else sink.value
    if text is None:
        raise StatementError(f"The registry has no schema with id {schema_id} for the {side}.", at)
    reason = why_unfit(text, columns, wrapped=wrapped)
    if reason is not None:
        raise StatementError(
            f"The {side} of {sink.name} cannot be written with the schema with id {schema_id}: {reason}.",
            at,
            remedy=f"Select what the schema has, or leave {side.upper()}_SCHEMA_ID out.",
        )
