"""ReplaceField: leaves out fields, or renames them."""

from __future__ import annotations

from dataclasses import replace

from headrace.lake.sink import Transformation
from headrace.pipeline.sink_records.columns import C
from headrace.pipeline.sink_records.records import NamedColumn, Record, Typed
from headrace.pipeline.sink_records.transforms.changes import (
    ChangedSide,
    require_distinct,
    require_struct,
    texts,
)
from headrace.pipeline.sink_tables import refused


def replace_field(typed: Typed[C], step: Transformation, _: Record[C]) -> ChangedSide[C]:
    exclude, include = texts(step, "exclude", "blacklist"), texts(step, "include", "whitelist")
    renames = _renames(step)
    sources = {new: old for old, new in renames.items()}
    fields = []
    for each in require_struct(typed, step).fields:
        if each.name in exclude or (include and each.name not in include):
            continue
        name = renames.get(each.name, each.name)
        # Kafka looks for the value by the new name: a rename of another field to this name takes its value.
        source = typed.find(sources.get(name, name)) if typed.has_schema else each
        if source is None or source.field.type != each.field.type:
            raise refused(step, f"renames {sources[name]} to {name}, which is another field")
        fields.append(NamedColumn(field=replace(each.field, name=name), column=source.column))
    return ChangedSide(typed=typed.with_fields(require_distinct(fields, step)))


def _renames(step: Transformation) -> dict[str, str]:
    found = {}
    for each in texts(step, "renames"):
        old, _, new = each.partition(":")
        if not old or not new or ":" in new:
            raise refused(step, f"has an invalid item in renames: {each!r}")
        found[old] = new
    return found
