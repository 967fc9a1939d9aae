"""Runs the transformations of a sink, in their order, each on the records that its predicate chooses.

A predicate on the topic's name is decided here; others for each record. Then the records that a
transformation leaves alone keep their old type, and the table needs one for all: fields that are in only one
of the two are null in the other, and a field with two types is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from headrace.lake.sink import Transformation
from headrace.lake.types import Simple, Struct, ddl
from headrace.pipeline.sink_records.columns import C
from headrace.pipeline.sink_records.records import NamedColumn, Record, Typed
from headrace.pipeline.sink_records.transforms.cast_fields import cast
from headrace.pipeline.sink_records.transforms.changes import Change, Changed, on_side
from headrace.pipeline.sink_records.transforms.insert_field import insert_field
from headrace.pipeline.sink_records.transforms.mask_field import mask_field
from headrace.pipeline.sink_records.transforms.nesting import (
    extract_field,
    flatten,
    hoist_field,
    value_to_key,
)
from headrace.pipeline.sink_records.transforms.predicates import applies
from headrace.pipeline.sink_records.transforms.regex_router import regex_router
from headrace.pipeline.sink_records.transforms.replace_field import replace_field
from headrace.pipeline.sink_records.transforms.timestamp_converter import timestamp_converter
from headrace.pipeline.sink_tables import refused


def _unchanged(record: Record[C], _: Transformation) -> Changed[C]:
    """Names and versions of schemas have no place in a table."""
    return Changed(record=record)


def _filtered(record: Record[C], _: Transformation) -> Changed[C]:
    return Changed(record=replace(record, keep=record.made_by.constant(False, Simple.BOOLEAN)))


KINDS: Final[Mapping[str, Change]] = {
    "Cast": on_side(cast),
    "ExtractField": on_side(extract_field),
    "Filter": _filtered,
    "Flatten": on_side(flatten),
    "HoistField": on_side(hoist_field),
    "InsertField": on_side(insert_field),
    "MaskField": on_side(mask_field),
    "RegexRouter": regex_router,
    "ReplaceField": on_side(replace_field),
    "SetSchemaMetadata": _unchanged,
    "TimestampConverter": on_side(timestamp_converter),
    "ValueToKey": value_to_key,
}


def transformed(record: Record[C], steps: Sequence[Transformation]) -> Record[C]:
    """The record after all steps. Raises lake_unsupported if a step cannot work on records of this type."""
    for step in steps:
        record = _after(record, step)
    return record


def needs_key(steps: Iterable[Transformation]) -> bool:
    """Whether a transformation changes the key, so that it must be read even if it is not stored."""
    return any(step.side == "key" for step in steps)


def _after(record: Record[C], step: Transformation) -> Record[C]:
    chosen = applies(step, record)
    if chosen is False:
        return record
    change = KINDS.get(step.kind)
    if change is None:
        raise refused(step, "is not supported")
    changed = change(record, step)
    new, reason = changed.record, changed.reason
    if chosen is not True:
        new = _chosen(chosen, new, record, step)
        reason = None if reason is None else record.made_by.when(chosen, reason)
    if new.keep is not None and record.keep is not None and new.keep is not record.keep:
        new = replace(new, keep=record.made_by.both(record.keep, new.keep))
    return new.failing(reason)


def _chosen(chosen: C, new: Record[C], old: Record[C], step: Transformation) -> Record[C]:
    """The new record where it is chosen, otherwise the old one."""
    if new.topic != old.topic:
        raise refused(step, "changes the topic of some records only; a table needs all records of a topic")
    if new.keep is not old.keep:
        new = replace(new, keep=old.made_by.opposite(chosen))
    if new.key is not old.key:
        # Made up of the value: there was none that was read.
        before = old.key or (new.key and _null(new.key))
        assert new.key is not None
        assert before is not None
        new = replace(new, key=_either(chosen, new.key, before, step, "key"))
    if new.value is not old.value:
        # Tombstones have no value of the old type.
        is_null = step.predicate is not None and step.predicate.kind == "RecordIsTombstone" and step.negate
        before = _null(new.value) if is_null else old.value
        new = replace(new, value=_either(chosen, new.value, before, step, "value"))
    return new


def _null(typed: Typed[C]) -> Typed[C]:
    return typed.with_value(typed.type, typed.made_by.null(typed.type))


def _either(chosen: C, new: Typed[C], old: Typed[C], step: Transformation, side: str) -> Typed[C]:
    columns = new.made_by
    present = columns.when(chosen, new.present, old.present)
    if not isinstance(new.type, Struct) or not isinstance(old.type, Struct):
        if new.type != old.type:
            raise refused(
                step, f"makes the {side} {ddl(new.type)} for some records and {ddl(old.type)} for others"
            )
        column = columns.when(chosen, new.columns[0], old.columns[0])
        return replace(new, columns=(column,), present=present)
    before = {each.name.casefold(): each for each in old.fields}
    after = {each.name.casefold(): each for each in new.fields}
    fields = []
    for name, each in (before | after).items():
        first, second = before.get(name), after.get(name)
        if first is not None and second is not None and first.field.type != second.field.type:
            types = f"{ddl(second.field.type)} for some records and {ddl(first.field.type)} for others"
            raise refused(step, f"makes the field {each.name} {types}")
        if first is not None and second is not None and first.column is second.column:
            column = first.column
        else:
            empty = columns.null(each.field.type)
            column = columns.when(
                chosen, second.column if second else empty, first.column if first else empty
            )
        fields.append(NamedColumn(field=each.field, column=column))
    return replace(new.with_fields(fields), present=present)
