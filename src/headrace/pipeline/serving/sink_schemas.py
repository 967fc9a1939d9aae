"""Checks that the registry would accept the schemas of a sink, before its query exists.

The query registers its schemas when it starts, in another process; a refusal there would come after its
statement was answered.
"""

from __future__ import annotations

from headrace.pipeline.catalogue.catalogue import Format, Source
from headrace.pipeline.formats import Schemas, avro_types
from headrace.pipeline.statements.errors import StatementError
from headrace.pipeline.statements.position import Position


def check_sink_schemas(sink: Source, at: Position, *, schemas: Schemas) -> None:
    """Raises StatementError if a schema of the sink is incompatible with its subject."""
    for side, columns, encoding in (
        ("key", sink.key, sink.key_encoding),
        ("value", sink.value, sink.value_encoding),
    ):
        if encoding.format is not Format.AVRO or encoding.schema_id is not None or not columns:
            continue
        wrapped = len(columns) > 1 or (side == "value" and encoding.wrapped is not False)
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
