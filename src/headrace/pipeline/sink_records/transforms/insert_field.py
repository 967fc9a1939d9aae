"""InsertField: fields with the record's topic, partition, offset and timestamp, or a constant text."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.lake.sink import Transformation
from headrace.lake.types import Field, Simple, Type
from headrace.pipeline.sink_records.columns import C
from headrace.pipeline.sink_records.records import NamedColumn, Record, Typed
from headrace.pipeline.sink_records.transforms.changes import (
    ChangedSide,
    require_distinct,
    require_struct,
    text,
)
from headrace.pipeline.sink_tables import refused


def insert_field(typed: Typed[C], step: Transformation, record: Record[C]) -> ChangedSide[C]:
    """Null stays null. Without a schema, a field of the same name is overwritten, and the timestamp is in
    milliseconds.
    """
    fields = list(require_struct(typed, step).fields)
    added = [
        NamedColumn(field=Field(name=name, type=kind), column=typed.made_by.when(typed.present, column))
        for name, kind, column in _inserted(step, record, has_schema=typed.has_schema)
    ]
    if not added:
        raise refused(step, "inserts no field")
    if not typed.has_schema:
        overwritten = {each.name for each in added}
        fields = [each for each in fields if each.name not in overwritten]
    return ChangedSide(typed=typed.with_fields(require_distinct([*fields, *added], step)))


def _inserted(step: Transformation, record: Record[C], *, has_schema: bool) -> Iterator[tuple[str, Type, C]]:
    columns = record.made_by
    if "topic.field" in step.settings:
        yield _name(step, "topic.field"), Simple.STRING, columns.constant(record.topic, Simple.STRING)
    if "partition.field" in step.settings:
        yield _name(step, "partition.field"), Simple.INT, record.partition
    if "offset.field" in step.settings:
        yield _name(step, "offset.field"), Simple.BIGINT, record.offset
    if "timestamp.field" in step.settings:
        name = _name(step, "timestamp.field")
        if has_schema:
            yield name, Simple.TIMESTAMP, record.timestamp
        else:
            yield name, Simple.BIGINT, columns.moment(record.timestamp)
    if "static.field" in step.settings:
        yield (
            _name(step, "static.field"),
            Simple.STRING,
            columns.constant(text(step, "static.value"), Simple.STRING),
        )


def _name(step: Transformation, setting: str) -> str:
    """Without the mark that makes the field optional or required: columns of the lake are all optional."""
    found = step.settings[setting]
    return found[:-1] if found.endswith(("?", "!")) else found
